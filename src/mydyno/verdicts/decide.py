"""From the observations of one metric to one effect per arm and step: gather, test the family, try the rules in order.

The control of a contrast is its first copy (A) in the same block, never the mean of A and A′. Their mean would be a
quarter less noisy, but the log ratio to one copy is symmetric around 0 under randomisation whatever the noise looks
like, which is all that the exact sign-flip needs; against a mean of two, skewed noise stays skewed. A′ serves the A/A
alone. A block without a valid A is lost for every contrast at that step: A′ does not step in, so that everybody who
recomputes an effect from the runs finds the same pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.maxt import Contrast, family_test
from mydyno.stats.noise import NoiseFloor, noise_floor
from mydyno.stats.paired import Paired, log_ratio, paired
from mydyno.stats.signflip import sign_flip
from mydyno.stats.tost import Equivalence, check_margin, equivalence
from mydyno.verdicts import equivalent, exploratory, higher, inconclusive, lower, not_measurable
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Effect, Family, Observation, Scope, Verdict
from mydyno.verdicts.words import blocks, p_value, percent

RULES: tuple[Rule, ...] = (not_measurable.RULE, higher.RULE, lower.RULE, equivalent.RULE, inconclusive.RULE)
"""Tried in this order; the first that holds is the verdict."""
NO_REASON = "the run is invalid"
NO_LOGARITHM = "the value is not a positive number"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The blocks of one contrast: ln(arm / control) by block, and how many were lost for which reason."""

    step: str
    arm: str
    log_ratios: Mapping[int, float]
    lost: Mapping[str, int]


def decide(family: Family) -> list[Effect]:
    """The effects of every arm but the control, step by step in the family's order, arms in their declared order.

    Raises BugError for a margin outside 0 to 1, a run that is there twice, or an observation of an undeclared arm.
    """
    check_margin(family.margin)
    arms = [arm for arm in family.arms if arm != family.control]
    if not arms:
        return []  # a study of the control alone shows its noise floor
    contrasts = [_pairs(family, step, arm, 1) for step in family.steps for arm in arms]
    if not contrasts:
        return []
    floors = noise_floors(family)
    if not family.primary:
        return [_explored(family, pairs, floors[pairs.step]) for pairs in contrasts]
    test = family_test(_table([pairs.log_ratios for pairs in contrasts]), family.level, family.seed)
    alarm = _a_a_alarm(family)
    return [
        _judged(family, pairs, floors[pairs.step], contrast, test.adjustment, alarm=alarm, contrasts=len(contrasts))
        for pairs, contrast in zip(contrasts, test.contrasts, strict=True)
    ]


def noise_floors(family: Family) -> dict[str, NoiseFloor]:
    """The A/A noise floor of each step, from ln(A′ / A) of the control in the blocks where both copies are valid."""
    if family.a_a is not None:
        return noise_floors(family.a_a)
    return {
        step: noise_floor(list(_pairs(family, step, family.control, 2).log_ratios.values()), family.level, family.seed)
        for step in family.steps
    }


def _a_a_alarm(family: Family) -> str:
    """A clause if A and A′ differ by the very test that arms are judged by, adjusted over the steps; else empty."""
    if family.a_a is not None:
        return _a_a_alarm(family.a_a)
    copies = {step: _pairs(family, step, family.control, 2).log_ratios for step in family.steps}
    test = family_test(_table(list(copies.values())), family.level, family.seed)
    alarms = [(c.p, step) for step, c in zip(copies, test.contrasts, strict=True) if c.p is not None]
    if not alarms or min(alarms)[0] > 1.0 - family.level + 1e-12:
        return ""
    p, step = min(alarms)
    mean = float(np.mean(list(copies[step].values())))
    return (
        f"two copies of {family.control} differ by {percent(np.expm1(abs(mean)))} at step {step} "
        f"(adjusted p = {p_value(p)}) although they are the same, so this study claims no difference and no equivalence"
    )


def _pairs(family: Family, step: str, arm: str, copy: int) -> Pairs:
    """ln(arm's copy / control's first copy) of each block that has both runs, and the blocks lost by reason."""
    control = _by_block(family, step, family.control, 1)
    treated = _by_block(family, step, arm, copy)
    log_ratios: dict[int, float] = {}
    lost: Counter[str] = Counter()
    for block in sorted(control.keys() & treated.keys()):
        ratio = log_ratio(treated[block].value, control[block].value)
        if ratio is not None:
            log_ratios[block] = ratio
        else:
            lost[_why(treated[block]) or _why(control[block])] += 1
    return Pairs(step, arm, log_ratios, dict(lost))


