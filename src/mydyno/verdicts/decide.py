"""From the observations of a study to one effect per contrast: gather, test all together, try the rules in order.

A contrast compares an arm with the mean of the control's two copies A and A′ of the same block: d = ln(X) − mean of
ln(A) and ln(A′). Its variance is three quarters of that against A alone. The exact test does not need d to be symmetric
around 0: if the arm does nothing, the labels of X, A and A′ could be exchanged inside each block, and all 3^n ways are
counted. A block in which only one copy is valid counts with that one. The interval's noise is pooled over all servers
of the step that vary alike (stats/twoway.py), or the contrast's own where that is larger (stats/contrast.py). Of
several host groups an effect is the mean over these groups, each counting alike, and its noise is that inside the
groups (stats/groups.py).

All contrasts with a verdict are one family: every control, step and metric. Intervals are simultaneous over it, the p
of the permutations are adjusted by Holm, and one A/A alarm is raised for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.looks import SIX, Looks
from mydyno.model.metrics import phrase_of
from mydyno.stats.contrast import Estimate, log_ratios
from mydyno.stats.groups import (
    block_weights,
    grouped_estimate,
    grouped_noise,
    groups_among,
    weighted_blocks,
    weighted_mean,
    without_group_means,
)
from mydyno.stats.maxt import family_test
from mydyno.stats.noise import NoiseFloor, noise_floor
from mydyno.stats.paired import paired
from mydyno.stats.permutation import holm, label_permutation
from mydyno.stats.simultaneous import LargestT, largest_t
from mydyno.stats.tost import check_margin, equivalence
from mydyno.stats.twoway import TwoWay
from mydyno.verdicts import equivalent, exploratory, higher, inconclusive, lower, not_measurable
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Effect, Family, Scope, Verdict
from mydyno.verdicts.gather import ContrastBlocks, StepCells, Table
from mydyno.verdicts.words import blocks, p_value, percent

RULES: tuple[Rule, ...] = (not_measurable.RULE, higher.RULE, lower.RULE, equivalent.RULE, inconclusive.RULE)
"""Tried in this order; the first that holds is the verdict."""
FEWEST_TO_CORRELATE = 8
"""Residuals that two steps or metrics must share before their correlation is used; else they count as independent."""


@dataclass(frozen=True, slots=True)
class MeasuredContrast:
    """One contrast with all that belongs to it alone. `pool` and `table` are of its step."""

    family: Family
    cells: StepCells
    gathered: ContrastBlocks
    table: Table
    pool: TwoWay
    estimate: Estimate
    p_permutation: float | None
    before: Estimate | None
    """The estimate from the values before their adjustment for the host's speed."""


@dataclass(frozen=True, slots=True)
class Study:
    """What holds for all contrasts of a study: error rate, largest |t|, A/A alarm, whether a verdict may be given."""

    alpha: float
    largest: LargestT
    contrasts: int
    alarm: str
    looks: Looks | None
    due: bool


def decide(family: Family) -> list[Effect]:
    """The effects of a study that consists of this family alone, at the family's own level."""
    return decide_study([family], _alpha(family))


def decide_study(families: Sequence[Family], alpha: float | None = 0.05, looks: Looks | None = None) -> list[Effect]:
    """The effects of all families in order: steps in the family's order, arms in their declared order.

    Families with `primary` are tested together at error rate `alpha`; the others are exploratory. `looks` are
    those of a sequential study: more blocks belong to it and come with the next one. alpha None: no look is due, so
    nothing is decided; intervals are those of the next look.
    Raises BugError for a margin outside 0 to 1, a run that is there twice, or an observation of an undeclared arm.
    """
    for family in families:
        check_margin(family.margin)
    measured = [measure(family) for family in families]
    tested = [one for found, family in zip(measured, families, strict=True) if family.primary for one in found]
    members = [one for one in tested if one.estimate.n > 0]
    error_rate = alpha if alpha is not None else _rate_of_next_look(members, looks or SIX)
    seed = families[0].seed if families else 1
    study = Study(
        alpha=error_rate,
        largest=_largest_t(members, error_rate, seed),
        contrasts=len(members),
        alarm=a_a_alarm([family for family in families if family.primary], error_rate, seed),
        looks=looks,
        due=alpha is not None,
    )
    adjusted = dict(zip(map(id, members), holm([one.p_permutation or 0.0 for one in members]), strict=True))
    effects = []
    for family, found in zip(families, measured, strict=True):
        floors = noise_floors(family) if found else {}
        for one in found:
            floor = floors[one.gathered.step]
            effects.append(
                _judged(one, floor, study, adjusted.get(id(one))) if family.primary else _explored(one, floor)
            )
    return effects


