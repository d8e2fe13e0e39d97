"""Where the warm-up ends: MSER-5, the cut after which the mean of the rest has the smallest estimated error.

White, Simulation 69 (1997), on means of 5 samples; the best of the usual rules in Hoad, Robinson and Davies, Journal of
the Operational Research Society 61 (2010), but there are series on which it fails (Wang and Glynn, Winter Simulation
Conference 2016). The largest of many cuts is an extreme value (for pure noise in 40 runs its median is 55 s of 120): a
cut is a doubt about a window, and never moves one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCH = 5
FEWEST_LEFT = 5
"""Means that must remain after the cut: fewer can be close to each other by chance."""
FEWEST_BATCHES_TO_TRUST = 24
"""Below 2 minutes the cut of a steady series lies beyond its half in over 10 % of cases [simulated]."""


@dataclass(frozen=True, slots=True)
class MserCut:
    """`cut` samples to drop; `beyond_half`: that is more than half of the series; `trustworthy`: it was long enough."""

    cut: int
    samples: int
    beyond_half: bool
    trustworthy: bool


def mser5(series: Sequence[float] | NDArray[np.float64]) -> MserCut:
    """The MSER-5 cut of one sample per second, from the start of the load.

    The smallest sum of squares / (means left)² over cuts that leave at least a quarter of the series and 5 means;
    samples after the last full 5 are not looked at. A series of fewer than 10 samples, or of equal values, has the cut
    0.
    """
    x = np.asarray(series, dtype=np.float64)
    batches = x.size // BATCH
    trustworthy = batches >= FEWEST_BATCHES_TO_TRUST
    last = batches - max(FEWEST_LEFT, batches // 4)
    if last < 1:
        return MserCut(0, x.size, False, False)
    means = x[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    centred = (means - means.mean())[::-1]
    left = np.arange(1, batches + 1)
    squares = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / left
    error = (np.maximum(squares, 0.0) / left.astype(np.float64) ** 2)[::-1][: last + 1]
    smallest = float(error.min())
    # The first of equals: a flat series keeps all of itself, whatever rounding says.
    cut = int(np.flatnonzero(error <= smallest * (1.0 + 1e-9) + 1e-24 * float(np.square(x).max()))[0]) * BATCH
    return MserCut(cut, x.size, cut > x.size / 2.0, trustworthy)
