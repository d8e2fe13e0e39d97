"""Capacity search: bias and coverage of the interval in simulated studies; with --quota, on servers with CPU quotas.

Simulated: three arms (the third carries 9 % more), every start with a level of its own, noise from slice to slice,
noise of a cycle that all arms share and that lasts for several cycles, and a drift over the study. `half` is the median
half-width, `covered` the share of the nominal 95 % intervals that hold the truth.

With --queues: searches on queues whose capacity is known from long runs, with slices of several lengths. `too high` is
how far the rate that half of the slices sustain is above the rate at which a long run meets the objective.

With --quota: a closed loop and a search, both on arms with 20 % and 40 % of a CPU. The closed loop shows how much more
the second carries when both are saturated, which is not exactly twice as much.
"""

# Needs requirements-dev.lock.

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mydyno.drivers.held import SliceOrder
from mydyno.execution.interleaved.capacity_search import judged
from mydyno.model.definition.specs import SearchSpec
from mydyno.stats.capacity import Known, Search, estimates

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.queue_server import Queue

CAPACITY, GAIN = 3000.0, 0.09
CASES = (
    # blocks, slices, sd of a slice, sd of a cycle, its correlation with the next, sd of a start, drift
    (6, 12, 0.05, 0.00, 0.0, 0.01, 0.0),
    (6, 12, 0.05, 0.05, 0.8, 0.01, 0.0),
    (6, 12, 0.10, 0.10, 0.8, 0.02, 0.0),
    (6, 16, 0.20, 0.20, 0.8, 0.02, 0.2),
    (10, 16, 0.10, 0.30, 0.9, 0.02, 0.3),
)
QUOTA = """
name = "quota"
question = "What does a server with 40 % of a CPU carry against one with 20 %?"
server.name = "mariadb-10.11"
server.variables = { innodb_buffer_pool_size = "64M" }
data = { tables = 1, rows = 2000 }
design = { blocks = BLOCKS, slice = "SLICE", cycles = CYCLES }
[arms]
control = "fifth"
fifth = { cgroup = { cpu_quota = 0.2 } }
two-fifths = { cgroup = { cpu_quota = 0.4 } }
[[steps]]
workload = "oltp_read_only"
connections = 16
warmup = "1s"
"""
SEARCH = 'search = { metric = "latency_p95_us", limit = "200ms" }\n'
QUEUES = (
    # server, percentile, limit, slices
    (Queue(1000), 99, 0.02, (2.0, 5.0, 10.0)),
    (Queue(3000), 95, 0.02, (2.0, 5.0)),
    (Queue(2000, variation=2.0), 99, 0.05, (2.0, 5.0, 10.0)),
    (Queue(500), 95, 0.2, (2.0, 10.0)),
    (Queue(430, variation=0.5, quota=0.2), 95, 0.2, (2.0, 10.0)),
    (Queue(860, variation=0.5, quota=0.4), 95, 0.2, (2.0, 10.0)),
)
WASHOUT_S = 0.5


def study(random: np.random.Generator, case: Sequence[float]) -> np.ndarray:
    """blocks × arms: the logs of the estimates, relative to CAPACITY."""
    blocks, slices, of_slice, of_cycle, kept, of_start, drift = case
    known: list[Known | None] = [None] * 3
    made: list[Search] = []
    for block in range(int(blocks)):
        level = log(CAPACITY) + drift * (block / (blocks - 1) - 0.5)
        starts = [level + random.normal(0, of_start) + gain for gain in (0.0, 0.0, log(1 + GAIN))]
        lanes = [Search(100.0, one) for one in known]
        cycle = random.normal(0, of_cycle)
        for _ in range(int(slices) + (0 if block else 6)):
            cycle = kept * cycle + random.normal(0, of_cycle * sqrt(1 - kept**2))
            for lane, start in zip(lanes, starts, strict=True):
                rate = lane.next_rate()
                lane.add(rate, log(rate) <= start + cycle + random.normal(0, of_slice))
        made += lanes
        found, sigma = estimates([lane.outcomes for lane in made], ["a", "b", "c"] * (block + 1))
        logs = np.log([one.capacity if one else np.nan for one in found]).reshape(-1, 3)
        known = [Known(exp(float(np.median(column))), sigma) for column in logs.T]
    return np.asarray(logs - log(CAPACITY))


