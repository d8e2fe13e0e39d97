"""Simultaneous intervals of all contrasts of a study: how large the largest |t| is when none of them has an effect.

The distribution has no formula, as contrasts share controls, blocks and the estimate of the noise; it is drawn: normal
numbers with the contrasts' correlation, divided by drawn standard deviations (Hothorn, Bretz and Westfall, Biometrical
Journal 50 (2008)). Contrasts with fewer degrees of freedom have wider t distributions, so what is drawn and compared
is the p value that belongs to each |t|. A contrast may have a larger share of the error rate than another: its p is
divided by its weight. The draws are seeded: the same study has the same intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

MOST_NUMBERS = 4_000_000
"""Normal numbers drawn at most: a study with very many contrasts has fewer draws."""
FEWEST_DRAWS, MOST_DRAWS = 10_000, 20_000
DRAWS_BEYOND = 400
"""Draws that should lie beyond the critical value, where MOST_DRAWS allows it."""


@dataclass(frozen=True, slots=True)
class LargestT:
    """The smallest p over weight of the family under no effect, drawn and in ascending order; empty for one contrast.

    `total` is the sum of the weights.
    """

    smallest: NDArray[np.float64]
    total: float

    def critical_p(self, alpha: float, weight: float = 1.0) -> float:
        """The two-sided p of one contrast that keeps the family's error rate: from its share of alpha (Bonferroni) to
        alpha.
        """
        if not self.smallest.size:
            return alpha
        drawn = float(np.quantile(self.smallest, alpha, method="inverted_cdf"))
        return min(weight * max(drawn, alpha / self.total), alpha)

    def adjusted(self, p: float, weight: float = 1.0) -> float:
        """The adjusted p of a contrast with this two-sided p: never below it, never above Bonferroni's."""
        if not self.smallest.size:
            return p
        drawn = float(np.searchsorted(self.smallest, p / weight, side="right")) / self.smallest.size
        return min(max(drawn, p), self.total * p / weight, 1.0)


def largest_t(
    correlation: NDArray[np.float64],
    freedom: Sequence[float],
    shared_sd: Sequence[int],
    alpha: float,
    seed: int = 1,
    weights: Sequence[float] = (),
) -> LargestT:
    """The largest |t| of contrasts with this correlation and these degrees of freedom, as the p that belongs to it.

    Contrasts with the same number in `shared_sd` have one estimate of the noise; `weights` are all 1 if empty. A matrix
    that is not positive semidefinite, as correlations from tables with holes may be, is replaced by the nearest one by
    eigenvalues.
    """
    contrasts = len(freedom)
    if contrasts == 1:
        return LargestT(np.empty(0), 1.0)
    weights = weights or [1.0] * contrasts
    draws = int(min(max(FEWEST_DRAWS, DRAWS_BEYOND / alpha), MOST_DRAWS, max(2_000, MOST_NUMBERS // contrasts)))
    groups = {group: place for place, group in enumerate(dict.fromkeys(shared_sd))}
    t = np.abs(_normals(contrasts, draws, seed) @ _root(correlation).T)
    for column, (group, degrees) in enumerate(zip(shared_sd, freedom, strict=True)):
        t[:, column] /= _drawn_sds(float(degrees), groups[group], draws, seed)
    smallest = np.ones(draws)
    alike = list(zip(freedom, weights, strict=True))
    for degrees, weight in dict.fromkeys(alike):
        largest = t[:, [one == (degrees, weight) for one in alike]].max(axis=1)
        smallest = np.minimum(smallest, 2.0 * scipy.special.stdtr(degrees, -largest) / weight)
    return LargestT(np.sort(smallest), sum(weights))


def _root(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    length = np.sqrt(np.square(root).sum(axis=1, keepdims=True))
    return np.asarray(root / np.where(length > 0.0, length, 1.0))


@lru_cache(maxsize=2)
def _normals(contrasts: int, draws: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, 0]).standard_normal((draws, contrasts))


@lru_cache(maxsize=64)
def _drawn_sds(freedom: float, group: int, draws: int, seed: int) -> NDArray[np.float64]:
    """Drawn estimates of an sd of 1 with these degrees of freedom."""
    return np.sqrt(np.random.default_rng([seed, 1, group]).chisquare(freedom, draws) / freedom)
