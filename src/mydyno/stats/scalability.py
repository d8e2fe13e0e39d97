"""Gunther's Universal Scalability Law, fitted to throughput against concurrency, with intervals and lack of fit.

X(N) = X1 N / (1 + contention (N - 1) + coherency N (N - 1)). The unit is the block: one number for each level and
block. N / X is linear in 1/X1, contention/X1 and coherency/X1, none of which is negative: least squares of the
relative errors with that bound have one solution and need no starting point. In a closed loop without think times
N / X(N) is the mean response time (Little). Intervals come from the jackknife over
blocks (Tukey 1958), because what one start of a server adds to all its levels must not count once for each level.

Source: N. J. Gunther, Guerrilla Capacity Planning, Springer 2007, chapter 4; lack of fit: Draper and Smith, Applied
Regression Analysis, section 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, log2, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.paired import t_quantile

PARAMETERS = 3
FEWEST_LEVELS = PARAMETERS + 1
"""With as many levels as parameters every law fits."""
SMALLEST_SHARE = 1e-4
"""Coherency is none where it costs less than this share of the throughput at the highest level."""
CURVE_POINTS = 48


@dataclass(frozen=True, slots=True)
class Curve:
    """One fitted law. `serial` is the throughput of one connection, per second; the other two have no unit."""

    serial: float
    contention: float
    coherency: float

    def at(self, connections: float) -> float:
        """The throughput at this concurrency, per second."""
        n = connections
        return self.serial * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1))

    def response_s(self, connections: float) -> float:
        """N / X(N): the mean response time where each connection always has one transaction under way, in seconds."""
        return connections / self.at(connections)

    @property
    def peak(self) -> float | None:
        """The concurrency of the highest throughput; None if the law has none, because throughput only levels off."""
        if self.coherency <= 0 or self.contention >= 1:
            return None
        return max(1.0, sqrt((1 - self.contention) / self.coherency))


@dataclass(frozen=True, slots=True)
class Bounds:
    """An estimate with its interval; `low` and `high` are None with one block, or if the law needs all blocks."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Scalability:
    """What the blocks say about one law.

    `peak` is None where the curve has none; its interval is missing where a curve without one of the blocks has none.
    `lack_of_fit_p` is that of the F test of the levels' deviations from the curve against the scatter between blocks;
    None with one block. `largest_deviation` is the greatest |measured / fitted - 1| of a level's geometric mean.
    """

    curve: Curve
    serial: Bounds
    contention: Bounds
    coherency: Bounds
    peak: Bounds | None
    lack_of_fit_p: float | None
    largest_deviation: float
    responses_s: tuple[tuple[float, Bounds], ...]
    """(connections, N / X(N)) at `curve_levels`, with intervals of each point alone."""


def curve_levels(levels: Sequence[float]) -> list[float]:
    """Connections at which a curve over these levels is drawn, evenly spaced on a logarithmic scale."""
    low, high = log2(min(levels)), log2(max(levels))
    return [float(2.0 ** (low + (high - low) * index / (CURVE_POINTS - 1))) for index in range(CURVE_POINTS)]


