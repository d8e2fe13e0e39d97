"""Do stated intervals cover as often as they claim? From comparisons whose truth is known: two copies of one server.

Each comparison is independent of the others (one for each study). `score` is the standard normal number that has the p
of its t: over calibrated comparisons their mean square is 1. Its root is the factor by which the intervals ought to be
wider, with the interval of a chi-square variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy

from mydyno.stats.paired import t_tail

ENOUGH = 60
"""Comparisons from which on anything is concluded: with fewer the interval of the rate says little."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `of`, with the exact 95 % interval (Clopper and Pearson, Biometrika 26 (1934))."""

    count: int
    of: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Factor:
    """By how much the differences exceed what the intervals state, with its 95 % interval: 1 is calibrated."""

    factor: float
    low: float
    high: float


def rate(count: int, of: int) -> Rate:
    """The rate of `count` in `of` > 0 independent cases."""
    low = float(scipy.special.betaincinv(count, of - count + 1, 0.025)) if count else 0.0
    high = float(scipy.special.betaincinv(count + 1, of - count, 0.975)) if count < of else 1.0
    return Rate(count, of, low, high)


def score(mean: float, error: float, freedom: int) -> float:
    """The standard normal number with the same p as this t; `error` > 0."""
    tail = max(t_tail(abs(mean) / error, freedom), 1e-300)
    return float(np.copysign(-scipy.special.ndtri(tail), mean))


def factor(scores: Sequence[float]) -> Factor:
    """The root mean square of at least one score."""
    squares, n = float(np.square(scores).sum()), len(scores)
    low, high = (squares / (2.0 * float(scipy.special.gammaincinv(n / 2.0, p))) for p in (0.975, 0.025))
    return Factor(sqrt(squares / n), sqrt(low), sqrt(high))
