"""Contrasts of a factorial design on block numbers: main effects, interactions, and one factor at another's levels.

The model of a step is log value = block + arm + noise, with one arm for each combination of the factors' levels. A
contrast is a weighted sum of arms whose weights add up to 0, so the block drops out; its value in each block is one
number. In a design without missing values the mean over blocks is the estimate of the mixed linear model with random
blocks, and of least squares with fixed ones. Its noise is that of the step's table, or its own where that is larger
(stats/contrast.py).

A crossing is where an effect that has one sign at one measured level of a quantitative factor and the other sign at the
next is 0, by a straight line over the logarithm of the level. Its interval is Fieller's (Biometrika 41 (1954)).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import t_quantile

Levels = tuple[str, ...]
"""An arm as its level of each factor."""


@dataclass(frozen=True, slots=True)
class FactorContrast:
    """What a level of a factor does against the factor's base level, as weights of arms that add up to 0.

    `main`: the mean over all combinations of the other factors. `at`: the mean over those with one level of another
    factor. `interaction`: how much the effect at that level differs from the effect at the other factor's base level.
    Factors are numbered.
    """

    kind: Literal["main", "at", "interaction"]
    factor: int
    level: str
    weights: Mapping[Levels, float]
    other: int | None = None
    at: str = ""


def factor_contrasts(factors: Sequence[Levels], base: Levels) -> Iterator[FactorContrast]:
    """Every contrast of a full product of these factors' levels; `base` is the control's level of each."""
    for factor, levels in enumerate(factors):
        for level in levels:
            if level == base[factor]:
                continue
            yield FactorContrast("main", factor, level, _weights(factors, factor, level, base))
            for other in range(len(factors)):
                if other == factor:
                    continue
                at = {one: _weights(factors, factor, level, base, {other: one}) for one in factors[other]}
                for one, weights in at.items():
                    yield FactorContrast("at", factor, level, weights, other, one)
                    if other > factor and one != base[other]:
                        difference = {**weights, **{arm: -weight for arm, weight in at[base[other]].items()}}
                        yield FactorContrast("interaction", factor, level, difference, other, one)


def _weights(
    factors: Sequence[Levels], factor: int, level: str, base: Levels, fixed: Mapping[int, str] | None = None
) -> dict[Levels, float]:
    """Level less base, averaged over the combinations of the other factors, some of which are fixed."""
    of = [(fixed[index],) if fixed and index in fixed else levels for index, levels in enumerate(factors)]
    of[factor] = (level, base[factor])
    combinations = list(itertools.product(*of))
    share = 2.0 / len(combinations)
    return {arm: share if arm[factor] == level else -share for arm in combinations}


@dataclass(frozen=True, slots=True)
class Sums:
    """A contrast in the blocks that have all of its arms: its value, and the sum of the squared weights of what was
    measured there (a control measured twice counts with half its weight, twice).
    """

    values: NDArray[np.float64]
    squares: NDArray[np.float64]
    blocks: NDArray[np.int64]
    """The rows of the table that these are of."""


def sums(table: NDArray[np.float64], arms: Sequence[int], weights: Sequence[float]) -> Sums:
    """The contrast's values from log values, a row per block and a column per server; NaN is a missing value.

    `arms` numbers the arm of each column, `weights` has one for each arm.
    """
    labels = np.asarray(arms)
    values, squares = np.zeros(table.shape[0]), np.zeros(table.shape[0])
    for arm, weight in enumerate(weights):
        if weight:
            of_arm = table[:, labels == arm]
            count = (~np.isnan(of_arm)).sum(axis=1)
            known = np.nansum(of_arm, axis=1) / np.where(count > 0, count, 1)
            values += np.where(count > 0, weight * known, np.nan)
            squares += weight**2 / np.where(count > 0, count, 1)
    rows = np.flatnonzero(~np.isnan(values))
    return Sums(values[rows], squares[rows], rows)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where between two levels an effect is 0: a share of the way from the first to the second, with its interval."""

    share: float
    low: float
    high: float


def crossing(one: Estimate, two: Estimate, critical_p: float) -> Crossing | None:
    """The crossing of an effect between two levels, from its estimates there, which share no server.

    None unless both are decided at `critical_p` and have different signs; then Fieller's interval lies between the
    levels.
    """
    if one.mean is None or two.mean is None or one.mean * two.mean >= 0.0:
        return None
    halves = one.half(critical_p), two.half(critical_p)
    if halves[0] is None or halves[1] is None or abs(one.mean) <= halves[0] or abs(two.mean) <= halves[1]:
        return None
    assert one.error is not None and two.error is not None
    freedom = min(one.freedom, two.freedom)
    t = t_quantile(1.0 - critical_p / 2.0, freedom) if freedom > 0 else 0.0
    share = one.mean / (one.mean - two.mean)
    # (1 − s)·one + s·two is 0 at the crossing; its limits are where its square is t² times its variance.
    slope, first, second = two.mean - one.mean, (t * one.error) ** 2, (t * two.error) ** 2
    a, b, c = slope**2 - first - second, 2.0 * (one.mean * slope + first), one.mean**2 - first
    root = b**2 - 4.0 * a * c
    if a <= 0.0 or root < 0.0:
        return None
    ends = sorted(((-b - sqrt(root)) / (2.0 * a), (-b + sqrt(root)) / (2.0 * a)))
    return Crossing(share, max(0.0, ends[0]), min(1.0, ends[1]))