def decided(effects: Sequence[Effect]) -> bool:
    """Whether every contrast with a verdict is decided: higher, lower, equivalent, or arm or control failed.

    Then no further block can change the answer. False where nothing has a verdict.
    """
    judged = [effect for effect in effects if effect.verdict is not None]
    final = (Verdict.HIGHER, Verdict.LOWER, Verdict.EQUIVALENT)
    return bool(judged) and all(effect.verdict in final or effect.failure for effect in judged)


def noise_floors(family: Family) -> dict[str, NoiseFloor]:
    """The A/A noise floor of each step, from ln(A′ / A) of the control in the blocks where both copies are valid."""
    if family.a_a is not None:
        return noise_floors(family.a_a)
    return {
        step: noise_floor(list(StepCells(family, step).copies().values()), family.level, family.seed)
        for step in family.steps
    }


def measure(family: Family, permuted: bool = True) -> list[MeasuredContrast]:
    """The contrasts of a family, step by step; the pooled noise of a step leaves out arms that failed.

    Without `permuted` p_permutation, which takes long, is None.
    """
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
            p = label_permutation(weighted_blocks(one.blocks, family.host_groups), family.seed) if permuted else None
            found_here = grouped_estimate(one.blocks, noise, family.host_groups)
            found.append(MeasuredContrast(family, cells, one, table, noise.pool, found_here, p, before))
    return found


def _groups_of(family: Family, table: Table) -> list[str]:
    """The host group of each row."""
    return [family.host_groups.get(block, "") for block in table.rows]


def _largest_t(members: Sequence[MeasuredContrast], alpha: float, seed: int) -> LargestT:
    """The distribution of the largest |t| over the contrasts that have an interval."""
    having = [one for one in members if one.estimate.error]
    if len(having) < 2:
        return LargestT(np.empty(0), max(1, len(having)))
    shared = {}
    for number, one in enumerate(having):
        key = (id(one.pool),) if one.estimate.pooled else (number, "own")
        shared[number] = key
    groups = {key: place for place, key in enumerate(dict.fromkeys(shared.values()))}
    freedom = [one.estimate.freedom for one in having]
    return largest_t(_correlation(having), freedom, [groups[key] for key in shared.values()], alpha, seed)


def _correlation(members: Sequence[MeasuredContrast]) -> NDArray[np.float64]:
    """The correlation of the contrasts' estimates.

    Each is a weighted sum of log values. Two of one step share the values of the control; two of different steps or
    metrics are correlated as far as the residuals of their tables are, server by server and block by block.
    """
    cells: dict[tuple[int, str, int], int] = {}
    for one in members:
        for block in one.table.rows:
            for arm, copy in one.table.places:
                cells.setdefault((block, arm, copy), len(cells))
    weights = np.zeros((len(members), len(cells)))
    tables = {id(one.pool): place for place, one in enumerate({id(m.pool): m for m in members}.values())}
    residuals = np.full((len(tables), len(cells)), np.nan)
    for row, one in enumerate(members):
        table, control = one.table, one.family.control
        where = {place: column for column, place in enumerate(table.places)}
        of_block = block_weights(one.gathered.blocks, one.family.host_groups)
        for block, values in one.gathered.blocks.items():
            at = table.rows.index(block)
            weights[row, cells[block, one.gathered.arm, 1]] = of_block[block]
            for copy in (1, 2):
                column = where.get((control, copy))
                if column is not None and not np.isnan(table.logs[at, column]):
                    weights[row, cells[block, control, copy]] = -of_block[block] / (len(values) - 1)
    for one in {id(one.pool): one for one in members}.values():
        for (i, j), value in np.ndenumerate(one.pool.residuals):
            residuals[tables[id(one.pool)], cells[one.table.rows[i], *one.table.places[j]]] = value
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    of = [tables[id(one.pool)] for one in members]
    return np.asarray((weights @ weights.T) * _residual_correlation(residuals)[np.ix_(of, of)])


