"""Whether a measurement agrees with a published one. Published studies give a ratio, rarely an interval."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log
from typing import Literal

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
    """The answer, the fact it rests on, and what was compared.

    `because`: nothing was decided ("exploratory", "undecided"); "both within" the margin; an "equivalent" interval that
    does not reach the published ratio, or one that "contains both" it and no change; the published ratio is "inside" or
    "outside" the interval, or in the "opposite" direction.
    """

    agreement: Agreement
    because: Literal[
        "exploratory", "undecided", "both within", "equivalent", "contains both", "inside", "outside", "opposite"
    ]
    published: float
    verdict: str
    low: float
    high: float
    margin: float


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
        return Comparison(Agreement.CANNOT_TELL, "exploratory", published, "", 0.0, 0.0, margin)
    if verdict not in DECIDED or ci_low is None or ci_high is None:
        return Comparison(Agreement.CANNOT_TELL, "undecided", published, verdict, 0.0, 0.0, margin)
    compared = published, verdict, ci_low, ci_high, margin
    outside = published + rounding < ci_low or published - rounding > ci_high
    if verdict == "equivalent":
        if abs(log(published)) <= log(1.0 + margin) + 1e-12:
            return Comparison(Agreement.AGREES, "both within", *compared)
        if outside:
            return Comparison(Agreement.DISAGREES, "equivalent", *compared)
        return Comparison(Agreement.CANNOT_TELL, "contains both", *compared)
    if outside:
        opposite = published < 1.0 if verdict == "higher" else published > 1.0
        return Comparison(Agreement.DISAGREES, "opposite" if opposite else "outside", *compared)
    return Comparison(Agreement.AGREES, "inside", *compared)
