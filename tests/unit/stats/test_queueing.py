"""Operational laws on a simulated M/M/c queue: they hold there, and counts that are wrong are found."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest

from mydyno.stats.queueing import ClosedLoop, Interval, Queue

CONNECTIONS = 8
SERVICE_S = 0.010


def simulated(load: float, seed: int, length_s: float = 120.0) -> tuple[Queue, float, float]:
    """An M/M/c queue in its steady state: what the driver counts, and the mean numbers in system and in service as an
    observer integrates them over time.
    """
    random = np.random.default_rng(seed)
    rate = load * CONNECTIONS / SERVICE_S
    begin = 10.0
    arrivals = np.cumsum(random.exponential(1 / rate, int(1.2 * rate * (begin + length_s))))
    service = random.exponential(SERVICE_S, len(arrivals))
    free = [0.0] * CONNECTIONS
    starts = np.empty(len(arrivals))
    for at, due in enumerate(arrivals):
        starts[at] = max(due, heapq.heappop(free))
        heapq.heappush(free, starts[at] + service[at])
    ends = starts + service
    end = begin + length_s
    counted = (ends >= begin) & (ends < end)

    def mean_number(since: np.ndarray, until: np.ndarray) -> float:
        return float(np.maximum(0.0, np.minimum(until, end) - np.maximum(since, begin)).sum() / length_s)

    queue = Queue(
        connections=CONNECTIONS,
        rate_per_s=rate,
        transactions=int(counted.sum()),
        length_s=length_s,
        response_s=float((ends - arrivals)[counted].mean()),
        service_s=float(service[counted].mean()),
    )
    return queue, mean_number(arrivals, ends), mean_number(starts, ends)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_the_laws_give_what_an_observer_of_the_queue_counts(load: float) -> None:
    queue, in_system, in_service = simulated(load, 1)
    assert queue.in_system == pytest.approx(in_system, rel=0.02)
    assert queue.in_service == pytest.approx(in_service, rel=0.02)
    assert queue.utilisation == pytest.approx(load, rel=0.05)
    assert queue.waiting >= 0.0
    assert queue.disagreement() == ""


def test_an_overloaded_queue_agrees_too(load: float = 1.3) -> None:
    queue, _, _ = simulated(load, 2, length_s=20.0)
    assert queue.utilisation == pytest.approx(1.0, abs=0.03)
    assert queue.disagreement() == ""


def test_broken_counts_are_found() -> None:
    queue, _, _ = simulated(0.7, 3)
    twice = replace(queue, transactions=2 * queue.transactions)
    assert twice.disagreement() == "busy"
    more = replace(queue, transactions=round(1.1 * queue.transactions))
    assert more.disagreement() == "ended"
    shorter = replace(queue, response_s=0.9 * queue.service_s)
    assert shorter.disagreement() == "service"


def closed(think_s: float, seed: int, slices: int = 10, length_s: float = 2.0, thinks: bool = False) -> ClosedLoop:
    """A closed loop on 8 connections with exponential times: what is counted in each slice."""
    random = np.random.default_rng(seed)
    response = random.exponential(SERVICE_S, (CONNECTIONS, int(2 * slices * length_s / SERVICE_S)))
    ends = np.cumsum(response + think_s, axis=1) - think_s
    intervals = []
    for number in range(slices):
        ended = (ends >= number * length_s) & (ends < (number + 1) * length_s)
        times = response[ended]
        p99 = float(np.quantile(times, 0.99))
        intervals.append(Interval(int(ended.sum()), length_s, float(times.mean()), p99))
    return ClosedLoop(CONNECTIONS, intervals, thinks)


def test_a_closed_loop_accounts_for_its_connections() -> None:
    loops = [closed(0.0, seed) for seed in range(40)]
    assert [loop.disagreement() for loop in loops] == [""] * len(loops)
    assert all(loop.resolution < 0.1 * CONNECTIONS for loop in loops)
    assert loops[0].in_system == pytest.approx(CONNECTIONS, rel=0.02)
    assert closed(0.005, 1, thinks=True).disagreement() == ""


def test_a_stall_at_the_end_of_a_slice_is_within_the_resolution() -> None:
    plain = closed(0.0, 1)
    stalled = Interval(100, 2.0, SERVICE_S, 5 * SERVICE_S)
    assert replace(plain, intervals=(stalled, *plain.intervals[1:])).disagreement() == ""


def test_a_closed_loop_whose_counts_are_wrong_is_found() -> None:
    plain = closed(0.0, 3)
    half = [replace(one, transactions=one.transactions // 2) for one in plain.intervals]
    assert replace(plain, intervals=half).disagreement() == "few"
    assert replace(plain, intervals=half, thinks=True).disagreement() == ""
    slow = [replace(one, response_s=1.5 * one.response_s) for one in plain.intervals]
    assert replace(plain, intervals=slow, thinks=True).disagreement() == "many"
    assert closed(0.005, 1).disagreement() == "few"
