"""Whether a measurement agrees with a published one. Published studies give a ratio, rarely an interval."""

from __future__ import annotations

from enum import StrEnum
from math import log

from mydyno.errors import BugError
from mydyno.model.stored.fact import Because, ComparedRatio
from mydyno.model.stored.summary import EffectRecord


class Agreement(StrEnum):
    """The three answers; "cannot tell" is one of them and not a failure."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    CANNOT_TELL = "cannot tell"


DECIDED = ("higher", "lower", "equivalent")
"""Verdicts that say something definite."""
DECIDED_BY_INTERVAL = {"seems_different", "permutation_alone"}
"""Facts of an inconclusive effect that leave its interval valid: it was given at a look, and nothing contradicts it."""


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


def compare(published: float, effect: EffectRecord, rounding: float = 0.0, margin: float = 0.02) -> ComparedRatio:
    """Compares a published ratio with our effect and its verdict, None where it is exploratory.

    `rounding` is half of the last digit the publication prints, as a fraction (0.005 for "+25 %"); the published ratio
    is anywhere within it. With higher or lower: agrees where our interval reaches it, disagrees elsewhere. With
    equivalent: agrees where the publication too has no change within the margin, disagrees where its ratio lies outside
    our interval. Inconclusive: disagrees where its ratio lies outside our interval, unless that is of blocks between
    two looks, of too few blocks, or in doubt. Anything else cannot tell. Raises BugError for ratios not above 0.
    """
    if not published > 0.0 or not 0.0 <= rounding < published:
        raise BugError(
            f"a published ratio must be above 0 and its rounding smaller than it, not {published!r}, {rounding!r}"
        )
    verdict, ci_low, ci_high = effect.verdict, effect.ci_low, effect.ci_high
    numbers = {"published": published, "margin": margin}
    if verdict is None:
        return ComparedRatio(because="exploratory", verdict="", low=0.0, high=0.0, **numbers)
    undecided = ComparedRatio(because="undecided", verdict=verdict, low=0.0, high=0.0, **numbers)
    if ci_low is None or ci_high is None:
        return undecided
    outside = published + rounding < ci_low or published - rounding > ci_high
    if verdict not in DECIDED and not (outside and _has_valid_interval(effect)):
        return undecided
    because: Because
    if verdict == "equivalent":
        within = abs(log(published)) <= log(1.0 + margin) + 1e-12
        because = "both within" if within else "equivalent" if outside else "contains both"
    elif outside:
        opposite = (verdict == "higher" and published < 1.0) or (verdict == "lower" and published > 1.0)
        because = "opposite" if opposite else "outside"
    else:
        because = "inside"
    return ComparedRatio(because=because, verdict=verdict, low=ci_low, high=ci_high, **numbers)


def _has_valid_interval(effect: EffectRecord) -> bool:
    """Whether an effect without a definite verdict can be compared by its interval alone."""
    return effect.verdict == "inconclusive" and {one.fact for one in effect.details.facts} <= DECIDED_BY_INTERVAL
