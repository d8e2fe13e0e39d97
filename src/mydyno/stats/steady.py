"""Whether a window may be called steady: warm-up cut, drift and change points of the throughput, and the server's
state.

No single rule is trusted. A window is `not steady` if noise does not explain what was seen, `undecided` if the window
is too short or too noisy to decide (then only a longer window helps, and the verdict says so), `steady` otherwise.

The warm-up ends where MSER-5 cuts: the cut after which the mean of the rest has the smallest estimated error. White,
Simulation 69 (1997), on means of 5 samples; the best of the usual rules in Hoad, Robinson and Davies, Journal of the
Operational Research Society 61 (2010), but there are series on which it fails (Wang and Glynn, Winter Simulation
Conference 2016). The largest of many cuts is an extreme value (for pure noise in 40 runs its median is 55 s of 120): a
cut is a doubt about a window, and never moves one.

Where a window changes its level: the exact best division into segments, and which of its steps are real. Optimal
partitioning by dynamic programming (Jackson et al., IEEE Signal Processing Letters 12 (2005)), which is what PELT
computes with fewer steps (Killick, Fearnhead and Eckley, Journal of the American Statistical Association 107 (2012));
at the some hundred points of a window the plain O(n²) is a few milliseconds. Cost: sum of squares within segments;
penalty: 3·s²·ln n for each further one. As noise of servers is correlated in time, a step must then also be `SIGMAS`
standard errors high, with errors that know the correlation inside the segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.division import divide
from mydyno.stats.paired import NO_SPREAD, t_quantile

LEVEL_BATCH = 5
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
    size = max(1, min(LEVEL_BATCH, log_values.size // FEWEST_BATCHES))
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


FEWEST_CYCLES = 3
FEWEST_SAMPLES = 12
STATE_MARGIN = 0.05


class Steadiness(StrEnum):
    """The three answers about a window."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class StateSeries:
    """A state of the server over the window: checkpoint age, dirty pages, resident memory.

    Its drift is measured against `scale`: the state's own capacity where it has one (the maximum checkpoint age, 100
    for a percentage), else None for the window's mean. An empty series does not exist on this server and is not judged.
    """

    name: str
    values: Sequence[float] | NDArray[np.float64]
    scale: float | None = None
    margin: float = STATE_MARGIN


@dataclass(frozen=True, slots=True)
class SteadyVerdict:
    """The answer with everything it rests on; `reasons` are phrases for the report, empty for a steady window."""

    steadiness: Steadiness
    drift: Drift
    change_points: tuple[ChangePoint, ...]
    cycles: dict[str, int]
    reasons: tuple[str, ...]


def judge(
    throughput: Sequence[float] | NDArray[np.float64],
    margin: float,
    cut: MserCut | None = None,
    states: Sequence[StateSeries] = (),
) -> SteadyVerdict:
    """The verdict on one window of throughput, a sample per second, after the common cut.

    `margin` is the one of the verdicts, a fraction; `cut` is the MSER-5 cut of the whole series of this run. Not
    steady: the cut lies beyond half of the series; the straight line changes by margin / 2 or more; the level changes
    by more than the margin; or a state neither completed 3 cycles nor stayed within its own margin. Raises BugError for
    a NaN.
    """
    x = np.asarray(throughput, dtype=np.float64)
    if not np.isfinite(x).all() or not margin > 0.0:
        raise BugError("steady state is judged on finite throughput and a positive margin")
    logs = relative(x)
    line, steps = drift(logs), tuple(change_points(logs, log(1.0 + margin)))
    broken, doubts = _cut_reasons(cut)
    if line.exceeds(margin / 2.0):
        broken.append(f"throughput drifts by {_signed(line.change)} over the window, limit ±{_percent(margin / 2.0)}")
    elif line.may_exceed(margin / 2.0):
        doubts.append(
            f"a drift of {_signed(line.change)} over the window may be noise: the window is too short to decide"
        )
    broken += [f"the level changes by {_signed(step.change)} at {step.at} s of the window" for step in steps]
    cycles = {state.name: complete_cycles(state.values) for state in states if len(state.values)}
    # A state cannot complete cycles in a few seconds: that says nothing against the server, only against the window.
    (broken if x.size >= FEWEST_SAMPLES else doubts).extend(
        reason for state in states if (reason := _state_reason(state, cycles))
    )
    if x.size < FEWEST_SAMPLES:
        doubts.append(f"{x.size} samples are too few to judge")
    elif float(x.max()) <= 0.0:
        broken.append("nothing was served in the window")
    steadiness = Steadiness.NOT_STEADY if broken else Steadiness.UNDECIDED if doubts else Steadiness.STEADY
    return SteadyVerdict(steadiness, line, steps, cycles, tuple(broken + doubts))


def _cut_reasons(cut: MserCut | None) -> tuple[list[str], list[str]]:
    """What the MSER-5 cut says against the run, and what it leaves in doubt."""
    if cut is None or not cut.beyond_half:
        return [], []
    reason = f"the warm-up takes {cut.cut} of {cut.samples} samples by MSER-5, more than half"
    return ([reason], []) if cut.trustworthy else ([], [f"{reason}, in a series too short to trust it"])


def _state_reason(state: StateSeries, cycles: dict[str, int]) -> str:
    """Why a state of the server speaks against the window; empty if it does not."""
    values = np.asarray(state.values, dtype=np.float64)
    scale = state.scale or (float(np.abs(values).mean()) if values.size else 0.0)
    if values.size < 3 or scale == 0.0 or cycles[state.name] >= FEWEST_CYCLES:
        return ""
    change = drift(np.asarray(values / scale, dtype=np.float64)).change
    if abs(change) < state.margin:
        return ""
    seen = cycles[state.name]
    return f"{state.name} changes by {_signed(change)} over the window and completes {seen} of {FEWEST_CYCLES} cycles"


def _percent(fraction: float) -> str:
    return f"{abs(fraction) * 100.0:.1f} %"


def _signed(change: float) -> str:
    return ("+" if change >= 0.0 else "\N{MINUS SIGN}") + _percent(change)
