"""Does our measurement agree with a published one? Published studies give a ratio, rarely an interval."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log

from mydyno.errors import BugError


class Agreement(StrEnum):
    """The three answers; "cannot tell" is one of them and not a failure."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer, and the fact it rests on as a clause that can follow the answer and a colon."""

    agreement: Agreement
    because: str


def compare(
    published: float, ci_low: float | None, ci_high: float | None, rounding: float = 0.0, margin: float = 0.02
) -> Comparison:
    """Compares a published ratio with our 95 % interval.

    `rounding` is half of the last digit the publication prints, as a fraction (0.005 for "+25 %"); the published ratio
    is anywhere within it. disagrees: our interval does not reach it. agrees: our interval reaches it and can tell it
    from no change at all, or the publication itself says no change within the margin and so do we. cannot tell: no
    interval, or one so wide that both the published ratio and its absence fit. Raises BugError for ratios not above 0.
    """
    if not published > 0.0 or not 0.0 <= rounding < published:
        raise BugError(
            f"a published ratio must be above 0 and its rounding smaller than it, not {published!r}, {rounding!r}"
        )
    if ci_low is None or ci_high is None:
        return Comparison(Agreement.CANNOT_TELL, "there are too few valid blocks for an interval")
    said, ours = f"{_percent(published)}", f"[{_percent(ci_low)}, {_percent(ci_high)}]"
    if published + rounding < ci_low or published - rounding > ci_high:
        opposite = (published - 1.0) * (ci_low - 1.0) < 0.0 and (ci_low - 1.0) * (ci_high - 1.0) > 0.0
        way = "points the other way" if opposite else "lies outside"
        return Comparison(Agreement.DISAGREES, f"the published {said} {way}: measured here {ours}")
    if abs(log(published)) <= log(1.0 + margin) + 1e-12:
        if 1.0 - margin < ci_low and ci_high < 1.0 + margin:
            return Comparison(Agreement.AGREES, f"both are within ±{margin:.1%}".replace("%", " %") + f": here {ours}")
        return Comparison(
            Agreement.CANNOT_TELL, f"the interval {ours} is wider than the margin around the published {said}"
        )
    if ci_low <= 1.0 <= ci_high:
        return Comparison(Agreement.CANNOT_TELL, f"the interval {ours} holds the published {said} and no change alike")
    return Comparison(Agreement.AGREES, f"the published {said} lies inside {ours}")


def _percent(ratio: float) -> str:
    if ratio > 10.0:
        return "more than +900 %"  # an interval this wide says nothing more by its digits
    return f"{(ratio - 1.0) * 100.0:+.1f} %".replace("-", "−")
