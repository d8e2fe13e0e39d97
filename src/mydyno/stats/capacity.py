"""The highest rate that meets an objective, from slices at chosen rates that met it or did not; and which rate is next.

Model: in slice i the server carries exp(theta + e_i) operations per second within the objective, e_i ~ N(0, sigma²),
because a host's speed differs from slice to slice. A slice at rate r meets the objective if r is below that, so
P(met) = Phi((theta − ln r) / sigma): a probit regression on the log of the rate. Its location exp(theta) is the
capacity: the rate at which half of the slices meet the objective. A share LAPSE of slices is taken to end either way
whatever the rate, so that one disturbed slice far below the capacity does not move the estimate (Wichmann and Hill,
Perception & Psychophysics 63 (2001)).

Estimate: the posterior median of theta with a flat prior on a grid, given sigma as all starts of a study together show
it: with few slices the maximum of the likelihood does not exist (all met below, all missed above), the median does.

Next rate: the one whose predicted probability of meeting the objective is a target near one half, from the posterior.
That is probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson, SIAM J. Control Optim. 51 (2013)) with
the noise estimated instead of known, as adaptive methods of psychometrics do (Watson and Pelli's QUEST 1983; Kontsevich
and Tyler, Vision Research 39 (1999)). A plain bisection takes every outcome as certain: one disturbed slice excludes
the half with the answer for ever. Robbins and Monro's stochastic approximation needs a step size that fits the unknown
slope. Targets on both sides of one half cost 9 % of the information on theta and make sigma estimable.

What it is for: docs/guides/capacity.md. Pure functions of arrays; no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]

LAPSE = 0.02
"""Share of slices whose outcome has nothing to do with the rate, in each direction."""
LOWEST_RATE, HIGHEST_RATE = 0.5, 5e6
THETAS = np.arange(log(LOWEST_RATE), log(HIGHEST_RATE), 0.01)
SIGMAS = np.geomspace(0.01, 0.6, 12)
USUAL_SIGMA, SIGMA_SPREAD = 0.08, 0.9
"""The prior of sigma: log-normal around this, with this standard deviation of its log."""
KNOWN_SCALE, KNOWN_SIGMA_SPREAD = 0.15, 0.5
"""How far a block's capacity typically is from the earlier blocks' (half-width of a Cauchy prior), and its sigma."""
SIGMA_REACH = 1.5
"""How far around an arm's capacity its starts are looked for, in logs."""
BETWEEN_STARTS = 0.1
"""How far the capacities of an arm's starts usually are from one another, in logs; for the estimate of sigma alone."""
TARGETS = (0.5, 0.3, 0.7)
"""Predicted probabilities of meeting the objective, in turn."""
MOST_STEP_UP = 2.0
"""A rate is at most this many times the highest that met the objective: far above the capacity a slice costs a long
drain and shows little."""
NEGLIGIBLE = 1e-6
"""Share of the largest weight below which a cell is left out of predictions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One slice: operations per second that were offered, and whether the objective was met."""

    rate: float
    met: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier blocks found: it guides the choice of rates and is no part of an estimate."""

    capacity: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The capacity from the slices of one start of one server.

    `sd` is the posterior's, of the log: what the number of slices and their noise leave open within this start; it is
    not an interval over starts. `bracketed`: slices met the objective and slices missed it, so the capacity is between
    rates that were offered.
    """

    capacity: float
    sd: float
    slices: int
    bracketed: bool


