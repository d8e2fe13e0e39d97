"""What each factor of a study does: main effects, interactions and crossings, from the blocks' log values.

Only where the arms are the full product of two factors or more (model/definition/factors.py), at a look that is due.
See stats/factorial.py for the contrasts; all of them, over every step and metric with a verdict, are one family of
their own with the error rate of the look. Over several host groups they are of these hosts, as verdicts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mydyno.analysis.base import Examined
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.factors import Factor, Factors, factors_of
from mydyno.model.definition.quantities import parse_bits_per_s, parse_bytes
from mydyno.model.stored.analyses import FactorCrossing, FactorEffect, FactorLevels, FactorsRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.stats.contrast import Estimate
from mydyno.stats.factorial import FactorContrast, crossing, factor_contrasts, sums
from mydyno.stats.groups import GroupedNoise, GroupOf, grouped_noise, grouped_sums, weighted_mean, without_lone_blocks
from mydyno.stats.paired import Interval
from mydyno.stats.simultaneous import LargestT, largest_t
from mydyno.stats.twoway import two_way, unequal_above
from mydyno.verdicts import Family
from mydyno.verdicts.together import StepCells


@dataclass(frozen=True)
class Measured:
    """One contrast of one metric at one step. `copies_differ` is the mean of ln(A′ / A), infinite without."""

    metric: str
    step: str
    of: FactorContrast
    values: Mapping[int, float]
    """{block: the contrast's value}"""
    squares: Mapping[int, float]
    """{block: the sum of its squared weights}"""
    noise: GroupedNoise
    host_groups: GroupOf
    weights: NDArray[np.float64]
    """Weight of each column of the step's table: two copies of the control share its weight."""
    copies_differ: float

    def estimate(self, unequal_above: float) -> Estimate:
        """Its mean, with the noise of the step or its own."""
        return grouped_sums(self.values, self.squares, self.noise, self.host_groups, unequal_above)


def analyse(study: Examined) -> FactorsRecord | None:
    """The record; None where the arms are no product of factors, or no interim analysis is due.

    Where the control's copies differ, nothing is decided.
    """
    experiment, alpha = study.experiment, study.alpha
    factors = factors_of(experiment.arms)
    if factors is None or not study.due:
        return None
    named = tuple(_levels(experiment, study.runs, factors, index) for index in range(len(factors.factors)))
    having = [one for family in study.families if family.primary and family.control == experiment.control
              for step in family.steps for one in _measured(family, step, factors)]  # fmt: skip
    if not having:
        return None
    bar = unequal_above(len(having))
    estimates = [one.estimate(bar) for one in having]
    critical_p = _largest_t(having, estimates, alpha, experiment.design.seed).critical_p(alpha)
    effects = tuple(
        _effect(one, found, factors, found.interval(critical_p, 1.0 - alpha), study.alarm)
        for one, found in zip(having, estimates, strict=True)
    )
    by_effect = {key_of(effect): found for effect, found in zip(effects, estimates, strict=True)}
    decided = {key_of(effect) for effect in effects if effect.decided}
    found = _crossings(named, effects, by_effect, decided, critical_p)
    return FactorsRecord(factors=named, effects=effects, crossings=tuple(found))


def _measured(family: Family, step: str, factors: Factors) -> Iterator[Measured]:
    """The contrasts of one step whose arms all have values; an arm that is not measurable has no number."""
    cells = StepCells(family, step)
    found = {arm: cells.contrast(arm) for arm in family.arms if arm != family.control}
    whole = [arm for arm, one in found.items() if one.blocks and not one.lost_most]
    table = cells.table(whole)
    names = list(dict.fromkeys(arm for arm, _ in table.places))
    host_groups = family.host_groups
    groups = [host_groups.get(block, "") for block in table.rows]
    noise = grouped_noise(table.logs, table.arms, groups, fit=two_way)
    copies = cells.copies()
    copies_differ = weighted_mean(copies, host_groups) if copies else inf
    shared = np.array([table.arms.count(arm) for arm in table.arms])
    for contrast in factor_contrasts([factor.levels for factor in factors.factors], factors.levels_of[family.control]):
        weights = {factors.arm(levels): weight for levels, weight in contrast.weights.items()}
        if not weights.keys() <= set(names):
            continue
        of_arms = [weights.get(arm, 0.0) for arm in names]
        summed = sums(table.logs, table.arms, of_arms)
        blocks = [table.rows[row] for row in summed.blocks]
        values = without_lone_blocks(dict(zip(blocks, summed.values.tolist(), strict=True)), host_groups)
        if values:
            yield Measured(
                family.metric.name, step, contrast, values, dict(zip(blocks, summed.squares.tolist(), strict=True)),
                noise, host_groups, np.array([of_arms[arm] for arm in table.arms]) / shared, copies_differ,
            )  # fmt: skip


def _largest_t(having: Sequence[Measured], estimates: Sequence[Estimate], alpha: float, seed: int) -> LargestT:
    """The distribution of the largest |t|: contrasts of one step and metric share servers and noise; those of others
    count as independent, which is never too narrow where they go together.
    """
    kept = [(one, found) for one, found in zip(having, estimates, strict=True) if found.error]
    if len(kept) < 2:
        return LargestT(np.empty(0), 1.0)
    pools = {place: number for number, place in enumerate(dict.fromkeys(id(one.noise) for one, _ in kept))}
    correlation = np.eye(len(kept))
    for pool in pools:
        rows = [row for row, (one, _) in enumerate(kept) if id(one.noise) == pool]
        weights = np.array([kept[row][0].weights for row in rows])
        weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
        correlation[np.ix_(rows, rows)] = weights @ weights.T
    shared = [pools[id(one.noise)] if found.pooled else len(pools) + row for row, (one, found) in enumerate(kept)]
    return largest_t(correlation, [found.freedom for _, found in kept], shared, alpha, seed)


def _effect(one: Measured, found: Estimate, factors: Factors, interval: Interval, alarm: bool) -> FactorEffect:
    contrast, names = one.of, [factor.name for factor in factors.factors]
    larger = found.mean is not None and abs(found.mean) > abs(one.copies_differ)
    return FactorEffect(
        kind=contrast.kind,
        metric=one.metric,
        step=one.step,
        factor=names[contrast.factor],
        level=contrast.level,
        other="" if contrast.other is None else names[contrast.other],
        at=contrast.at,
        n=found.n,
        ratio=found.ratio,
        ci_low=interval.low,
        ci_high=interval.high,
        decided=interval.excludes_no_change() and larger and not alarm,
    )


Key = tuple[str, str, str, str, str, str, str]


def key_of(effect: FactorEffect) -> Key:
    """What distinguishes it from the others of its study."""
    return effect.metric, effect.step, effect.kind, effect.factor, effect.level, effect.other, effect.at


def _crossings(
    factors: Sequence[FactorLevels],
    effects: Sequence[FactorEffect],
    estimates: dict[Key, Estimate],
    decided: set[Key],
    critical_p: float,
) -> Iterator[FactorCrossing]:
    """Every change of sign between neighbouring levels of a quantitative factor, both of whose ends are decided."""
    for main in (one for one in effects if one.kind == "main"):
        for other in factors:
            if not other.values or other.name == main.factor:
                continue
            ordered = sorted(zip(other.values, other.levels, strict=True))
            for (low, low_level), (high, high_level) in pairwise(ordered):
                keys: list[Key] = [
                    (main.metric, main.step, "at", main.factor, main.level, other.name, level)
                    for level in (low_level, high_level)
                ]
                if not decided.issuperset(keys) or {low_level, high_level} & set(other.unreached):
                    continue
                found = crossing(estimates[keys[0]], estimates[keys[1]], critical_p)
                if found is not None:
                    value, start, end = (
                        exp(log(low) + share * (log(high) - log(low))) for share in (found.share, found.low, found.high)
                    )
                    ends = {"high_level": high_level, "ci_low": start, "ci_high": end}
                    yield FactorCrossing.like(main, other=other.name, value=value, **ends)


def _levels(experiment: Experiment, runs: Sequence[RunSummary], factors: Factors, index: int) -> FactorLevels:
    """One factor with the numbers that its levels are, where all of them are different numbers above 0.

    A number without a unit can be a mere code (innodb_flush_log_at_trx_commit): then its levels are called by words.
    """
    factor = factors.factors[index]
    base = factors.levels_of[experiment.control][index]
    arm_with = {levels[index]: arm for arm, levels in factors.levels_of.items()}
    settings = [_setting(experiment.arm(arm_with[level]).treatments, factor) for level in factor.levels]
    for unit, number in _NUMBERS.items() if not factor.name.startswith("network") else [("bit/s", _bandwidth)]:
        try:
            values = tuple(float(number(one)) for one in settings)
        except ValueError:
            continue
        if not unit and not all(any(letter.isdigit() for letter in level) for level in factor.levels):
            break
        if min(values) > 0.0 and len(set(values)) == len(values):
            slow = {factors.levels_of[run.arm][index] for run in runs if unit == "bit/s" and not _reached(run)}
            return FactorLevels.model_validate(
                {"name": factor.name, "levels": factor.levels, "base": base, "values": values, "unit": unit,
                 "unreached": [level for level in factor.levels if level in slow]}
            )  # fmt: skip
    return FactorLevels(name=factor.name, levels=factor.levels, base=base)


def _reached(run: RunSummary) -> bool:
    """Whether the run's link was as fast as it was set, as far as that was proved."""
    return all(one.facts.get("reached", True) for one in run.evidence if one.treatment == "network")


def _setting(treatments: dict[str, Any], factor: Factor) -> Any:
    """What an arm sets for a factor, "treatment" or "treatment.key"; None where it sets nothing."""
    treatment, _, key = factor.name.partition(".")
    value = treatments.get(treatment)
    return value.get(key) if key and isinstance(value, dict) else value


def _bandwidth(setting: Any) -> float:
    """Bits per second of what `network` sets. Raises ValueError where it sets more than a bandwidth."""
    if isinstance(setting, dict):
        setting = setting["bandwidth"] if list(setting) == ["bandwidth"] else None
    return parse_bits_per_s(setting)


def _number(setting: Any) -> float:
    if isinstance(setting, bool) or not isinstance(setting, int | float):
        raise ValueError("not a number")
    return float(setting)


_NUMBERS = {"": _number, "bytes": parse_bytes}
"""{unit: what makes a setting a number of it}, in the order in which they are tried."""
