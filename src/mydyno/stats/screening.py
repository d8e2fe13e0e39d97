"""Main effects of a screening design: from blocks that repeat it, or from one block by Lenth's method; and aliases.

The design has a row per run and a column per factor, coded −1, 0, 1. With x_j the column and y the logs of the runs,
the effect of going from −1 to 1 is 2 x_j·y / x_j·x_j: the difference between the means of the runs at both values.
Every block repeats all runs, so each block has an effect of its own and blocks are the unit, as everywhere. The runs'
noise is the same in all of them and the columns are orthogonal, so the effects' differences between blocks are one
estimate of the noise together: k·(n − 1) degrees of freedom for k factors in n blocks. The intervals are simultaneous
(stats/maxt.py). One block alone has no such differences: then Lenth's pseudo standard error (Technometrics 31 (1989))
takes the small effects for noise, with his margin of error for one effect and for all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.stats.paired import t_quantile, t_tail
from mydyno.stats.simultaneous import largest_t

Array = NDArray[np.float64]

ALIASED = 0.999
"""From this correlation on two effects cannot be separated."""


@dataclass(frozen=True, slots=True)
class MainEffect:
    """One factor's effect on the log; `half` None: no interval. `p` is adjusted for all factors together."""

    log_effect: float
    half: float | None
    p: float | None
    active: bool


@dataclass(frozen=True, slots=True)
class Screening:
    """The main effects in the order of the columns.

    `method`: "blocks" (their differences are the noise) or "lenth" (one block). `standard_error` is that of an effect's
    mean over the blocks, or Lenth's pseudo standard error.
    """

    effects: tuple[MainEffect, ...]
    method: str
    standard_error: float
    freedom: float


def main_effects(design: Array, logs: Array) -> Array:
    """blocks × factors: the effect of each factor in each block, from logs of blocks × runs."""
    return np.asarray(2.0 * logs @ design / np.square(design).sum(axis=0))


def screened(design: Array, logs: Array, alpha: float = 0.05, seed: int = 1) -> Screening:
    """The main effects of logs (blocks × runs) with simultaneous intervals of confidence 1 − alpha."""
    effects = main_effects(design, logs)
    blocks, factors = effects.shape
    mean = effects.mean(axis=0)
    if blocks < 2:
        return _lenth(mean, alpha)
    # Columns of a definitive design have different numbers of zeros at most by the added run: weights are equal enough.
    freedom = factors * (blocks - 1)
    error = sqrt(float(np.square(effects - mean).sum()) / freedom / blocks)
    if error == 0.0:
        found = [MainEffect(float(one), 0.0, None, bool(one)) for one in mean]
        return Screening(tuple(found), "blocks", 0.0, freedom)
    norms = design / np.sqrt(np.square(design).sum(axis=0))
    family = largest_t(norms.T @ norms, [freedom] * factors, [0] * factors, alpha, seed)
    half = t_quantile(1.0 - family.critical_p(alpha) / 2.0, freedom) * error
    found = []
    for one in mean:
        p = family.adjusted(2.0 * t_tail(abs(float(one)) / error, freedom))
        found.append(MainEffect(float(one), half, p, abs(float(one)) > half))
    return Screening(tuple(found), "blocks", error, freedom)


def _lenth(effects: Array, alpha: float) -> Screening:
    """One block: a margin for all effects together from the effects that are small."""
    sizes = np.abs(effects)
    first = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * first]
    error = 1.5 * float(np.median(small)) if small.size else 0.0
    freedom = sizes.size / 3.0
    # Lenth's simultaneous margin: the chance that all of the effects of a study without any stay within it.
    each = (1.0 + (1.0 - alpha) ** (1.0 / sizes.size)) / 2.0
    half = t_quantile(each, freedom) * error
    found = tuple(MainEffect(float(one), half, None, abs(float(one)) > half) for one in effects)
    return Screening(found, "lenth", error, freedom)


def half_normal_quantiles(count: int) -> Array:
    """Where the sizes of `count` effects without a cause are expected, in standard errors, in ascending order."""
    places = (np.arange(1, count + 1) - 0.5) / count
    return np.asarray(scipy.special.ndtri(0.5 + places / 2.0))


@dataclass(frozen=True, slots=True)
class Alias:
    """An interaction of two factors (by column) that adds `share` of itself to a main effect."""

    first: int
    second: int
    share: float


def aliases(design: Array) -> list[list[Alias]]:
    """For each factor, the interactions of two others that are mixed into its main effect, the largest shares first."""
    columns = [design[:, j] for j in range(design.shape[1])]
    found: list[list[Alias]] = []
    for j, own in enumerate(columns):
        mixed = []
        for a, b in combinations(range(len(columns)), 2):
            share = float(own @ (columns[a] * columns[b])) / float(own @ own)
            if j not in (a, b) and abs(share) > 1e-9:
                mixed.append(Alias(a, b, share))
        found.append(sorted(mixed, key=lambda alias: -abs(alias.share)))
    return found


def strongest(effects: Sequence[MainEffect], most: int) -> list[int]:
    """The columns of the active effects, the largest first, at most so many."""
    active = [j for j, one in enumerate(effects) if one.active]
    return sorted(active, key=lambda j: -abs(effects[j].log_effect))[:most]
