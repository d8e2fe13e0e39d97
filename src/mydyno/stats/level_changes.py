"""Lasting changes of level in a series of sessions, each with a standard error of its own.

Value i is level + what its session adds + noise. The noise has the stated standard error; as errors are estimates
themselves, they are first drawn towards their common value, as far as they scatter no more than estimates of one error
do (Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004)). The session's part has an unknown sd
that is estimated from the differences between neighbours, so that a change of level hardly adds to it. Weights are
1 / (error² + session sd²).

A stretch of sessions is divided into two or three segments of one level each (stats/division.py). Whether it is divided
at all is decided by how much the weighted sum of squares falls, against the same for series without a change, drawn
with the same weights (Monte Carlo test; the better of both numbers of segments counts, as in the draws). Draws follow
Student's t, because errors are estimates. The ratio does not depend on the size of the noise, so the test holds when
sessions scatter more than their errors say; with few sessions it then finds large changes only. Each part of a divided
stretch is tested in turn, at the error rate that belongs to its share of the sessions (Meinshausen, Biometrika 95
(2008)): a false alarm anywhere has at most the error rate of the whole.

A change that is smaller than the errors themselves allow is not reported, however well the sessions agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.stats.division import divide
from mydyno.stats.paired import t_quantile

FEWEST_SESSIONS = 4
"""With fewer, a change cannot be distinguished from the scatter of sessions."""
DRAWS = 999
MOST_FREEDOM = 200
"""Beyond it Student's t is normal."""
NORMAL_MEDIAN = 0.6744897501960817
"""The median of |z| of a standard normal z."""
POWER_80 = 0.8416
"""The quantile of the standard normal for 80 % power."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The sessions from `start` to `end` (exclusive): their common level with its standard error."""

    start: int
    end: int
    level: float
    error: float


@dataclass(frozen=True, slots=True)
class Change:
    """The level changes at session `at`, the first of the new level, by `size`; `low` and `high` are its interval."""

    at: int
    size: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Levels:
    """The division of a series. `p` is that of the test of the whole series; None with fewer than four sessions.

    `session_sd` is the sd that sessions have beyond their errors. `detectable` is the size of a change in the middle
    of the series that would be found in about 80 % of cases; None where `p` is.
    """

    segments: tuple[Segment, ...]
    changes: tuple[Change, ...]
    p: float | None
    session_sd: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class _Series:
    """Values with their weights and the degrees of freedom of their errors; `alpha` is the rate of the whole series."""

    x: NDArray[np.float64]
    weights: NDArray[np.float64]
    freedom: tuple[int, ...]
    alpha: float
    seed: int

    def null(self, start: int, end: int) -> NDArray[np.float64]:
        """How much of the sum of squares is left by 2 to 3 segments in drawn series without a change."""
        w = self.weights[start:end]
        return _null_ratios(tuple(np.round(w / w.max(), 3).tolist()), self.freedom[start:end], self.seed)


def level_changes(
    values: Sequence[float], errors: Sequence[float], freedom: Sequence[int], alpha: float = 0.05, seed: int = 1
) -> Levels:
    """The levels of a series of sessions in order of time, with errors of the same unit (logs, for ratios).

    `freedom` has the degrees of freedom of each error. `alpha` is the rate of series without any change in which one is
    reported. An error of 0 counts as the smallest positive one of the series.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return Levels((), (), None, 0.0, None)
    se, known = moderated(_positive(np.asarray(errors, dtype=np.float64)), np.maximum(1, np.asarray(freedom)))
    sd = session_sd(x, se)
    weights = 1.0 / (se**2 + sd**2)
    if x.size < FEWEST_SESSIONS:
        return Levels((_segment(x, weights, 0, x.size, 1.0),), (), None, sd, None)
    series = _Series(x, weights, tuple(known.tolist()), alpha, seed)
    ends, p = _tested(series, 0, x.size)
    ends, changes = _confirmed(x, weights, ends, alpha)
    scale = _scale(x, weights, ends)
    starts = [0, *ends[:-1]]
    segments = tuple(_segment(x, weights, a, b, scale) for a, b in zip(starts, ends, strict=True))
    return Levels(segments, changes, p, sd, _detectable(series, scale))


def moderated(errors: NDArray[np.float64], freedom: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Errors drawn towards their common value, and their degrees of freedom then, at most MOST_FREEDOM.

    The logs of estimated variances scatter by trigamma(freedom / 2); what is beyond it is the true variances' own.
    """
    if errors.size < FEWEST_SESSIONS:
        return errors, np.minimum(freedom, MOST_FREEDOM)
    logs = 2.0 * np.log(errors) - scipy.special.digamma(freedom / 2.0) + np.log(freedom / 2.0)
    beyond = float(logs.var(ddof=1)) - float(scipy.special.polygamma(1, freedom / 2.0).mean())
    if beyond <= float(scipy.special.polygamma(1, MOST_FREEDOM / 2.0)):
        prior = float(MOST_FREEDOM)
    else:
        prior = 2.0 * float(
            scipy.optimize.brentq(lambda d: float(scipy.special.polygamma(1, d)) - beyond, 1e-3, MOST_FREEDOM)
        )
    common = np.exp(logs.mean() + scipy.special.digamma(prior / 2.0) - np.log(prior / 2.0))
    variance = (prior * common + freedom * errors**2) / (prior + freedom)
    return np.sqrt(variance), np.minimum(freedom + int(prior), MOST_FREEDOM)


