"""From the observations of a study to one effect per contrast: gather, test all together, try the rules in order.

A contrast compares an arm with the mean of the control's two copies A and A′ of the same block: d = ln(X) − mean of
ln(A) and ln(A′). Its variance is three quarters of that against A alone. The exact test does not need d to be symmetric
around 0: if the arm does nothing, the labels of X, A and A′ could be exchanged inside each block, and all 3^n ways are
counted. A block in which only one copy is valid counts with that one. With several host groups an effect is the mean
over these groups, with equal weights, and its noise is that inside the groups (stats/groups.py).

All contrasts with a verdict are one family: every control, step and metric. They are tested together, and intervals are
simultaneous over them (verdicts/together.py); one A/A alarm is raised for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import expm1, log1p

import numpy as np

from mydyno.model.definition.plan import SIX, InterimAnalyses
from mydyno.model.definition.specs import TOTAL
from mydyno.model.stored.reasons import CopiesDiffer, Fact, fact
from mydyno.model.stored.summary import EffectDetails, EffectRecord
from mydyno.stats.contrast import log_ratios
from mydyno.stats.groups import grouped_estimate, grouped_noise, weighted_mean, without_group_means
from mydyno.stats.maxt import family_test, smallest_p
from mydyno.stats.paired import Interval, paired, ratio_of
from mydyno.stats.permutation import joint_test
from mydyno.stats.power import detectable, minimum_blocks, planned_exact_look
from mydyno.stats.tost import check_margin, equivalence
from mydyno.verdicts.case import Case, Family, Verdict
from mydyno.verdicts.together import MeasuredContrast, StepCells, Table, Together, exchange, tested_together


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict: when it holds, and the facts that it rests on beside the numbers of the effect."""

    verdict: Verdict
    holds: Callable[[Case], bool]
    facts: Callable[[Case], tuple[Fact, ...]] = lambda _: ()


def _not_measurable(case: Case) -> bool:
    """Not measurable here: this study cannot answer, whatever the numbers look like.

    Condition, any of: arm or control failed; no valid block; more blocks lost than left; no A/A, so nothing shows that
    two equal servers measure the same; A and A′ differ significantly.
    """
    too_few = case.n == 0 or sum(case.lost.values()) > case.n
    return bool(case.failure or too_few or case.copies_differ is None or case.alarm)


def _no_second_copy(case: Case) -> tuple[Fact, ...]:
    """Whether there is no A/A; the other reasons are fields of the effect."""
    return (fact("no_second_copy"),) if case.copies_differ is None else ()


def _higher(case: Case) -> bool:
    """Higher: the arm's number is above the control's.

    Condition: the simultaneous interval lies above 1, the adjusted p of the joint permutation is at most alpha, and the
    effect is larger than the mean difference of the control's two copies.
    """
    return case.differs and (case.estimate.mean or 0.0) > 0.0


def _lower(case: Case) -> bool:
    """Lower: the arm's number is below the control's. The conditions are those of `higher`, on the other side of 1."""
    return case.differs and (case.estimate.mean or 0.0) < 0.0


def _within_margin(case: Case) -> tuple[Fact, ...]:
    """Whether the difference is within the margin."""
    return (fact("within_margin"),) if case.equivalent else ()


def _equivalent(case: Case) -> bool:
    """Equivalent within ±margin: the 1 − 2·alpha interval lies inside the margin (two one-sided tests), from 6 blocks
    on.

    Per contrast and not adjusted over the family. Only this verdict states that there is no relevant difference: a wide
    interval around 1 is `inconclusive`.
    """
    return case.equivalent


def _inconclusive(case: Case) -> bool:
    """Inconclusive: the interval contains both a difference and no difference. Always holds; tried last.

    The table of all metrics states what keeps it from a verdict where the interval alone would allow one, and the size
    of difference that such a study finds with 80 % power.
    """
    return case is not None


def _weakness(case: Case) -> tuple[Fact, ...]:
    """What keeps an interval on one side of 1 from being a difference; empty if the interval itself is undecided."""
    if not case.due:
        after = case.look_after
        return (fact("before_look", after=after) if after is not None else fact("between_looks"),)
    if case.too_few_blocks:
        return (fact("few_blocks", alpha=case.alpha, fewest=_fewest(case)),)
    known = case.p_adjusted_permutation is not None
    if not case.interval.excludes_no_change():
        return (fact("permutation_alone"),) if case.permutation_agrees and known else ()
    if not case.permutation_agrees and known:
        return (fact("interval_alone"),)
    if not case.beyond_copies and case.copies_differ is not None:
        return (fact("copies_differ"),)
    return ()


