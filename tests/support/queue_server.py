"""Slices of a queue whose capacity under an objective is known: Poisson arrivals, one or several equal servers' work.

The server works first come, first served; the work of an operation has a gamma distribution. With a CPU quota it works
until the period's budget is used up, and goes on in the next period, as the kernel's cgroups do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PERIOD_S = 0.1
"""Period of a CPU quota: the kernel's default."""


@dataclass(frozen=True)
class Queue:
    """A server: operations per second that it can serve, and the variation of their work.

    `quota`: the share of the time that it may work; it is then as much faster meanwhile, so that `served_per_s` holds.
    """

    served_per_s: float
    variation: float = 1.0
    quota: float | None = None

    def responses(self, random: np.random.Generator, rate: float, length_s: float) -> tuple[Array, Array]:
        """When each operation was due, from the start, and how long it took; both in s."""
        due = np.sort(random.random(random.poisson(rate * length_s))) * length_s
        shape = 1 / self.variation**2
        work = random.gamma(shape, 1 / (shape * self.served_per_s), due.size)
        if self.quota is not None:
            return due, self._throttled(due, work * self.quota, random.random() * PERIOD_S) - due
        done = np.cumsum(work)
        return due, done + np.maximum.accumulate(due - (done - work)) - due

    def _throttled(self, due: Array, work: Array, phase_s: float) -> Array:
        ended, now, period, left_s = np.empty(due.size), 0.0, -1, 0.0
        for index, (arrival, whole_s) in enumerate(zip(due.tolist(), work.tolist(), strict=True)):
            now, need_s = max(now, arrival), whole_s
            while True:
                current = floor((now + phase_s) / PERIOD_S + 1e-9)
                if current != period:
                    period, left_s = current, (self.quota or 0.0) * PERIOD_S
                end = (current + 1) * PERIOD_S - phase_s
                done_s = min(need_s, left_s, end - now)
                left_s, need_s = left_s - done_s, need_s - done_s
                if need_s <= 0:
                    now += done_s
                    break
                now = end
            ended[index] = now
        return ended

    def record(self, random: np.random.Generator, rate: float, washout_s: float, length_s: float) -> Mapping[str, Any]:
        """A slice at a rate, as dynoload records it."""
        due, took = self.responses(random, rate, washout_s + length_s)
        measured = due >= washout_s
        late = int((due[measured] + took[measured] > washout_s + length_s).sum())
        shares = {"p50_us": 50, "p95_us": 95, "p99_us": 99}
        values = np.percentile(took[measured], list(shares.values())) * 1e6 if measured.any() else [0.0] * len(shares)
        return {
            "length_s": length_s,
            "counts": {"errors": 0},
            "response": dict(zip(shares, map(float, values), strict=True)),
            "end": {"planned": int(measured.sum()), "ended_after_stop": late, "unfinished": 0, "not_started": 0},
        }

    def capacity(self, random: np.random.Generator, percent: float, limit_s: float, length_s: float = 300.0) -> float:
        """The rate at which the percentile of a long run is the limit, by bisection."""
        low, high = 0.2 * self.served_per_s, 1.2 * self.served_per_s
        for _ in range(10):
            rate = (low + high) / 2
            due, took = self.responses(random, rate, length_s)
            met = np.percentile(took[due > 0.2 * length_s], percent) <= limit_s
            low, high = (rate, high) if met else (low, rate)
        return (low + high) / 2