def _residual_correlation(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The correlation of tables' residuals over the values that both have; 0 where they share too few."""
    present = ~np.isnan(residuals)
    known = np.where(present, residuals, 0.0)
    products = known @ known.T
    squares = np.square(known) @ present.T.astype(float)
    shared = present.astype(float) @ present.T.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(
            (shared >= FEWEST_TO_CORRELATE) & (squares > 0.0), products / np.sqrt(squares * squares.T), 0.0
        )
    np.fill_diagonal(found, 1.0)
    return np.asarray(np.nan_to_num(found))


def a_a_alarm(families: Sequence[Family], alpha: float, seed: int) -> str:
    """A clause if A and A′ differ anywhere in the study, by sign-flip and t adjusted over all steps and metrics."""
    copies: dict[tuple[str, str, str], dict[int, float]] = {}
    nouns = {}
    for family in families:
        of = family.a_a or family
        for step in of.steps:
            copies.setdefault((of.metric.name, of.control, step), StepCells(of, step).copies())
            nouns[of.metric.name] = phrase_of(of.metric.name).noun
    rows = sorted({block for column in copies.values() for block in column})
    if not rows:
        return ""
    table = np.array([[column.get(block, np.nan) for column in copies.values()] for block in rows])
    test = family_test(table, 1.0 - alpha, seed)
    alarms = [(c.p, key) for key, c in zip(copies, test.contrasts, strict=True) if c.p is not None]
    p, (metric, control, step) = min(alarms)
    if p > alpha + 1e-12:
        return ""
    mean = float(np.mean(list(copies[metric, control, step].values())))
    return (
        f"two copies of {control} differ by {percent(np.expm1(abs(mean)))} in {nouns[metric]} at step {step} "
        f"(adjusted p = {p_value(p)}) although they are identical, so this study claims neither a difference nor "
        "equivalence"
    )


def _alpha(family: Family) -> float:
    return round(1.0 - family.level, 12)


def _rate_of_next_look(members: Sequence[MeasuredContrast], looks: Looks) -> float:
    made = max((one.estimate.n for one in members), default=0)
    return looks.rates[looks.next_after(made) or looks.last]


def _judged(one: MeasuredContrast, noise: NoiseFloor, study: Study, p_adjusted: float | None) -> Effect:
    """The effect of one contrast with a verdict: that of the first rule that holds."""
    critical = study.largest.critical_p(study.alpha)
    level = 1.0 - study.alpha
    gathered, found, family = one.gathered, one.estimate, one.family
    copies = StepCells(family.a_a, gathered.step).copies() if family.a_a else one.cells.copies()
    case = Case(
        metric=family.metric,
        step=gathered.step,
        arm=gathered.arm,
        control=family.control,
        scope=_scope(one),
        margin=family.margin,
        alpha=study.alpha,
        contrasts=max(1, study.contrasts),
        paired=paired(without_group_means(log_ratios(gathered.blocks), family.host_groups)),
        estimate=found,
        interval=found.interval(critical, level),
        half_width=found.half_width(critical),
        p_adjusted_permutation=p_adjusted,
        equivalence=equivalence(found, family.margin, study.alpha),
        copies_differ=weighted_mean(copies, family.host_groups) if copies else None,
        labels=tuple(len(block) for block in gathered.blocks.values()),
        servers=int((~np.isnan(one.pool.residuals)).any(axis=0).sum()),
        tried=gathered.tried,
        lost=gathered.lost,
        halved=gathered.halved,
        failure=gathered.failure,
        alarm=study.alarm,
        looks=study.looks,
        due=study.due,
        copied=family.copied,
    )
    rule = next(rule for rule in RULES if rule.holds(case))
    needed = case.blocks_needed() if rule.verdict is Verdict.INCONCLUSIVE else None
    p_t = found.p()
    known = [p for p in (None if p_t is None else study.largest.adjusted(p_t), p_adjusted) if p is not None]
    return replace(
        _alone(one, noise, critical, study.alpha),
        ci_low=case.interval.low,
        ci_high=case.interval.high,
        p=max(known) if known else None,
        verdict=rule.verdict,
        sentence=rule.sentence(case),
        p_adjusted_permutation=p_adjusted,
        blocks_needed=None if needed is None else needed - found.n,
        adjustment="none" if study.contrasts <= 1 else "max-t, Holm",
        alarm=study.alarm,
    )


def _scope(one: MeasuredContrast) -> Scope:
    """The step's scope; of several host groups it names those with a block of this contrast."""
    scope, groups = one.family.scopes.get(one.gathered.step, Scope()), one.family.host_groups
    return replace(scope, hosts=groups_among(one.gathered.blocks, groups)) if groups else scope


def _explored(one: MeasuredContrast, noise: NoiseFloor) -> Effect:
    """The effect of one contrast of an exploratory metric: unadjusted, with a sentence and without a verdict."""
    alpha = _alpha(one.family)
    effect = _alone(one, noise, alpha, alpha)
    return replace(effect, sentence=exploratory.sentence(effect, one.family.metric, _scope(one)))


def _alone(one: MeasuredContrast, noise: NoiseFloor, critical_p: float, alpha: float) -> Effect:
    """What the contrast shows alone, without adjustment, verdict or sentence."""
    gathered, found, family, before = one.gathered, one.estimate, one.family, one.before
    answer = paired(without_group_means(log_ratios(gathered.blocks), family.host_groups))
    plain = found.interval(alpha, 1.0 - alpha)
    tost = equivalence(found, family.margin, alpha)
    p_t = found.p()
    known = [p for p in (p_t, one.p_permutation) if p is not None]
    earlier = before.interval(critical_p, 1.0 - alpha) if before is not None else None
    return Effect(
        metric=family.metric.name,
        step=gathered.step,
        arm=gathered.arm,
        control=family.control,
        n=gathered.tried if gathered.failure else found.n,
        ratio=found.ratio,
        ci_low=plain.low,
        ci_high=plain.high,
        p=max(known) if known else None,
        verdict=None,
        sentence="",
        primary=family.primary,
        log_ratios=log_ratios(gathered.blocks),
        hodges_lehmann=answer.hodges_lehmann,
        skewed=answer.skewed,
        unadjusted_low=plain.low,
        unadjusted_high=plain.high,
        p_t=p_t,
        p_permutation=one.p_permutation,
        p_adjusted_permutation=None,
        equivalence_low=tost.interval.low,
        equivalence_high=tost.interval.high,
        smallest_margin=tost.smallest_margin,
        noise_floor=noise.floor,
        blocks_needed=None,
        reasons=_reasons(gathered),
        adjustment="none",
        half_width=found.half_width(critical_p),
        method="pooled" if found.pooled else "pairs",
        freedom=found.freedom,
        failure=gathered.failure,
        unadjusted=None
        if before is None or before.ratio is None or earlier is None
        else (before.ratio, earlier.low, earlier.high),
    )


def _reasons(gathered: ContrastBlocks) -> tuple[str, ...]:
    lost = [f"{reason} ({blocks(count)})" for reason, count in sorted(gathered.lost.items())]
    halved = [f"{reason}, one of two copies ({blocks(count)})" for reason, count in sorted(gathered.halved.items())]
    return (*([gathered.failure] if gathered.failure else []), *lost, *halved)
