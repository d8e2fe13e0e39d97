"""From the slices of an interleaved study to one number per arm, step and block. Pure functions on arrays.

The number of a block is a ratio of totals: the total work of the arm in the block's cycles over the total work of the
control in the same cycles, both adjusted for the host's speed. A total hides no stall (a trimmed mean of the cycles
does: it drops the slices in which an arm stood still), and what a whole cycle was slower by cancels in the ratio.

Adjustment: one regression for all arms together, of the log value on covariates that the arm cannot change, after the
mean of each lane (an arm's copy in a block) and of each cycle have been taken out: no effect of an arm can enter a
coefficient. Large residuals are weighted down (Huber), so that single disturbed slices do not make the coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
HUBER_K = 1.345
HUBER_ROUNDS = 10
DEMEAN_ROUNDS = 50
LEAST_SLICES_PER_COVARIATE = 10


@dataclass(frozen=True)
class Groups:
    """Which lane, cycle and block each slice belongs to: consecutive numbers from 0, of length n."""

    lane: NDArray[np.int64]
    cycle: NDArray[np.int64]
    block: NDArray[np.int64]

    def residual_freedom(self) -> int:
        """Degrees of freedom that are left when every lane's and every cycle's mean are taken out.

        The means of a block's lanes and those of its cycles share one: the block's.
        """
        lanes, cycles, blocks = (len(np.unique(index)) for index in (self.lane, self.cycle, self.block))
        return int(self.lane.size - lanes - cycles + blocks)

    def of(self, chosen: NDArray[np.bool_]) -> Groups:
        """Those of the chosen slices."""
        return Groups(self.lane[chosen], self.cycle[chosen], self.block[chosen])


def demeaned(values: Array, groups: Groups) -> Array:
    """Values (n or n × k) less the means of their lane and of their cycle; exact also where slices are missing."""
    out = np.array(values, dtype=np.float64)
    for _ in range(DEMEAN_ROUNDS):
        largest = 0.0
        for index in (groups.lane, groups.cycle):
            counts = np.bincount(index)
            for column in range(out.shape[1]) if out.ndim == 2 else (None,):
                part = out if column is None else out[:, column]
                means = np.bincount(index, weights=part) / np.maximum(counts, 1)
                part -= means[index]
                largest = max(largest, float(np.abs(means).max(initial=0.0)))
        if largest < 1e-12:
            break
    return out


def enough_for_slopes(groups: Groups, covariates: int) -> bool:
    """Whether there are enough slices to estimate the coefficients of so many covariates."""
    return groups.residual_freedom() >= LEAST_SLICES_PER_COVARIATE * covariates


def slopes(log_values: Array, covariates: Array, groups: Groups) -> Array:
    """The coefficient of each covariate (n × k) on the log values (n); zeros where there are too few slices.

    Slices without a finite log value must have been left out. A covariate that does not vary gets 0.
    """
    count = covariates.shape[1]
    if count == 0 or not enough_for_slopes(groups, count):
        return np.zeros(count)
    y, x = demeaned(log_values, groups), demeaned(covariates, groups)
    varies = x.std(axis=0) > 1e-9
    found = np.zeros(count)
    if not varies.any():
        return found
    x = x[:, varies]
    weights = np.ones_like(y)
    beta: Array = np.zeros(x.shape[1])
    for _ in range(HUBER_ROUNDS):
        root = np.sqrt(weights)
        beta = np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0], dtype=np.float64)
        residuals = np.abs(y - x @ beta)
        scale = 1.4826 * float(np.median(residuals)) or 1e-12
        weights = np.minimum(1.0, HUBER_K * scale / np.maximum(residuals, 1e-12))
    found[varies] = beta
    return found


def adjusted_work(work: Array, covariates: Array, beta: Array, centre: Array) -> Array:
    """Work (n) as it would have been with the covariates at their centre (k): zeros stay zeros."""
    if not beta.size:
        return work
    return np.asarray(work * np.exp(-((covariates - centre) @ beta)), dtype=np.float64)


CARRY_OVER_ALPHA = 0.001


def carry_over(residuals: Array, preceding: NDArray[np.str_]) -> float | None:
    """The largest mean effect (in logs) of the arm that was loaded before a slice, where there is one beyond noise.

    `residuals` are log values less the means of lane and cycle, `preceding` names the arm of the slice before; empty
    for the first of a step. None if an analysis of variance finds nothing at 0.1 %.
    """
    groups = [residuals[preceding == name] for name in np.unique(preceding) if name]
    groups = [group for group in groups if group.size > 2]
    if len(groups) < 2:
        return None
    if not _anova_p(groups) < CARRY_OVER_ALPHA:
        return None
    return float(max((group.mean() for group in groups), key=abs))


def _anova_p(groups: Sequence[Array]) -> float:
    """p-value of a one-way analysis of variance; NaN where all values are equal."""
    mean, count = float(np.concatenate(groups).mean()), sum(group.size for group in groups)
    between = sum(group.size * (float(group.mean()) - mean) ** 2 for group in groups)
    within = sum(float(np.square(group - group.mean()).sum()) for group in groups)
    extra, freedom = len(groups) - 1, count - len(groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(scipy.special.fdtrc(extra, freedom, np.float64(between / extra) / np.float64(within / freedom)))


def spread_within(log_ratios: Sequence[Array]) -> float | None:
    """The pooled standard deviation of per-cycle log ratios inside blocks; None without two cycles in any block."""
    squares, freedom = 0.0, 0
    for block in log_ratios:
        finite = block[np.isfinite(block)]
        if finite.size > 1:
            squares += float(((finite - finite.mean()) ** 2).sum())
            freedom += finite.size - 1
    return float(np.sqrt(squares / freedom)) if freedom else None


def spread_between(block_ratios: Array, within: float | None, cycles: float) -> float | None:
    """The standard deviation between blocks beyond what `within` explains at so many cycles a block; 0 at least."""
    if block_ratios.size < 2 or within is None or cycles <= 0:
        return None
    return float(np.sqrt(max(0.0, float(block_ratios.var(ddof=1)) - within**2 / cycles)))


def welch_ratio(logs: Array, reference: Array, confidence: float = 0.95) -> tuple[float, float, float]:
    """(low, ratio, high) of the geometric means of two independent samples given as logs; at least 2 values each.

    Welch's t interval (Biometrika 34, 1947) on the difference of the means of the logs.
    """
    difference = float(logs.mean() - reference.mean())
    if max(np.ptp(logs), np.ptp(reference)) < 1e-9:  # no noise: the interval has no width
        return float(np.exp(difference)), float(np.exp(difference)), float(np.exp(difference))
    first, second = (float(one.var(ddof=1)) / one.size for one in (logs, reference))
    freedom = (first + second) ** 2 / (first**2 / (logs.size - 1) + second**2 / (reference.size - 1))
    half = float(scipy.special.stdtrit(freedom, 0.5 + confidence / 2)) * float(np.sqrt(first + second))
    return float(np.exp(difference - half)), float(np.exp(difference)), float(np.exp(difference + half))
