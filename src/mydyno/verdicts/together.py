"""All contrasts of a study together: their intervals and the p of their effects.

An interval is the wider of two. One is Student's t with the largest |t| of all contrasts (stats/simultaneous.py); its
noise is pooled, or the contrast's own where that is larger, by a test at UNEQUAL_ABOVE over all contrasts. The other
has the effects that the joint permutation of labels (stats/permutation.py) does not reject. So an interval without 1
and a p of at most alpha nearly always come together, with few blocks and many contrasts too. Contrasts of the first
metric of the question have a larger share of the error rate than the others (results/families.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import expm1

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.stats.contrast import Estimate, log_ratios
from mydyno.stats.groups import GroupedNoise, block_weights, group_deviations, grouped_estimate
from mydyno.stats.paired import LARGEST_LOG, Interval, ratio_of
from mydyno.stats.permutation import Exchange, JointTest, joint_test, possible
from mydyno.stats.simultaneous import LargestT, largest_t
from mydyno.stats.twoway import TwoWay, unequal_above
from mydyno.verdicts.effect import Family
from mydyno.verdicts.gather import ContrastBlocks, StepCells, Table

FEWEST_TO_CORRELATE = 8
"""Residuals that two steps or metrics must share before their correlation is used; else they count as independent."""
FLOOR_OF_MARGIN = 0.1
"""Share of the margin far below which a difference counts for less than its share of the noise.

A metric with hardly any noise (every key found, the bytes of a transaction) then does not hide the others' effects.
"""


@dataclass(frozen=True, slots=True)
class MeasuredContrast:
    """One contrast with all that belongs to it alone. `noise` and `table` are of its step."""

    family: Family
    cells: StepCells
    gathered: ContrastBlocks
    table: Table
    noise: GroupedNoise
    estimate: Estimate
    exchange: Exchange
    before: Estimate | None
    """The estimate from the values before their adjustment for the host's speed."""

    @property
    def pool(self) -> TwoWay:
        """The noise of all servers of the step that vary alike."""
        return self.noise.pool


@dataclass(frozen=True, slots=True)
class Together:
    """The contrasts of a study that have a block, tested together at error rate `alpha`. `weights`: of each."""

    alpha: float
    weights: tuple[float, ...]
    estimates: tuple[Estimate, ...]
    largest: LargestT
    joint: JointTest

    def critical_p(self, index: int | None) -> float:
        """The two-sided p of one contrast's t that keeps the study's error rate; None: of one that has no block."""
        return self.largest.critical_p(self.alpha, 1.0 if index is None else self.weights[index])

    def equal_contrasts(self, index: int | None) -> int:
        """How many contrasts of equal weight have as small a share of the error rate as this one."""
        return max(1, round(sum(self.weights) / (1.0 if index is None else self.weights[index])))

    def adjusted_t(self, index: int | None) -> float | None:
        """The adjusted p of one contrast's t; None for none, and where t does not exist."""
        p = None if index is None else self.estimates[index].p()
        return None if p is None or index is None else self.largest.adjusted(p, self.weights[index])

    def interval(self, index: int) -> tuple[Interval, float | None]:
        """The ratio's simultaneous interval of one contrast, and half of its width on the log scale as a fraction."""
        found, level = self.estimates[index], 1.0 - self.alpha
        half = found.half(self.critical_p(index))
        if found.mean is None or half is None:
            return Interval(None, None, level), None
        low, high = found.mean - half, found.mean + half
        permuted = self.joint.interval(index, self.alpha)
        if permuted is not None:
            low, high = min(low, permuted[0]), max(high, permuted[1])
        return Interval(ratio_of(low), ratio_of(high), level), expm1(min((high - low) / 2.0, LARGEST_LOG))


def estimates_of(members: Sequence[MeasuredContrast]) -> tuple[Estimate, ...]:
    """The estimate of each contrast, with the noise that it has among these."""
    bar = unequal_above(len(members))
    return tuple(
        grouped_estimate(one.gathered.blocks, one.noise, one.family.host_groups, unequal_above=bar) for one in members
    )


def tested_together(members: Sequence[MeasuredContrast], alpha: float, seed: int) -> Together:
    """The joint test and the simultaneous intervals of these contrasts; each has a block."""
    found = estimates_of(members)
    weights = tuple(one.family.weight for one in members)
    joint = joint_test(_sized([one.exchange for one in members], weights, alpha), seed)
    return Together(alpha, weights, found, _largest_t(members, found, alpha, seed), joint)


def _sized(exchanges: Sequence[Exchange], weights: Sequence[float], alpha: float) -> list[Exchange]:
    """The exchanges, their statistics in the proportion of what Bonferroni's shares of alpha ask of a normal number."""
    shares = [alpha * weight / sum(weights) for weight in weights]
    asked = [float(scipy.special.ndtri(1.0 - share / 2.0)) for share in shares]
    return [replace(one, size=min(asked) / own) for one, own in zip(exchanges, asked, strict=True)]


def exchange(gathered: ContrastBlocks, family: Family) -> Exchange:
    """What the permutation of labels exchanges in each block of a contrast."""
    pairs = StepCells(family.a_a, gathered.step).copies() if family.a_a else {}
    return Exchange(
        {block: possible(values, pairs.get(block)) for block, values in gathered.blocks.items()},
        block_weights(gathered.blocks, family.host_groups),
        group_deviations(log_ratios(gathered.blocks), family.host_groups),
        floor=family.margin * FLOOR_OF_MARGIN,
    )


def _largest_t(members: Sequence[MeasuredContrast], estimates: Sequence[Estimate], alpha: float, seed: int) -> LargestT:
    """The distribution of the largest |t| over the contrasts that have an interval."""
    having = [(one, found) for one, found in zip(members, estimates, strict=True) if found.error]
    if len(having) < 2:
        return LargestT(np.empty(0), 1.0)
    shared: list[tuple[int, str]] = [
        (id(one.pool), "") if found.pooled else (number, "own") for number, (one, found) in enumerate(having)
    ]
    groups = {key: place for place, key in enumerate(dict.fromkeys(shared))}
    return largest_t(
        _correlation([one for one, _ in having]),
        [found.freedom for _, found in having],
        [groups[key] for key in shared],
        alpha,
        seed,
        [one.family.weight for one, _ in having],
    )


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
            for arm, weight in ((one.gathered.arm, 1.0 / len(values.arm)), (control, -1.0 / len(values.control))):
                for copy in (1, 2):
                    column = where.get((arm, copy))
                    if column is not None and not np.isnan(table.logs[at, column]):
                        weights[row, cells[block, arm, copy]] = of_block[block] * weight
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
