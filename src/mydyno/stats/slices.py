"""From the slices of an interleaved study to one number per arm, step and block. Pure functions on arrays.

The number of a block is a ratio of totals: the total work of the arm in the block's cycles over the total work of the
control in the same cycles, both adjusted for the host's speed. A total hides no stall (a trimmed mean of the cycles
does: it drops the slices in which an arm stood still), and what a whole cycle was slower by cancels in the ratio.

Adjustment: one regression for all arms together, of the log value on covariates that no arm can change, after the mean
of each lane (an arm's copy in a block) and of each cycle have been taken out: no effect of an arm can enter a
coefficient. What is measured while an arm is loaded is no such covariate (the load program's CPU time per query, what
other programs leave of the CPUs): an arm that makes its client 1 % dearer would seem 1 % faster. `before_and_after`
takes the same from the slices of the other arms around it. Large residuals are weighted down (Huber), so that single
disturbed slices do not make the coefficient.
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
LEFT_FOR = 2
"""Slices after an arm's own that may still show its load."""
LARGEST_SLOPE = 1.5
"""Of a log value on the log of the host's speed: 1 is a load that only CPU time limits."""
BOUNDED_ROUNDS = 200
LEAST_VARIATION = 1e-9
"""Sum of squares of a covariate below which it does not vary."""


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


def before_and_after(
    values: Array, middle_s: Array, arms: NDArray[np.str_], groups: Groups, before: NDArray[np.str_]
) -> Array:
    """What a log covariate (n) was around each slice: that of other arms' slices, interpolated to its own time.

    `middle_s` is the middle of each slice in time, `arms` each slice's arm, `before` those of the LEFT_FOR slices
    before it (n × LEFT_FOR; empty: none). What an arm adds to the values of its own slices, and of those after them, is
    taken out first, so that it matters not which arms are the neighbours. Only slices of the same block are neighbours;
    0 where a block has slices of one arm alone.
    """
    host = _of_host(values, before, groups)
    found = np.zeros(len(values))
    for block in np.unique(groups.block):
        rows = np.flatnonzero(groups.block == block)
        rows = rows[np.argsort(middle_s[rows])]
        for arm in np.unique(arms[rows]):
            others, own = rows[arms[rows] != arm], rows[arms[rows] == arm]
            if others.size:
                found[own] = np.interp(middle_s[own], middle_s[others], host[others])
    return found


def _of_host(values: Array, before: NDArray[np.str_], groups: Groups) -> Array:
    """The values less what the arms of the slices before add, by least squares within lanes and cycles, and less the
    mean of each lane: it is the arm's and its start's, and in two arms that are adjusted by each other, an error that
    their contrast has and A′ − A has not.
    """
    columns = [before == name for name in np.unique(before) if name]
    added = np.hstack([np.zeros((len(values), 0)), *columns])
    left = values - added @ np.linalg.lstsq(demeaned(added, groups), demeaned(values, groups))[0]
    return np.asarray(left - (np.bincount(groups.lane, weights=left) / np.bincount(groups.lane))[groups.lane])


def slopes(log_values: Array, covariates: Array, groups: Groups, signs: Array) -> Array:
    """The coefficient of each covariate (n × k) on the log values (n); zeros where there are too few slices.

    A coefficient has the sign (k) that is given, and at most LARGEST_SLOPE: what halves the host's speed makes no
    server three times slower. Slices without a finite log value must have been left out.
    """
    count = covariates.shape[1]
    if count == 0 or not enough_for_slopes(groups, count):
        return np.zeros(count)
    y, x = demeaned(log_values, groups), demeaned(covariates, groups) * signs
    weights = np.ones_like(y)
    beta = np.zeros(count)
    for _ in range(HUBER_ROUNDS):
        beta = _bounded(x.T @ (x * weights[:, None]), x.T @ (y * weights), beta)
        residuals = np.abs(y - x @ beta)
        scale = 1.4826 * float(np.median(residuals)) or 1e-12
        weights = np.minimum(1.0, HUBER_K * scale / np.maximum(residuals, 1e-12))
    return beta * signs


def _bounded(gram: Array, products: Array, start: Array) -> Array:
    """The least squares between 0 and LARGEST_SLOPE, one coefficient after the other (the problem is convex)."""
    beta = start.copy()
    for _ in range(BOUNDED_ROUNDS):
        before = beta.copy()
        for place in range(beta.size):
            if gram[place, place] > LEAST_VARIATION:
                rest = products[place] - float(gram[place] @ beta) + gram[place, place] * beta[place]
                beta[place] = min(max(rest / gram[place, place], 0.0), LARGEST_SLOPE)
        if float(np.abs(beta - before).max()) < 1e-9:
            break
    return beta


def residual_variance(log_values: Array, covariates: Array, beta: Array, groups: Groups) -> float:
    """The variance of a slice that lanes, cycles and covariates (n × k) leave; it contains nothing of any effect."""
    left = demeaned(log_values - covariates @ beta, groups)
    freedom = groups.residual_freedom() - beta.size
    return float(left @ left) / freedom if freedom > 0 else float("inf")


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
