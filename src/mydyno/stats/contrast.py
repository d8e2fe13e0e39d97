"""One contrast of a step: the mean of d_b = mean of ln(X), ln(X′) − mean of ln(A), ln(A′), and its standard error.

The noise is pooled over all servers of the step unless this contrast's own differences vary more; then only those
count, as in a paired t test. A block in which only one copy of arm or control is valid counts with that one.

Blocks of different sessions are never paired: each session's estimate keeps its own error, and the errors add. The
variance of the difference is the sum of both variances, the degrees of freedom are Welch's and Satterthwaite's
(Biometrics Bulletin 2 (1946); Biometrika 34 (1947)), rounded down. As each estimate is the log of a ratio to its own
control, the difference is that of an indirect comparison (Bucher and others, Journal of Clinical Epidemiology 50
(1997)): the sessions' common speed cancels in each ratio, the noise of both remains. What differs from session to
session beyond the noise of blocks is not in this error, as two sessions cannot show it. Where more sessions show it,
`with_sessions` adds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.paired import LARGEST_LOG, Interval, has_no_spread, ratio_of, t_quantile, t_tail
from mydyno.stats.twoway import UNEQUAL_ABOVE, TwoWay, larger_than_pooled


class LogBlock(NamedTuple):
    """The log values of a block: of the arm's servers and of the control's, one or two copies of each."""

    arm: tuple[float, ...]
    control: tuple[float, ...]

    @property
    def difference(self) -> float:
        """d_b."""
        return sum(self.arm) / len(self.arm) - sum(self.control) / len(self.control)

    @property
    def squares(self) -> float:
        """The sum of the squared weights that the values have in d_b."""
        return 1.0 / len(self.arm) + 1.0 / len(self.control)


LogBlocks = Mapping[int, LogBlock]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`mean` and `error` are of the log ratio; `error` is None for fewer than two blocks, 0 where nothing varies.

    `block_sd` is the sd of one block's difference that `error` rests on.
    """

    n: int
    mean: float | None
    error: float | None
    freedom: int
    block_sd: float | None
    pooled: bool

    @property
    def ratio(self) -> float | None:
        """exp(mean)."""
        return None if self.mean is None else ratio_of(self.mean)

    def p(self) -> float | None:
        """The two-sided p of t; 1 without any difference or spread; None if it does not exist."""
        if self.mean is None or self.error is None:
            return None
        if self.error == 0.0:
            return 1.0 if abs(self.mean) <= 1e-12 else None
        return 2.0 * t_tail(abs(self.mean) / self.error, self.freedom)

    def interval(self, critical_p: float, level: float) -> Interval:
        """The ratio's interval whose t has this two-sided p outside; `level` is what it is called."""
        half = self.half(critical_p)
        if self.mean is None or half is None:
            return Interval(None, None, level)
        return Interval(ratio_of(self.mean - half), ratio_of(self.mean + half), level)

    def half(self, critical_p: float) -> float | None:
        """Half of the interval of the log ratio."""
        return None if self.error is None else t_quantile(1.0 - critical_p / 2.0, self.freedom) * self.error

    def half_width(self, critical_p: float) -> float | None:
        """The same as a fraction: 0.02 is ±2 %."""
        half = self.half(critical_p)
        return None if half is None else expm1(min(half, LARGEST_LOG))


def log_ratios(blocks: LogBlocks) -> dict[int, float]:
    """{block: d}."""
    return {block: one.difference for block, one in blocks.items()}


def estimate(blocks: LogBlocks, pool: TwoWay, unequal_above: float = UNEQUAL_ABOVE) -> Estimate:
    """The estimate from these blocks, with the noise of `pool`, the fit of the step's whole table.

    `unequal_above`: the probability below which the contrast's own noise counts as larger.
    """
    squares = [one.squares for one in blocks.values()]
    return estimate_sums(np.array(list(log_ratios(blocks).values())), np.array(squares), pool, unequal_above)


def estimate_sums(
    d: NDArray[np.float64], squares: NDArray[np.float64], pool: TwoWay, unequal_above: float = UNEQUAL_ABOVE
) -> Estimate:
    """The same of any weighted sum of log values: one number per block, and the sum of its squared weights."""
    n = d.size
    if n == 0:
        return Estimate(0, None, None, 0, None, False)
    mean = float(d.mean())
    if n == 1:
        return Estimate(1, mean, None, 0, None, False)
    own = 0.0 if has_no_spread(d) else float(d.var(ddof=1))
    if pool.sd is not None and pool.freedom > n - 1:
        pooled = pool.sd**2 * float(squares.mean())
        if not larger_than_pooled(own, n - 1, pooled, pool.freedom, unequal_above):
            return Estimate(n, mean, sqrt(pooled / n), pool.freedom, sqrt(pooled), True)
    return Estimate(n, mean, sqrt(own / n), n - 1, sqrt(own), False)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """`second` less `first`, of log ratios; `n` is the smaller number of blocks, `error` is None if either's is."""
    if first.mean is None or second.mean is None:
        return Estimate(min(first.n, second.n), None, None, 0, None, False)
    n, mean = min(first.n, second.n), second.mean - first.mean
    if first.error is None or second.error is None:
        return Estimate(n, mean, None, 0, None, False)
    error = sqrt(first.error**2 + second.error**2)
    return Estimate(n, mean, error, _freedom(first, second), None, False)


def with_sessions(found: Estimate, sd: float, sessions: int) -> Estimate:
    """The difference with the scatter of both sessions in its error; `sd`, of logs, is known from so many sessions."""
    if found.error is None or sd <= 0.0:
        return found
    own, between = found.error**2, 2.0 * sd**2
    terms = own**2 / max(1, found.freedom) + between**2 / (sessions - 1)
    freedom = max(1, int((own + between) ** 2 / terms + 1e-9))
    return Estimate(found.n, found.mean, sqrt(own + between), freedom, None, False)


def _freedom(first: Estimate, second: Estimate) -> int:
    """Welch and Satterthwaite's, at least that of the session with fewer; without any spread the smaller of both."""
    a, b = (first.error or 0.0) ** 2, (second.error or 0.0) ** 2
    if a + b == 0.0 or first.freedom < 1 or second.freedom < 1:
        return min(first.freedom, second.freedom)
    found = (a + b) ** 2 / (a**2 / first.freedom + b**2 / second.freedom)
    return max(1, int(found + 1e-9))