def simulate(trials: int) -> None:
    """Print a line for each case."""
    print("blocks slices  slice cycle drift | capacity: bias  half  covered | ratio: bias  half  covered | A/A false")
    for number, case in enumerate(CASES):
        random = np.random.default_rng([1, number])
        tables = [study(random, case) for _ in range(trials)]
        arm, ratio, same = (
            interval([table[:, 0] for table in tables], 0.0),
            interval([table[:, 2] - table[:, 0] for table in tables], log(1 + GAIN)),
            interval([table[:, 1] - table[:, 0] for table in tables], 0.0),
        )
        print(f"{case[0]:6} {case[1]:6} {case[2]:6.0%} {case[3]:5.0%} {case[6]:5.0%} | "
              f"{arm[0]:+14.2%} {arm[1]:5.1%} {arm[2]:8.1%} | {ratio[0]:+11.2%} {ratio[1]:5.1%} {ratio[2]:8.1%} | "
              f"{1 - same[2]:9.1%}", flush=True)  # fmt: skip


def interval(samples: Sequence[np.ndarray], truth: float) -> tuple[float, float, float]:
    """(mean error, median half-width, share of 95 % t intervals that hold the truth)."""
    n = len(samples[0])
    half = [stats.t.ppf(0.975, n - 1) * one.std(ddof=1) / sqrt(n) for one in samples]
    error = [one.mean() - truth for one in samples]
    covered = [abs(e) <= h for e, h in zip(error, half, strict=True)]
    return float(np.mean(error)), float(np.median(half)), float(np.mean(covered))


def queues(trials: int) -> None:
    """Print a line for each queue and length of a slice."""
    print("served/s  variation  quota  objective        slice  long run     found  too high")
    for number, (queue, percent, limit_s, lengths) in enumerate(QUEUES):
        random = np.random.default_rng([2, number])
        truth = queue.capacity(random, percent, limit_s)
        spec = SearchSpec.model_validate({"metric": f"latency_p{percent}_us", "limit": limit_s})
        for length_s in lengths:
            found = float(np.mean([search(random, queue, spec, length_s) for _ in range(trials)]))
            quota = f"{queue.quota:.0%}" if queue.quota else "-"
            objective = f"p{percent} <= {1000 * limit_s:.0f} ms"
            head = f"{queue.served_per_s:8.0f} {queue.variation:10.1f} {quota:>6}  {objective:15} {length_s:6.0f}s"
            print(f"{head} {truth:9.0f} {found:9.0f} {found / truth - 1:+9.1%}", flush=True)


def search(random: np.random.Generator, queue: Queue, spec: SearchSpec, length_s: float) -> float:
    """The capacity that a study of four blocks with twelve slices finds."""
    known: Known | None = None
    made: list[Search] = []
    for block in range(4):
        one = Search(100.0, known)
        for _ in range(12 + (0 if block else 8)):
            rate = one.next_rate()
            one.add(
                rate,
                judged(
                    spec, SliceOrder("s", 1, WASHOUT_S, length_s, rate), queue.record(random, rate, WASHOUT_S, length_s)
                ).met,
            )
        made.append(one)
        found, sigma = estimates([lane.outcomes for lane in made], ["a"] * len(made))
        logs = [log(estimate.capacity) for estimate in found if estimate is not None]
        known = Known(exp(float(np.median(logs))), sigma)
    return exp(float(np.mean(logs)))


def quota(blocks: int) -> None:
    """Run the studies with quotas and print what they found."""
    closed = measured(QUOTA.replace("SLICE", "3s").replace("CYCLES", "6"), blocks)
    (effect,) = (one for one in closed["effects"] if one["metric"] == "qps")
    shown("closed loop, throughput", effect)
    found = measured(QUOTA.replace("SLICE", "10s").replace("CYCLES", "8") + SEARCH, blocks)
    for one in found["capacities"]:
        print(f"{one['arm']:10} {one['capacity']:8.0f}/s ({one['ci_low']:.0f} to {one['ci_high']:.0f})")
    (effect,) = (one for one in found["effects"] if one["metric"] == "capacity_tps")
    shown("search, capacity", effect)


def measured(text: str, blocks: int) -> Any:
    """The summary of a study."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quota.toml"
        path.write_text(text.replace("BLOCKS", str(blocks)))
        command = [sys.executable, "-m", "mydyno.cli", "run", str(path), "--studies", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (summary,) = Path(folder).glob("quota-*/summary.json")
        return json.loads(summary.read_text())


def shown(what: str, effect: Mapping[str, Any]) -> None:
    """Print the ratio of the larger server to the smaller one."""
    print(f"{what}: ratio {effect['ratio']:.3f} ({effect['ci_low']:.3f} to {effect['ci_high']:.3f})")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60, help="simulated studies of each case (60)")
    parser.add_argument("--queues", action="store_true", help="simulate queues whose capacity is known")
    parser.add_argument("--quota", action="store_true", help="measure real servers; needs root")
    parser.add_argument("--blocks", type=int, default=6, help="blocks of the real study (6)")
    arguments = parser.parse_args()
    if arguments.quota:
        quota(arguments.blocks)
    elif arguments.queues:
        queues(max(1, arguments.trials // 15))
    else:
        simulate(arguments.trials)


if __name__ == "__main__":
    main()
