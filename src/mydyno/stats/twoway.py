"""Block × server: the residual of each log value after the means of block and server, and how much of that is noise.

The two copies of the control are one arm that is measured twice. Each value is block + arm + noise, fitted by least
squares; the sum of squares that is left, divided by its degrees of freedom, is the variance of one value. All arms of a
step give to it, so it has (n − 1)(k − 1) + 1 degrees of freedom with n blocks and k servers, against n − 1 of one
contrast's own differences.

An arm that varies much more than the others (a server that stalls now and then) gives nothing to it: the other arms'
intervals would become as wide as its own. Its contrasts have the noise of their own differences (stats/contrast.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.stats.paired import NO_SPREAD

UNEQUAL_ABOVE = 0.25
"""Probability at which a contrast's own variance counts as larger than the pooled one.

Found by simulation of coverage at nominal 95 %, arms' noise 1.5, 2 and 3 times the others': .92 to .94 from 4 blocks on
(.90 at 3), where a test at 5 % left .84 to .90; equal noise: .95 to .96. A lower bar costs width and gains nothing.
"""
LEFT_OUT_BELOW = 0.01
"""Probability, if all arms varied alike, below which an arm varies too much to be pooled.

So low that the noise of arms that do vary alike is hardly ever made smaller by leaving out the most varied: simulated
coverage of nominal 95 % stays within half a percent (tests/unit/stats/test_contrast.py).
"""


def unequal_above(contrasts: int) -> float:
    """UNEQUAL_ABOVE as the rate of a family of so many contrasts: the probability at which each of them has its own
    variance. An arm that is left out always has.
    """
    return max(LEFT_OUT_BELOW, 1.0 - float((1.0 - UNEQUAL_ABOVE) ** (1.0 / max(1, contrasts))))


@dataclass(frozen=True, slots=True)
class TwoWay:
    """Residuals in the shape of the table (NaN where it has no value), the sd of one value, degrees of freedom.

    `sd` is None if no freedom is left, and 0 where nothing but rounding is.
    """

    residuals: NDArray[np.float64]
    sd: float | None
    freedom: int


def two_way(table: NDArray[np.float64], arms: Sequence[int]) -> TwoWay:
    """The fit of a table of log values, a row per block and a column per server; NaN is a missing value.

    `arms` numbers the arm of each column: the control's copies share a number.
    """
    present = ~np.isnan(table)
    labels = np.asarray(arms)
    if present.all() and table.size:
        return _complete(table, labels)
    rows, columns = np.nonzero(present)
    if rows.size == 0:
        return TwoWay(np.full(table.shape, np.nan), None, 0)
    values = table[rows, columns]
    design = np.hstack([np.eye(table.shape[0])[rows], (labels[columns][:, None] == np.unique(labels)).astype(float)])
    coefficients, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    residuals = np.full(table.shape, np.nan)
    residuals[rows, columns] = values - design @ coefficients
    return _with_sd(residuals, int(rows.size - rank))


def common_noise(table: NDArray[np.float64], arms: Sequence[int]) -> TwoWay:
    """The fit of two_way() without arms that vary much more than the others; NaN are their residuals.

    The control, number 0 of `arms`, always stays: its noise is in every contrast.
    """
    labels = np.asarray(arms)
    kept = np.ones(labels.size, dtype=bool)
    centred = table - np.array([np.nanmean(column) if not np.isnan(column).all() else np.nan for column in table.T])
    while True:
        found = [(_p_of_alike(table, centred, labels, kept, arm), arm) for arm in np.unique(labels[kept]) if arm != 0]
        p, erratic = min(found, default=(1.0, 0))
        if p >= LEFT_OUT_BELOW:
            break
        kept &= labels != erratic
    fit = two_way(table[:, kept], labels[kept].tolist())
    if kept.all():
        return fit
    residuals = np.full(table.shape, np.nan)
    residuals[:, kept] = fit.residuals
    return TwoWay(residuals, fit.sd, fit.freedom)


def _p_of_alike(
    table: NDArray[np.float64],
    centred: NDArray[np.float64],
    labels: NDArray[np.int64],
    kept: NDArray[np.bool_],
    arm: int,
) -> float:
    """The probability that an arm varies so much around the others that are kept, by an F test.

    `centred` is the table without its columns' means.
    """
    rest = kept & (labels != arm)
    fit = two_way(table[:, rest], labels[rest].tolist())
    if not fit.sd:
        return 1.0
    own, others = centred[:, labels == arm], centred[:, rest]
    count = (~np.isnan(others)).sum(axis=1)
    known = (count > 0) & ~np.isnan(own).any(axis=1)
    if known.sum() < 2:
        return 1.0
    apart = own[known].mean(axis=1) - np.nanmean(others[known], axis=1)
    expected = fit.sd**2 * float(np.mean(1.0 / own.shape[1] + 1.0 / count[known]))
    return float(scipy.special.fdtrc(int(known.sum()) - 1, fit.freedom, float(apart.var(ddof=1)) / expected))


def larger_than_pooled(
    variance: float, freedom: int, pooled: float, pooled_freedom: int, unequal_above: float = UNEQUAL_ABOVE
) -> bool:
    """Whether a contrast's own variance is above the one that pooling gives it, by an F test at `unequal_above`."""
    if pooled <= 0.0:
        return variance > 0.0
    return float(scipy.special.fdtrc(freedom, pooled_freedom, variance / pooled)) < unequal_above


def _complete(table: NDArray[np.float64], labels: NDArray[np.int64]) -> TwoWay:
    """Without missing values the means are the fit."""
    of_arm = np.empty(table.shape[1])
    for label in np.unique(labels):
        of_arm[labels == label] = table[:, labels == label].mean()
    residuals = table - table.mean(axis=1, keepdims=True) - of_arm + table.mean()
    blocks, servers = table.shape
    return _with_sd(np.asarray(residuals), blocks * servers - blocks - np.unique(labels).size + 1)


def _with_sd(residuals: NDArray[np.float64], freedom: int) -> TwoWay:
    if freedom < 1:
        return TwoWay(residuals, None, 0)
    if float(np.nanmax(np.abs(residuals))) <= NO_SPREAD:
        return TwoWay(np.where(np.isnan(residuals), np.nan, 0.0), 0.0, freedom)
    return TwoWay(residuals, sqrt(float(np.nansum(np.square(residuals))) / freedom), freedom)
