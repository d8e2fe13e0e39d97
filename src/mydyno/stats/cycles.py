"""How often a state of the server came round: complete cycles of checkpoint age, dirty pages and their like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SWING = 0.25
"""A turn counts when the series has moved back by this share of its range (5th to 95th percentile)."""


def complete_cycles(values: Sequence[float] | NDArray[np.float64]) -> int:
    """The number of complete cycles (peak to peak, or trough to trough, whichever there are more of).

    A turn is confirmed when the series has moved back from its extreme by a quarter of its range, so ripples do not
    count. A constant or empty series has none.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size < 3:
        return 0
    swing = SWING * float(np.quantile(x, 0.95) - np.quantile(x, 0.05))
    if swing <= 0.0:
        return 0
    peaks = troughs = 0
    rising: bool | None = None
    highest = lowest = float(x[0])
    for value in x:
        highest, lowest = max(highest, float(value)), min(lowest, float(value))
        if rising is not False and highest - value > swing:
            peaks += rising is not None
            rising, lowest = False, float(value)
        elif rising is not True and value - lowest > swing:
            troughs += rising is not None
            rising, highest = True, float(value)
    return max(0, peaks - 1, troughs - 1)
