"""Whether a measurement agrees with a published one. Published studies give a ratio, rarely an interval."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from math import log

from mydyno.errors import BugError
from mydyno.model.stored.fact import Because, ComparedRatio
from mydyno.model.stored.summary import EffectRecord


class Agreement(StrEnum):
    """The four answers; "cannot tell" is one of them and not a failure."""

    AGREES = "agrees"
    PARTLY = "partly"
    """The same direction is shown, and another size."""
    DISAGREES = "disagrees"
    CANNOT_TELL = "cannot tell"


DECIDED_BY_INTERVAL = {"seems_different", "permutation_alone"}
"""Facts of an inconclusive effect that leave its interval valid: it was given at a look, and nothing contradicts it."""


AGREEMENT = {
    "exploratory": Agreement.CANNOT_TELL,
    "undecided": Agreement.CANNOT_TELL,
    "contains both": Agreement.CANNOT_TELL,
    "both within": Agreement.AGREES,
    "inside": Agreement.AGREES,
    "near": Agreement.AGREES,
    "another size": Agreement.PARTLY,
    "equivalent": Agreement.DISAGREES,
    "outside": Agreement.DISAGREES,
    "opposite": Agreement.DISAGREES,
}
"""What a comparison rests on → its answer."""


def all_of(answers: Collection[Agreement]) -> Agreement:
    """One answer from several: the one that all give; where they differ, partly if any agrees or agrees partly."""
    if not answers or set(answers) == {Agreement.CANNOT_TELL}:
        return Agreement.CANNOT_TELL
    if set(answers) <= {Agreement.DISAGREES, Agreement.CANNOT_TELL}:
        return Agreement.DISAGREES
    if set(answers) <= {Agreement.AGREES, Agreement.CANNOT_TELL}:
        return Agreement.CANNOT_TELL if Agreement.CANNOT_TELL in answers else Agreement.AGREES
    return Agreement.PARTLY


def compare(published: float, effect: EffectRecord, rounding: float = 0.0, margin: float = 0.02) -> ComparedRatio:
    """Compares a published ratio with our effect.

    `rounding` is half of the last digit the publication prints, as a fraction (0.005 for "+25 %"); the published ratio
    is anywhere within it. With a direction: agrees where our interval reaches the published ratio, or our ratio is
    within the margin of it; partly where it has the same direction and another size; disagrees where it has the other
    one or none. With equivalent: agrees where the publication too has no change within the margin, disagrees where its
    ratio lies outside our interval. Inconclusive: disagrees where its ratio lies outside and ours is at most the margin
    in its direction, unless our interval is of blocks between two looks, of too few blocks, or in doubt. An exploratory
    effect has the direction that its own interval shows. Raises BugError for ratios not above 0.
    """
    if not published > 0.0 or not 0.0 <= rounding < published:
        raise BugError(
            f"a published ratio must be above 0 and its rounding smaller than it, not {published!r}, {rounding!r}"
        )
    low, high = effect.ci_low, effect.ci_high
    verdict = effect.verdict or ("" if low is None or high is None else "higher" if low > 1 else _lower(high))
    ours = {"verdict": verdict if effect.verdict else "exploratory", "low": low or 0.0, "high": high or 0.0}
    if low is None or high is None:
        because: Because = "undecided" if effect.verdict else "exploratory"
    elif verdict == "equivalent":
        outside = published + rounding < low or published - rounding > high
        because = "both within" if _within(published, margin) else "equivalent" if outside else "contains both"
    elif verdict in ("higher", "lower"):
        because = _of_direction(published, rounding, verdict == "higher", effect, margin)
    elif _is_refuted(published, rounding, effect, margin):
        because = "outside"
    else:
        because = "undecided" if effect.verdict else "exploratory"
    return ComparedRatio(because=because, published=published, margin=margin, **ours)


def _lower(high: float) -> str:
    return "lower" if high < 1 else ""


def _within(ratio: float, margin: float) -> bool:
    return abs(log(ratio)) <= log(1.0 + margin) + 1e-12


def _of_direction(published: float, rounding: float, higher: bool, effect: EffectRecord, margin: float) -> Because:
    """Where a difference is shown."""
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    if effect.ci_low <= published + rounding and published - rounding <= effect.ci_high:
        return "inside"
    if published - rounding <= 1.0 <= published + rounding:
        return "outside"  # published: no change
    if higher != (published > 1.0):
        return "opposite"
    return "near" if effect.ratio and _within(published / effect.ratio, margin) else "another size"


def _is_refuted(published: float, rounding: float, effect: EffectRecord, margin: float) -> bool:
    """Whether an inconclusive effect has a valid interval that leaves no more than the margin of what is published."""
    if effect.verdict != "inconclusive" or not {one.fact for one in effect.details.facts} <= DECIDED_BY_INTERVAL:
        return False
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    if published > 1.0:
        return effect.ci_high <= 1.0 + margin and published - rounding > effect.ci_high
    return effect.ci_low >= 1.0 / (1.0 + margin) and published + rounding < effect.ci_low
