"""Whether a measurement agrees with a published one. Published studies give a ratio, rarely an interval."""

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


DECIDED = ("higher", "lower", "equivalent")
"""Verdicts that say something definite."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer, and the fact it rests on as a clause that can follow the answer and a colon."""

    agreement: Agreement
    because: str


def compare(
    published: float,
    verdict: str | None,
    ci_low: float | None,
    ci_high: float | None,
    rounding: float = 0.0,
    margin: float = 0.02,
) -> Comparison:
    """Compares a published ratio with our verdict: higher, lower, equivalent, another, or None (exploratory).

    `rounding` is half of the last digit the publication prints, as a fraction (0.005 for "+25 %"); the published ratio
    is anywhere within it. With higher or lower: agrees where our interval reaches it, disagrees elsewhere. With
    equivalent: agrees where the publication too has no change within the margin, disagrees where its ratio lies outside
    our interval. Anything else cannot tell, whatever the interval: it was not decided. Raises BugError for ratios not
    above 0.
    """
    if not published > 0.0 or not 0.0 <= rounding < published:
        raise BugError(
            f"a published ratio must be above 0 and its rounding smaller than it, not {published!r}, {rounding!r}"
        )
    if verdict is None:
        return Comparison(Agreement.CANNOT_TELL, "the metric is exploratory in this study, so nothing was decided")
    if verdict not in DECIDED or ci_low is None or ci_high is None:
        return Comparison(Agreement.CANNOT_TELL, f"this study's own verdict is {verdict.replace('_', ' ')}")
    of_study, ours = f"{_percent(published)}", f"[{_percent(ci_low)}, {_percent(ci_high)}]"
    outside = published + rounding < ci_low or published - rounding > ci_high
    if verdict == "equivalent":
        if abs(log(published)) <= log(1.0 + margin) + 1e-12:
            within = f"±{margin:.1%}".replace("%", " %")
            return Comparison(Agreement.AGREES, f"both are within {within}: here {ours}")
        if outside:
            return Comparison(Agreement.DISAGREES, f"the published {of_study} lies outside {ours}, equivalent here")
        return Comparison(Agreement.CANNOT_TELL, f"the interval {ours} contains the published {of_study} and no change")
    if outside:
        opposite = published < 1.0 if verdict == "higher" else published > 1.0
        way = "points the other way" if opposite else "lies outside"
        return Comparison(Agreement.DISAGREES, f"the published {of_study} {way}: measured here {ours}, {verdict}")
    return Comparison(Agreement.AGREES, f"the published {of_study} lies inside {ours}, {verdict}")


def _percent(ratio: float) -> str:
    if ratio > 10.0:
        return "more than +900 %"  # an interval this wide says nothing more by its digits
    return f"{(ratio - 1.0) * 100.0:+.1f} %".replace("-", "−")
