"""Whether a window drifts: the slope of a straight line times the window's length, with an interval for its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.autocorrelation import effective_sample_size
from mydyno.stats.paired import t_quantile


@dataclass(frozen=True, slots=True)
class Drift:
    """The change over the window by a straight line (0.01 is +1 %), and its interval; infinite for too few samples."""

    change: float
    low: float
    high: float

    def exceeds(self, limit: float) -> bool:
        """Whether the change is at least `limit` in size and noise does not explain it (the interval excludes 0)."""
        return abs(self.change) >= limit and (self.low > 0.0 or self.high < 0.0)

    def may_exceed(self, limit: float) -> bool:
        """Whether the change is at least `limit` in size, by noise or not."""
        return abs(self.change) >= limit


def relative(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(value), or where a value is not positive value / mean - 1, which is the same for small changes.

    A second without any transaction is a fact about a server and must not end in a missing logarithm. All zeros stay 0.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size and float(x.min()) > 0.0:
        return np.asarray(np.log(x), dtype=np.float64)
    mean = float(np.abs(x).mean()) if x.size else 0.0
    return x - 1.0 if mean == 0.0 else np.asarray(x / mean - 1.0, dtype=np.float64)


def drift(log_values: NDArray[np.float64], level: float = 0.95) -> Drift:
    """Least squares of the values against time; the standard error is widened by the residuals' autocorrelation.

    The change is slope × number of samples. Fewer than 3 samples give a change of 0 with an infinite interval.
    """
    n = log_values.size
    if n < 3:
        return Drift(0.0, -inf, inf)
    time = np.arange(n) - (n - 1) / 2.0
    spread = float(np.square(time).sum())
    slope = float(time @ (log_values - log_values.mean())) / spread
    residuals = log_values - log_values.mean() - slope * time
    effective = effective_sample_size(residuals)
    inflation = n / effective
    freedom = max(1.0, effective - 2.0)
    error = sqrt(float(np.square(residuals).sum()) / (n - 2) / spread * inflation) * n
    half = t_quantile(0.5 + level / 2.0, freedom) * error
    return Drift(slope * n, slope * n - half, slope * n + half)
