"""Fake benchmark sessions: randomised blocks of runs on a host that drifts, with noise of several shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Random = np.random.Generator
Drift = Callable[[Random, int, int], NDArray[np.float64]]
"""(random, sessions, runs per session) to what the host adds to the log of each run, in the order of time."""
RUN_SD = 0.02


def none(random: Random, sessions: int, runs: int) -> NDArray[np.float64]:
    return np.zeros((sessions, runs))


def linear(random: Random, sessions: int, runs: int) -> NDArray[np.float64]:
    return np.tile(np.linspace(0.0, 0.04, runs, dtype=np.float64), (sessions, 1))


def random_walk(random: Random, sessions: int, runs: int) -> NDArray[np.float64]:
    return np.cumsum(random.normal(0.0, 0.006, (sessions, runs)), axis=1)


def one_step(random: Random, sessions: int, runs: int) -> NDArray[np.float64]:
    return np.asarray(0.03 * (np.arange(runs) >= random.integers(1, runs, (sessions, 1))), dtype=np.float64)


def autocorrelated(random: Random, sessions: int, runs: int) -> NDArray[np.float64]:
    values = np.zeros((sessions, runs))
    for run in range(1, runs):
        values[:, run] = 0.7 * values[:, run - 1] + random.normal(0.0, 0.014, sessions)
    return values


DRIFTS: dict[str, Drift] = {
    "no drift": none,
    "linear drift": linear,
    "random walk": random_walk,
    "one step": one_step,
    "AR(1)": autocorrelated,
}


def normal(random: Random, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return random.normal(0.0, RUN_SD, shape)


def skewed(random: Random, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Runs that are sometimes much slower and never much faster: an exponential tail downwards."""
    return RUN_SD * (1.0 - random.exponential(1.0, shape))


def sessions(
    random: Random,
    count: int,
    blocks: int,
    runs_per_block: int,
    *,
    drift: Drift = none,
    noise: Callable[[Random, tuple[int, ...]], NDArray[np.float64]] = normal,
) -> NDArray[np.float64]:
    """Log values of shape (count, blocks, arms), every arm alike, run in an order that is random in each block."""
    runs = blocks * runs_per_block
    in_time = (drift(random, count, runs) + noise(random, (count, runs))).reshape(count, blocks, runs_per_block)
    order = random.permuted(np.broadcast_to(np.arange(runs_per_block), in_time.shape), axis=2)
    return np.take_along_axis(in_time, order, axis=2)