def session_sd(x: NDArray[np.float64], errors: NDArray[np.float64]) -> float:
    """The sd between sessions beyond their errors, from the median difference of neighbours; 0 below four sessions.

    The median of |difference| / its sd is that of a standard normal number.
    """
    if x.size < FEWEST_SESSIONS:
        return 0.0
    steps, known = np.abs(np.diff(x)), errors[1:] ** 2 + errors[:-1] ** 2

    def too_wide(sd: float) -> bool:
        return float(np.median(steps / np.sqrt(known + 2.0 * sd**2))) > NORMAL_MEDIAN

    if not too_wide(0.0):
        return 0.0
    low, high = 0.0, float(steps.max())
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if too_wide(middle) else (low, middle)
    return high


def _tested(series: _Series, start: int, end: int) -> tuple[list[int], float]:
    """(ends of the segments within start to end, p of this stretch)."""
    n = end - start
    if n < FEWEST_SESSIONS:
        return [end], 1.0
    null = series.null(start, end)
    found = divide(series.x[start:end], series.weights[start:end], 1 + null.shape[0])
    ratios = found.cost[1:, 0] / max(float(found.cost[0, 0]), 1e-300)
    each = (1.0 + (null <= ratios[:, None]).sum(axis=1)) / (1.0 + null.shape[1])
    p = (1.0 + int((_smallest_p(null) <= each.min()).sum())) / (1.0 + null.shape[1])
    if p > series.alpha * n / series.x.size:
        return [end], p
    ends = [start + one for one in found.ends(2 + int(np.argmin(each)))]
    starts = [start, *ends[:-1]]
    deeper = [_tested(series, a, b)[0] for a, b in zip(starts, ends, strict=True)]
    return [one for of_part in deeper for one in of_part], p


@lru_cache(maxsize=64)
def _null_ratios(weights: tuple[float, ...], freedom: tuple[int, ...], seed: int) -> NDArray[np.float64]:
    w = np.array(weights)
    random = np.random.default_rng([seed, w.size])
    drawn = random.standard_t(np.array(freedom), (DRAWS, w.size)) / np.sqrt(w)
    cost = divide(drawn, w, 3 if w.size > FEWEST_SESSIONS else 2).cost
    return np.asarray(cost[1:] / cost[0])


def _smallest_p(null: NDArray[np.float64]) -> NDArray[np.float64]:
    """The p-value of each draw: the smallest over the numbers of segments."""
    ranks = np.argsort(np.argsort(null, axis=1), axis=1) + 1
    return np.asarray(((1.0 + ranks) / (1.0 + null.shape[1])).min(axis=0))


def _confirmed(
    x: NDArray[np.float64], weights: NDArray[np.float64], ends: list[int], alpha: float
) -> tuple[list[int], tuple[Change, ...]]:
    """The ends, and the changes between them whose interval excludes 0; the least clear of the others go, one by one.

    Intervals are simultaneous by Bonferroni and have the degrees of freedom of the scatter within the segments.
    """
    while True:
        starts = [0, *ends[:-1]]
        scale, freedom = _scale(x, weights, ends), max(1, x.size - len(ends))
        parts = [_segment(x, weights, a, b, scale) for a, b in zip(starts, ends, strict=True)]
        factor = t_quantile(1.0 - alpha / 2.0 / max(1, len(ends) - 1), freedom)
        changes, weakest = [], (1.0, 0)
        for place, (one, other) in enumerate(pairwise(parts)):
            size, half = other.level - one.level, factor * sqrt(one.error**2 + other.error**2)
            changes.append(Change(other.start, size, size - half, size + half))
            weakest = min(weakest, (abs(size) / half, place))
        if weakest[0] >= 1.0:
            return ends, tuple(changes)
        ends = [end for place, end in enumerate(ends) if place != weakest[1]]


def _scale(x: NDArray[np.float64], weights: NDArray[np.float64], ends: list[int]) -> float:
    """By how much sessions scatter more than their weights say, as a factor of the sd, at least 1."""
    squares = 0.0
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        part, w = x[start:end], weights[start:end]
        squares += float((w * (part - np.average(part, weights=w)) ** 2).sum())
    return sqrt(max(1.0, squares / max(1, x.size - len(ends))))


def _segment(x: NDArray[np.float64], weights: NDArray[np.float64], start: int, end: int, scale: float) -> Segment:
    w = weights[start:end]
    return Segment(start, end, float(np.average(x[start:end], weights=w)), scale / sqrt(float(w.sum())))


def _detectable(series: _Series, scale: float) -> float:
    """From the critical value of the largest t: with a known scale the sum of squares falls by t² of the split."""
    n, weights = series.x.size, series.weights
    left = float(np.quantile(series.null(0, n)[0], series.alpha))
    critical = sqrt((1.0 - left) / left * (n - 2))
    error = sqrt(1.0 / float(weights[: n // 2].sum()) + 1.0 / float(weights[n // 2 :].sum()))
    return (critical + POWER_80) * scale * error


def _positive(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = errors[errors > 0.0]
    return np.where(errors > 0.0, errors, positive.min() if positive.size else 1e-9)
