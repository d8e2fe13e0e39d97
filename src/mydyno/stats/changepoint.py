"""Where a window changes its level: the exact best division into segments, and which of its steps are real.

Optimal partitioning by dynamic programming (Jackson et al., IEEE Signal Processing Letters 12 (2005)), which is what
PELT computes with fewer steps (Killick, Fearnhead and Eckley, Journal of the American Statistical Association 107
(2012)); at the some hundred points of a window the plain O(n²) is a few milliseconds. Cost: sum of squares within
segments; penalty: 3·s²·ln n for each further one. As noise of servers is correlated in time, a step must then also be
`SIGMAS` standard errors high, with errors that know the correlation inside the segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.division import divide

BATCH = 5
FEWEST_BATCHES = 12
MOST_SEGMENTS = 3
SIGMAS = 4.0


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The level changes at sample `at` (the first of the new level) by `change`, a difference of logs."""

    at: int
    change: float


def change_points(log_values: NDArray[np.float64], smallest: float) -> list[ChangePoint]:
    """The changes of level larger than `smallest` (a difference of logs) in a window, in order of time.

    Samples are averaged by 5 (by fewer in windows under 60). A segment is at least a tenth of the window. A window with
    fewer than 12 samples has none.
    """
    size = max(1, min(BATCH, log_values.size // FEWEST_BATCHES))
    batches = log_values.size // size
    if batches < FEWEST_BATCHES:
        return []
    means = log_values[: batches * size].reshape(batches, size).mean(axis=1)
    ends = _best_division(means, max(3, batches // 10))
    starts = [0, *ends[:-1]]
    residuals = np.concatenate([means[a:b] - means[a:b].mean() for a, b in zip(starts, ends, strict=True)])
    freedom = max(1, batches - len(ends))
    noise = sqrt(float(np.square(residuals).sum()) / freedom * _inflation(residuals, len(ends)))
    found = []
    for a, b, c in zip(starts, ends, ends[1:], strict=False):
        change = float(means[b:c].mean() - means[a:b].mean())
        error = noise * sqrt(1.0 / (b - a) + 1.0 / (c - b))
        if abs(change) > smallest and abs(change) > SIGMAS * error:
            found.append(ChangePoint(b * size, change))
    return found


def _inflation(residuals: NDArray[np.float64], segments: int) -> float:
    """How much wider than for independent values the error of a mean is: (1 + r) / (1 - r) of an AR(1) process.

    The correlation at lag 1 loses about (1 + 4 r) / n for each mean taken out (Kendall, Biometrika 41 (1954)), which is
    put back; it is held below 0.9, beyond which no window is long enough.
    """
    n, squares = residuals.size, float(np.square(residuals).sum())
    if squares <= 1e-24:
        return 1.0
    r = float(residuals[1:] @ residuals[:-1]) / squares
    r = min(0.9, max(0.0, (r + segments / n) / (1.0 - 4.0 * segments / n) if n > 8 * segments else r + segments / n))
    return (1.0 + r) / (1.0 - r)


def _best_division(x: NDArray[np.float64], shortest: int) -> list[int]:
    """The ends of the one to three segments that minimise cost + penalty; the last one is len(x)."""
    # The median is blind to the steps themselves; 0.6745 turns it into an sd, sqrt(2) undoes the difference.
    scale = float(np.median(np.abs(np.diff(x)))) / (0.6745 * sqrt(2.0))
    penalty = 3.0 * scale**2 * log(x.size)
    found = divide(x, most=MOST_SEGMENTS, shortest=shortest)
    chosen = min(
        range(1, MOST_SEGMENTS + 1), key=lambda segments: float(found.cost[segments - 1, 0]) + penalty * segments
    )
    return found.ends(chosen)