def _fewest(case: Case) -> int:
    """The blocks that can claim a difference."""
    labels = max(case.labels, default=2)
    needed = planned_exact_look(case.looks, case.contrasts, case.n, labels) if case.looks else None
    return needed or minimum_blocks(case.contrasts, case.alpha, labels)


def _undecided(case: Case) -> tuple[Fact, ...]:
    """What keeps it from a verdict, and "seems_different"."""
    return (*_weakness(case), *((fact("seems_different"),) if case.seems_different else ()))


RULES = (
    Rule(Verdict.NOT_MEASURABLE, _not_measurable, _no_second_copy),
    Rule(Verdict.HIGHER, _higher, _within_margin),
    Rule(Verdict.LOWER, _lower, _within_margin),
    Rule(Verdict.EQUIVALENT, _equivalent),
    Rule(Verdict.INCONCLUSIVE, _inconclusive, _undecided),
)
"""Tried in this order; the first that holds is the verdict."""


@dataclass(frozen=True, slots=True)
class Study:
    """What holds for all contrasts of a study. `places` has the place of each in `together`, by identity; `due`: a
    verdict may be given now.
    """

    together: Together
    places: dict[int, int]
    alarm: CopiesDiffer | None
    looks: InterimAnalyses | None
    due: bool


def decide_study(
    families: Sequence[Family], alpha: float | None = TOTAL, looks: InterimAnalyses | None = None, total: float = TOTAL
) -> list[EffectRecord]:
    """The effects of all families in order: steps in the family's order, arms in their declared order.

    Families with `primary` are tested together at error rate `alpha`; the others are exploratory. `looks` are
    those of a sequential study: more blocks belong to it and come with the next one. alpha None: no look is due, so
    nothing is decided; intervals are those of the next look. `total` is the error rate of the study, of which alpha is
    the whole or a look's share.
    Raises BugError for a margin outside 0 to 1, a run that is there twice, or an observation of an undeclared arm.
    """
    for family in families:
        check_margin(family.margin)
    measured = [measure(family) for family in families]
    having = [[one for one in found if one.estimate.n > 0] for found in measured]
    members = [one for found, family in zip(having, families, strict=True) if family.primary for one in found]
    error_rate = alpha if alpha is not None else _rate_of_next_look(members, looks or SIX)
    seed = families[0].seed if families else 1
    study = Study(
        together=tested_together(members, error_rate, seed),
        places={id(one): place for place, one in enumerate(members)},
        alarm=a_a_alarm([family for family in families if family.primary], alarm_rate(error_rate, total), seed),
        looks=looks,
        due=alpha is not None,
    )
    effects = []
    for family, found, with_blocks in zip(families, measured, having, strict=True):
        alone = (
            study.together.joint.alone
            if family.primary
            else joint_test([one.exchange for one in with_blocks], seed).alone
        )
        p_of = dict(zip(study.places if family.primary else map(id, with_blocks), alone, strict=True))
        for one in found:
            p = p_of.get(id(one))
            effects.append(_judged(one, study, p) if family.primary else _explored(one, p))
    return effects


def decided(effects: Sequence[EffectRecord]) -> bool:
    """Whether every contrast with a verdict is decided: higher, lower, equivalent, or arm or control failed.

    Then no further block can change the answer. False where nothing has a verdict.
    """
    judged = [effect for effect in effects if effect.verdict is not None]
    final = (Verdict.HIGHER, Verdict.LOWER, Verdict.EQUIVALENT)
    return bool(judged) and all(effect.verdict in final or effect.details.failure for effect in judged)


def noise_floors(family: Family) -> dict[str, float]:
    """The A/A noise floor of each step, a ratio >= 1, from ln(A′ / A) of the blocks where both copies are valid.

    It is the larger of the median over the blocks and of the mean ratio. The median does not shrink with more blocks,
    so the floor is a property of the host and the load. Steps without such a block are missing.
    """
    if family.a_a is not None:
        return noise_floors(family.a_a)
    found = {step: list(StepCells(family, step).copies().values()) for step in family.steps}
    return {
        step: ratio_of(max(float(np.median(np.abs(logs))), abs(float(np.mean(logs)))))
        for step, logs in found.items()
        if logs
    }