def scalability(
    levels: Sequence[float], throughputs: NDArray[np.float64], confidence: float = 0.95
) -> Scalability | None:
    """Fit blocks × levels of throughputs (> 0, per second); None where throughput rises faster than concurrency.

    Raises BugError for fewer levels than FEWEST_LEVELS, for levels that repeat, and for values without a logarithm.
    """
    n = np.asarray(levels, dtype=np.float64)
    if throughputs.ndim != 2 or throughputs.shape[1] != n.size or throughputs.shape[0] < 1:
        raise BugError(f"{throughputs.shape} throughputs for {n.size} levels")
    if n.size < FEWEST_LEVELS or len(set(levels)) != n.size or (n < 1).any():
        raise BugError(f"no law can be fitted to the levels {list(levels)}")
    if not np.isfinite(throughputs).all() or (throughputs <= 0).any():
        raise BugError("a throughput without a logarithm")
    logs = np.log(throughputs)
    blocks = logs.shape[0]
    whole = _fit(n, logs.mean(axis=0))
    if whole is None:
        return None
    fitted = [_fit(n, np.delete(logs, block, axis=0).mean(axis=0)) for block in range(blocks)] if blocks > 1 else []
    without = [one for one in fitted if one is not None]
    if len(without) < len(fitted):
        without = []
    deviations = logs.mean(axis=0) - np.log([whole.at(level) for level in n])
    return Scalability(
        curve=whole,
        serial=_jackknife(whole, without, lambda one: log(one.serial), confidence, exp),
        contention=_jackknife(whole, without, lambda one: one.contention, confidence, _not_negative),
        coherency=_jackknife(whole, without, lambda one: one.coherency, confidence, _not_negative),
        peak=_peak(whole, without, confidence),
        lack_of_fit_p=_lack_of_fit(logs, deviations),
        largest_deviation=float(np.abs(np.expm1(deviations)).max()),
        responses_s=tuple((at, _response(at, whole, without, confidence)) for at in curve_levels(levels)),
    )


def _fit(n: NDArray[np.float64], logs: NDArray[np.float64]) -> Curve | None:
    """Least squares of the relative errors of N / X; None if the best law has no throughput at one connection."""
    weights = np.exp(logs) / n
    design = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)]) * weights[:, None]
    scale = design.max(axis=0)
    found, _ = scipy.optimize.nnls(design / scale, np.ones_like(n))
    base, contention, coherency = (float(one) for one in found / scale)
    if base <= 0:
        return None
    curve = Curve(1 / base, contention / base, coherency / base)
    most = float(n.max())
    share = curve.coherency * most * (most - 1) / (1 + curve.contention * (most - 1))
    return curve if share >= SMALLEST_SHARE else Curve(curve.serial, curve.contention, 0.0)


def _jackknife(
    whole: Curve,
    without: Sequence[Curve],
    of: Callable[[Curve], float],
    confidence: float,
    back: Callable[[float], float],
) -> Bounds:
    """The estimate of all blocks with the t interval of the jackknife's pseudo-values, on the scale of `of`."""
    estimate, blocks = of(whole), len(without)
    if blocks < 2:
        return Bounds(back(estimate))
    pseudo = np.array([blocks * estimate - (blocks - 1) * of(one) for one in without])
    half = t_quantile(0.5 + confidence / 2, blocks - 1) * float(pseudo.std(ddof=1)) / sqrt(blocks)
    return Bounds(back(estimate), back(estimate - half), back(estimate + half))


def _response(connections: float, whole: Curve, without: Sequence[Curve], confidence: float) -> Bounds:
    return _jackknife(whole, without, lambda one: log(one.response_s(connections)), confidence, exp)


def _not_negative(value: float) -> float:
    return max(0.0, value)


def _peak(whole: Curve, without: Sequence[Curve], confidence: float) -> Bounds | None:
    if whole.peak is None:
        return None
    if any(one.peak is None for one in without):
        return Bounds(whole.peak)
    return _jackknife(whole, without, lambda one: log(one.peak or 1.0), confidence, exp)


def _lack_of_fit(logs: NDArray[np.float64], deviations: NDArray[np.float64]) -> float | None:
    """F: the levels' deviations from the curve against what levels scatter between blocks (free of block effects)."""
    blocks, levels = logs.shape
    if blocks < 2:
        return None
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    error = float((residuals**2).sum()) / ((blocks - 1) * (levels - 1))
    lack = blocks * float((deviations**2).sum()) / (levels - PARAMETERS)
    if error <= 0:
        return None
    f = lack / error
    return float(scipy.special.fdtrc(levels - PARAMETERS, (blocks - 1) * (levels - 1), f)) if isfinite(f) else 0.0
