"""Which canary readings (CPU loop, memory, fsync, network) are outside the host's usual range."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np

LIMIT_MADS = 3.0
MAD_TO_SD = 1.4826
"""Turns the median absolute deviation of normal values into their sd, so that 3 of them mark 0.3 % of good blocks."""


def canary_outliers(readings: Sequence[float], limit: float = LIMIT_MADS) -> list[int]:
    """The indices of readings further than `limit` scaled MADs from the session's median, in order.

    A reading that is missing (NaN) is an outlier: the block's canary did not work. If at least half of the readings are
    equal, every other value is further than any multiple of a MAD of 0, so it is marked. Fewer than 3 readings mark
    none.
    """
    values = np.asarray(readings, dtype=np.float64)
    good = values[~np.isnan(values)]
    missing = [index for index, value in enumerate(values) if isnan(value)]
    if good.size < 3:
        return missing
    median = float(np.median(good))
    mad = MAD_TO_SD * float(np.median(np.abs(good - median)))
    slack = 1e-9 * abs(median)
    return [i for i, value in enumerate(values) if isnan(value) or abs(value - median) > limit * mad + slack]
