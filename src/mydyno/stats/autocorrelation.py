"""The effective sample size of a correlated series: the number of independent values with the same information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.paired import NO_SPREAD


def effective_sample_size(values: Sequence[float] | NDArray[np.float64]) -> float:
    """n divided by the integrated autocorrelation time; between 1 and n, and n for fewer than 4 or for equal values.

    The sum of autocorrelations stops where a pair of neighbouring lags is no longer positive, and pairs are not allowed
    to grow again: Geyer's initial monotone sequence (Statistical Science 7 (1992)). Negative correlation is not
    credited: the answer is never above n.
    """
    x = np.asarray(values, dtype=np.float64)
    n = x.size
    if n < 4 or np.ptp(x) <= NO_SPREAD * max(1.0, float(np.abs(x).max())):
        return float(n)
    rho = autocorrelations(x)
    time, smallest = -1.0, np.inf
    for lag in range(0, n - 1, 2):
        pair = float(rho[lag] + rho[lag + 1])
        if pair <= 0.0:
            break
        smallest = min(smallest, pair)
        time += 2.0 * smallest
    return float(min(n, max(1.0, n / max(time, 1.0))))


def autocorrelations(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sample autocorrelations of all lags (divisor n), by the fast Fourier transform; x must not be constant."""
    n = x.size
    transform = np.fft.rfft(x - x.mean(), 2 * n)
    covariance = np.fft.irfft(np.abs(transform) ** 2)[:n]
    return np.asarray(covariance / covariance[0], dtype=np.float64)