def _why(observation: Observation) -> str:
    """Why an observation has no logarithm, naming its arm; empty if it has one."""
    if log_ratio(observation.value, 1.0) is not None:
        return ""
    reason = observation.reason or (NO_REASON if observation.value is None else NO_LOGARITHM)
    return f"{observation.arm}: {reason}"


def _by_block(family: Family, step: str, arm: str, copy: int) -> dict[int, Observation]:
    found: dict[int, Observation] = {}
    for observation in family.steps[step]:
        if observation.arm not in family.arms and observation.arm != family.control:
            raise BugError(f"step {step}: observation of arm {observation.arm!r}, which the family does not declare")
        if (observation.arm, observation.copy) != (arm, copy):
            continue
        if observation.block in found:
            raise BugError(f"step {step}, block {observation.block}: arm {arm!r} copy {copy} is there twice")
        found[observation.block] = observation
    return found


def _table(columns: list[Mapping[int, float]]) -> NDArray[np.float64]:
    """Blocks as rows, contrasts as columns, NaN where a block lacks the contrast."""
    rows = sorted({block for column in columns for block in column})
    return np.array([[column.get(block, np.nan) for column in columns] for block in rows]).reshape(-1, len(columns))


def _judged(
    family: Family,
    pairs: Pairs,
    noise: NoiseFloor,
    contrast: Contrast,
    adjustment: str,
    *,
    alarm: str,
    contrasts: int,
) -> Effect:
    """The effect of one contrast of the primary metric, with the verdict of the first rule that holds."""
    answer = paired(list(pairs.log_ratios.values()), family.level)
    case = Case(
        metric=family.metric,
        step=pairs.step,
        arm=pairs.arm,
        control=family.control,
        scope=_scope(family, pairs),
        margin=family.margin,
        level=family.level,
        contrasts=contrasts,
        paired=answer,
        contrast=contrast,
        equivalence=_equivalence(answer, family.margin),
        noise=noise,
        lost=pairs.lost,
        alarm=alarm,
        copied=family.copied,
    )
    rule = next(rule for rule in RULES if rule.holds(case))
    needed = case.blocks_needed() if rule.verdict is Verdict.INCONCLUSIVE else None
    return replace(
        _unadjusted(family, pairs, noise, answer),
        ci_low=contrast.interval.low,
        ci_high=contrast.interval.high,
        p=contrast.p,
        verdict=rule.verdict,
        sentence=rule.sentence(case),
        p_adjusted_sign_flip=contrast.p_adjusted_sign_flip,
        blocks_needed=None if needed is None else needed - answer.n,
        adjustment=adjustment,
    )


def _scope(family: Family, pairs: Pairs) -> Scope:
    return family.scopes.get(pairs.step, Scope()).between(pairs.arm, family.control)


def _explored(family: Family, pairs: Pairs, noise: NoiseFloor) -> Effect:
    """The effect of one contrast of a secondary metric: unadjusted, with a sentence and without a verdict."""
    answer = paired(list(pairs.log_ratios.values()), family.level)
    effect = _unadjusted(family, pairs, noise, answer)
    return replace(effect, sentence=exploratory.sentence(effect, family.metric, _scope(family, pairs)))


def _unadjusted(family: Family, pairs: Pairs, noise: NoiseFloor, answer: Paired) -> Effect:
    """What the contrast says alone, without adjustment, verdict or sentence."""
    tost = _equivalence(answer, family.margin)
    p_sign_flip = sign_flip(list(pairs.log_ratios.values()), family.seed).p
    known = [p for p in (answer.p, p_sign_flip) if p is not None]
    return Effect(
        metric=family.metric.name,
        step=pairs.step,
        arm=pairs.arm,
        control=family.control,
        n=answer.n,
        ratio=answer.ratio,
        ci_low=answer.interval.low,
        ci_high=answer.interval.high,
        p=max(known) if known else None,
        verdict=None,
        sentence="",
        primary=family.primary,
        log_ratios=pairs.log_ratios,
        hodges_lehmann=answer.hodges_lehmann,
        skewed=answer.skewed,
        unadjusted_low=answer.interval.low,
        unadjusted_high=answer.interval.high,
        p_t=answer.p,
        p_sign_flip=p_sign_flip,
        p_adjusted_sign_flip=None,
        equivalence_low=tost.interval.low,
        equivalence_high=tost.interval.high,
        smallest_margin=tost.smallest_margin,
        noise_floor=noise.floor,
        blocks_needed=None,
        reasons=tuple(f"{reason} ({blocks(count)})" for reason, count in sorted(pairs.lost.items())),
        adjustment="none",
    )


def _equivalence(answer: Paired, margin: float) -> Equivalence:
    return equivalence(log(answer.ratio) if answer.ratio else 0.0, answer.sd, answer.n, margin)