def measure(family: Family) -> list[MeasuredContrast]:
    """The contrasts of a family, step by step; the pooled noise of a step leaves out arms that failed."""
    arms = [arm for arm in family.arms if arm != family.control]
    found = []
    for step in family.steps:
        cells = StepCells(family, step)
        gathered = [cells.contrast(arm) for arm in arms]
        pooled = [one.arm for one in gathered if not one.failure]
        table = cells.table(pooled)
        noise = grouped_noise(table.logs, table.arms, _groups_of(family, table))
        earlier = cells.unadjusted()
        earlier_table = earlier.table(pooled) if earlier else None
        earlier_noise = (
            grouped_noise(earlier_table.logs, earlier_table.arms, _groups_of(family, earlier_table))
            if earlier_table
            else None
        )
        for one in gathered:
            before = None
            if earlier is not None and earlier_noise is not None and not one.failure:
                before = grouped_estimate(earlier.contrast(one.arm).blocks, earlier_noise, family.host_groups)
            found_here = grouped_estimate(one.blocks, noise, family.host_groups)
            found.append(MeasuredContrast(family, cells, one, table, noise, found_here, exchange(one, family), before))
    return found


def _groups_of(family: Family, table: Table) -> list[str]:
    """The host group of each row."""
    return [family.host_groups.get(block, "") for block in table.rows]


def alarm_rate(alpha: float, total: float) -> float:
    """The error rate of the A/A alarm: the same share of TOTAL as alpha is of the study's error rate.

    A study that is to err less often must not overlook a host that is not fit to measure.
    """
    return alpha * TOTAL / total


FLIPS_FROM = 0.6
"""Share of alpha that the smallest p of a sign-flip is at most where sign-flips decide with t.

At .036 t decides alone up to six blocks, and raises false alarms in .035 to .039 of studies; of seven blocks and three
comparisons it would in .05 (simulated). Of six blocks, three comparisons and a difference of 2 sd it finds 75 %, with
sign-flips 60 %.
"""


def a_a_alarm(families: Sequence[Family], alpha: float, seed: int) -> CopiesDiffer | None:
    """Where A and A′, or X and X′, differ most, by sign-flip and t adjusted over all arms, steps and metrics; None:
    nowhere.

    Where the blocks are so few that the smallest p of a sign-flip (2/2^n) is above FLIPS_FROM, t decides alone: of
    several comparisons, or with one block of the other sign, no sign-flip could reach alpha.
    """
    copies: dict[tuple[str, str, str], dict[int, float]] = {}
    for family in families:
        of = family.a_a or family
        for step in of.steps:
            copies.setdefault((of.metric.name, of.control, step), StepCells(of, step).copies())
        for step, arm in product(family.steps, family.arms):
            if arm != family.control and (of_arm := StepCells(family, step).copies(arm)):
                copies.setdefault((family.metric.name, arm, step), of_arm)
    rows = sorted({block for column in copies.values() for block in column})
    if not rows:
        return None
    table = np.array([[column.get(block, np.nan) for column in copies.values()] for block in rows])
    found = [(c.p if smallest_p(c.n) <= FLIPS_FROM * alpha else c.p_adjusted_t, key)
             for key, c in zip(copies, family_test(table, seed), strict=True)]  # fmt: skip
    alarms = [(p, key) for p, key in found if p is not None]
    if not alarms:
        return None
    p, (metric, control, step) = min(alarms)
    if p > alpha + 1e-12:
        return None
    mean = float(np.mean(list(copies[metric, control, step].values())))
    return CopiesDiffer(control=control, step=step, of=metric, difference=float(np.expm1(abs(mean))), p=p)


def _alpha(family: Family) -> float:
    return round(1.0 - family.level, 12)


def _rate_of_next_look(members: Sequence[MeasuredContrast], looks: InterimAnalyses) -> float:
    made = max((one.estimate.n for one in members), default=0)
    return looks.rates[looks.next_after(made) or looks.last]