class Search:
    """The search for one server's capacity while it runs. Rates in operations per second."""

    def __init__(self, start: float, known: Known | None = None) -> None:
        """`start`: the first rate, where nothing is known."""
        self._start = start
        self._known = known
        self.outcomes: list[Outcome] = []
        self._chosen = 0
        self._logs = np.tile(_log_prior_of_sigma(known), (THETAS.size, 1))
        if known is not None:
            self._logs -= np.log1p(((THETAS - log(known.capacity)) / KNOWN_SCALE) ** 2)[:, None]

    def add(self, rate: float, met: bool) -> None:
        """A slice has ended."""
        self.outcomes.append(Outcome(rate, met))
        self._logs += _log_likelihood(THETAS, SIGMAS, self.outcomes[-1:])

    def next_rate(self) -> float:
        """The rate of the next slice."""
        highest = max((one.rate for one in self.outcomes if one.met), default=None)
        if self._known is None:
            if not self.outcomes:
                return self._start
            if highest is not None and all(one.met for one in self.outcomes):
                return min(HIGHEST_RATE, MOST_STEP_UP * highest)
        target = TARGETS[self._chosen % len(TARGETS)]
        self._chosen += 1
        rate = exp(self._log_rate_met_with(target))
        if highest is not None:
            rate = min(rate, MOST_STEP_UP * highest)
        return min(max(rate, LOWEST_RATE), HIGHEST_RATE)

    def _log_rate_met_with(self, probability: float) -> float:
        """The log rate whose predicted probability of meeting the objective is this."""
        weight = np.exp(self._logs - self._logs.max())
        rows, columns = np.nonzero(weight > NEGLIGIBLE)
        weights, thetas, sigmas = weight[rows, columns], THETAS[rows], SIGMAS[columns]
        weights /= weights.sum()
        low, high = float(thetas.min()) - 1.0, float(thetas.max()) + 1.0
        for _ in range(14):
            middle = (low + high) / 2
            met = float(weights @ scipy.special.ndtr((thetas - middle) / sigmas))
            low, high = (middle, high) if met > probability else (low, middle)
        return (low + high) / 2


def estimates(starts: Sequence[Sequence[Outcome]], arms: Sequence[str]) -> tuple[list[Estimate | None], float]:
    """The capacity of each start from its slices alone (None without a slice), and sigma, common to all of them.

    `arms` names the arm of each start. Sigma is a property of host and slice length; few slices of one start cannot
    show it, all of them together can. For sigma alone the starts of an arm are taken to be near one another (a normal
    prior with BETWEEN_STARTS): with a flat prior a very large sigma explains few slices as well.
    """
    of_sigma = _log_prior_of_sigma(None)
    for arm in dict.fromkeys(arms):
        own = [outcomes for outcomes, name in zip(starts, arms, strict=True) if name == arm and outcomes]
        if not own:
            continue
        centre = log(_estimate([one for outcomes in own for one in outcomes], USUAL_SIGMA).capacity)
        theta = np.arange(centre - SIGMA_REACH, centre + SIGMA_REACH, 0.01)
        prior = -0.5 * np.square((theta - centre) / BETWEEN_STARTS)[:, None]
        for outcomes in own:
            of_sigma = of_sigma + scipy.special.logsumexp(prior + _log_likelihood(theta, SIGMAS, outcomes), axis=0)
    weight = np.exp(of_sigma - of_sigma.max())
    sigma = exp(float(weight @ np.log(SIGMAS)) / float(weight.sum()))
    return [_estimate(outcomes, sigma) if outcomes else None for outcomes in starts], sigma


def _estimate(outcomes: Sequence[Outcome], sigma: float) -> Estimate:
    rates = np.log([one.rate for one in outcomes])
    theta = np.arange(rates.min() - 6 * sigma - 0.2, rates.max() + 6 * sigma + 0.2, min(0.002, sigma / 10))
    logs = _log_likelihood(theta, np.array([sigma]), outcomes)[:, 0]
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    median = float(np.interp(0.5, np.cumsum(weight), theta))
    mean = float(weight @ theta)
    sd = float(np.sqrt(weight @ np.square(theta - mean)))
    bracketed = any(one.met for one in outcomes) and not all(one.met for one in outcomes)
    return Estimate(exp(median), sd, len(outcomes), bracketed)


def _log_prior_of_sigma(known: Known | None) -> Array:
    centre, spread = (USUAL_SIGMA, SIGMA_SPREAD) if known is None else (known.sigma, KNOWN_SIGMA_SPREAD)
    return np.asarray(-0.5 * np.square(np.log(SIGMAS / centre) / spread))


def _log_likelihood(theta: Array, sigma: Array, outcomes: Sequence[Outcome]) -> Array:
    """theta × sigma."""
    total = np.zeros((theta.size, sigma.size))
    for one in outcomes:
        z = (theta[:, None] - log(one.rate)) / sigma
        total += np.log(LAPSE + (1 - 2 * LAPSE) * scipy.special.ndtr(z if one.met else -z))
    return total
