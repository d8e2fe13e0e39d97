"""Whether a measurement agrees with a published one. Published studies give a ratio, rarely an interval."""

from __future__ import annotations

from enum import StrEnum
from math import log

from mydyno.errors import BugError
from mydyno.model.stored.fact import Because, ComparedRatio


class Agreement(StrEnum):
    """The three answers; "cannot tell" is one of them and not a failure."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    CANNOT_TELL = "cannot tell"


DECIDED = ("higher", "lower", "equivalent")
"""Verdicts that say something definite."""


AGREEMENT = {
    "exploratory": Agreement.CANNOT_TELL,
    "undecided": Agreement.CANNOT_TELL,
    "contains both": Agreement.CANNOT_TELL,
    "both within": Agreement.AGREES,
    "inside": Agreement.AGREES,
    "equivalent": Agreement.DISAGREES,
    "outside": Agreement.DISAGREES,
    "opposite": Agreement.DISAGREES,
}
"""What a comparison rests on → its answer."""


def compare(
    published: float,
    verdict: str | None,
    ci_low: float | None,
    ci_high: float | None,
    rounding: float = 0.0,
    margin: float = 0.02,
) -> ComparedRatio:
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
    numbers = {"published": published, "margin": margin}
    if verdict is None:
        return ComparedRatio(because="exploratory", verdict="", low=0.0, high=0.0, **numbers)
    if verdict not in DECIDED or ci_low is None or ci_high is None:
        return ComparedRatio(because="undecided", verdict=verdict, low=0.0, high=0.0, **numbers)
    outside = published + rounding < ci_low or published - rounding > ci_high
    because: Because
    if verdict == "equivalent":
        within = abs(log(published)) <= log(1.0 + margin) + 1e-12
        because = "both within" if within else "equivalent" if outside else "contains both"
    elif outside:
        opposite = published < 1.0 if verdict == "higher" else published > 1.0
        because = "opposite" if opposite else "outside"
    else:
        because = "inside"
    return ComparedRatio(because=because, verdict=verdict, low=ci_low, high=ci_high, **numbers)