def _judged(one: MeasuredContrast, study: Study, p_alone: float | None) -> EffectRecord:
    """The effect of one contrast with a verdict: that of the first rule that holds."""
    together, place = study.together, study.places.get(id(one))
    gathered, family, alpha = one.gathered, one.family, study.together.alpha
    found = one.estimate if place is None else together.estimates[place]
    interval, half = (Interval(None, None, 1.0 - alpha), None) if place is None else together.interval(place)
    permuted = None if place is None else together.joint.adjusted[place]
    p = _larger(permuted, together.adjusted_t(place))
    critical_p = together.critical_p(place)
    case = Case(
        margin=family.margin,
        alpha=alpha,
        contrasts=together.equal_contrasts(place),
        estimate=found,
        interval=interval,
        half_width=half,
        p_adjusted_permutation=permuted,
        equivalence=equivalence(one.estimate, family.margin, alpha),
        copies_differ=weighted_mean(one.copies, family.host_groups) if one.copies else None,
        labels=tuple(len(of) for of in one.exchange.differences.values()),
        servers=int((~np.isnan(one.pool.residuals)).any(axis=0).sum()),
        lost=gathered.lost,
        failure=gathered.failure,
        alarm=study.alarm,
        looks=study.looks,
        due=study.due,
    )
    rule = next(rule for rule in RULES if rule.holds(case))
    needed = case.blocks_needed() if rule.verdict is Verdict.INCONCLUSIVE else None
    alone = _alone(one, critical_p, alpha, p_alone)
    details = {
        "p_adjusted_permutation": permuted,
        "blocks_needed": None if needed is None else needed - found.n,
        "alarm": study.alarm,
        "copied": "" if family.copied == family.control else family.copied,
        "facts": rule.facts(case),
        "half_width": half,
        "detectable": None if not half else expm1(detectable(log1p(half), critical_p, found.freedom)),
        "method": "pooled" if found.pooled else "pairs",
        "freedom": found.freedom,
    }
    return alone.model_copy(
        update={
            "ci_low": case.interval.low,
            "ci_high": case.interval.high,
            "p": p,
            "verdict": rule.verdict.value,
            "details": alone.details.model_copy(update=details),
        }
    )


def _larger(*p_values: float | None) -> float | None:
    """The largest of those that exist: each of the tests finds a difference of this p."""
    known = [p for p in p_values if p is not None]
    return max(known) if known else None


def _explored(one: MeasuredContrast, p_alone: float | None) -> EffectRecord:
    """The effect of one contrast of an exploratory metric: unadjusted, without a verdict."""
    alpha = _alpha(one.family)
    return _alone(one, alpha, alpha, p_alone)


def _alone(one: MeasuredContrast, critical_p: float, alpha: float, p_alone: float | None) -> EffectRecord:
    """What the contrast shows alone, without adjustment or verdict."""
    gathered, found, family, before = one.gathered, one.estimate, one.family, one.before
    answer = paired(without_group_means(log_ratios(gathered.blocks), family.host_groups))
    plain = found.interval(alpha, 1.0 - alpha)
    tost = equivalence(found, family.margin, alpha)
    p_t = found.p()
    earlier = before.interval(critical_p, 1.0 - alpha) if before is not None else None
    return EffectRecord(
        metric=family.metric.name,
        step=gathered.step,
        arm=gathered.arm,
        control=family.control,
        n=gathered.tried if gathered.failure else found.n,
        ratio=found.ratio,
        ci_low=plain.low,
        ci_high=plain.high,
        p=_larger(p_t, p_alone),
        verdict=None,
        primary=family.primary,
        unadjusted=None
        if before is None or before.ratio is None or earlier is None
        else (before.ratio, earlier.low, earlier.high),
        details=EffectDetails(
            log_ratios=log_ratios(gathered.blocks),
            skewed=answer.skewed,
            single_low=plain.low,
            single_high=plain.high,
            single_freedom=found.freedom,
            p_t=p_t,
            p_permutation=p_alone,
            equivalence_low=tost.interval.low,
            equivalence_high=tost.interval.high,
            lost=dict(gathered.lost),
            halved=dict(gathered.halved),
            half_width=found.half_width(critical_p),
            method="pooled" if found.pooled else "pairs",
            freedom=found.freedom,
            failure=gathered.failure,
        ),
    )
