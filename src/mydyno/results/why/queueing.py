"""Little's law and the utilisation law at each step of each arm, and its busiest resource.

For an open loop (a set rate), the queue; for a closed loop, whether throughput and response time account for the
connections. In the interleaved design from the slices, in the design "blocks" from the steps of the runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.stored.records import RunRecord, SliceRecord, StepRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.values.closed_loop import is_closed, slots, thinks
from mydyno.stats.queueing import ClosedLoop, Interval, Queue

SATURATED = 0.90
"""Utilisation from which a resource is called saturated; as of results/limits.py."""
WORKER = "busiest thread of the load program"
DISK = "disk of the data (I/O in flight)"
SERVER_CPU = "server's CPU"
LOAD_CPU = "load program's CPU"
HOST_CPUS = "CPUs of the host"
LINK = "network link"
CONNECTIONS = "connections"
NEVER_SATURATED = (DISK,)
"""A disk that serves requests in parallel has room even if some I/O is always in flight."""


@dataclass(frozen=True)
class ArmQueue:
    """One arm at one step, both copies of the control together."""

    arm: str
    step: str
    queue: Queue | ClosedLoop
    utilisations: Mapping[str, float]
    """Resource, in English, → share that is busy, by the utilisation law: busy time / (time × number)."""

    @property
    def saturated(self) -> tuple[str, ...]:
        """The resources that are, the busiest first."""
        full = [
            (share, name)
            for name, share in self.utilisations.items()
            if share >= SATURATED and name not in NEVER_SATURATED
        ]
        return tuple(name for _, name in sorted(full, reverse=True))

    @property
    def others(self) -> float | None:
        """Share of the host's CPUs that neither server nor load program used; None where that is not known."""
        try:
            whole, server, load = (self.utilisations[name] for name in (HOST_CPUS, SERVER_CPU, LOAD_CPU))
        except KeyError:
            return None
        return max(0.0, whole - server - load)


@dataclass(frozen=True)
class DiskReadings:
    """How busy the disk of the data was: share of the time up to each reading, from the one before."""

    ends_unix_ns: Sequence[int]
    busy: Sequence[float]

    def mean(self, begin_unix_ns: float, end_unix_ns: float) -> float | None:
        """Weighted by the time that readings and this interval have in common; None where they have none."""
        common_ns = total = 0.0
        for at in range(max(1, bisect_left(self.ends_unix_ns, begin_unix_ns)), len(self.ends_unix_ns)):
            since, until = self.ends_unix_ns[at - 1], self.ends_unix_ns[at]
            if since >= end_unix_ns:
                break
            overlap = min(until, end_unix_ns) - max(since, begin_unix_ns)
            if overlap > 0:
                common_ns += overlap
                total += overlap * self.busy[at]
        return total / common_ns if common_ns else None


def queues_of(slices: Iterable[SliceRecord], steps: Sequence[Step], instances: int, cpus: float) -> list[ArmQueue]:
    """The queues of every arm and step with a rate whose service times are known.

    `instances`: servers of a run, each with the step's connections and rate. `cpus`: usable CPUs of the host.
    """
    of_arm: dict[tuple[str, str], list[SliceRecord]] = defaultdict(list)
    for one in slices:
        if not one.failed and one.transactions and one.service_us is not None and "mean" in one.latency_us:
            of_arm[one.arm, one.step].append(one)
    return [
        _queue(arm, step, found, instances, cpus)
        for step in steps
        if step.rate is not None and step.search is None
        for (arm, of_step), found in of_arm.items()
        if of_step == step.id
    ]


def queues_of_runs(
    runs: Iterable[tuple[RunRecord, RunSummary]],
    experiment: Experiment,
    cpus: float,
    links: Mapping[tuple[str, str], float] | None = None,
) -> list[ArmQueue]:
    """The same of a study of blocks, from the steps of its valid runs."""
    steps = {one.id: one for one in experiment.resolved_steps if one.rate is not None and one.search is None}
    found = []
    for (arm, name), own in _steps_by_arm(runs, steps).items():
        timed = [(one.driver, values) for one, values in own if one.driver.service_us is not None]
        if not timed:
            continue
        transactions = sum(one.transactions for one, _ in timed)
        instances = experiment.instances_of(experiment.arm(arm))
        queue = Queue(
            connections=steps[name].connections * instances,
            rate_per_s=(steps[name].rate or 0.0) * instances,
            transactions=transactions,
            length_s=sum(one.duration_s for one, _ in timed),
            response_s=1e-6 * sum(one.latency_us["mean"] * one.transactions for one, _ in timed) / transactions,
            service_s=1e-6 * sum((one.service_us or 0.0) * one.transactions for one, _ in timed) / transactions,
        )
        shares = {CONNECTIONS: queue.utilisation, **_shares_of_values([values for _, values in timed], cpus)}
        if links and (arm, name) in links:
            shares[LINK] = links[arm, name]
        found.append(ArmQueue(arm, name, queue, shares))
    return in_order(found, experiment)


def in_order(found: Sequence[ArmQueue], experiment: Experiment) -> list[ArmQueue]:
    """By step, and arms as the experiment has them: what was found is in the order of the first block."""
    steps = [step.id for step in experiment.resolved_steps]
    arms = [arm.name for arm in experiment.arms]
    return sorted(found, key=lambda one: (steps.index(one.step), arms.index(one.arm)))


def closed_loops_of(
    slices: Iterable[SliceRecord],
    experiment: Experiment,
    cpus: float,
    disks: Mapping[int, DiskReadings] | None = None,
    links: Mapping[tuple[str, str], float] | None = None,
) -> list[ArmQueue]:
    """Every arm and closed loop of an interleaved study; `disks` by block, `links` are shares by arm and step."""
    of_arm: dict[tuple[str, str], list[SliceRecord]] = defaultdict(list)
    for one in slices:
        if not one.failed and one.length_s > 0:
            of_arm[one.arm, one.step].append(one)
    found = []
    for step in experiment.resolved_steps:
        for (arm, of_step), own in of_arm.items() if is_closed(step) else ():
            timed = all("mean" in one.latency_us for one in own if one.transactions)
            if of_step == step.id and timed and any(one.transactions for one in own):
                loop = ClosedLoop(slots(experiment, arm, step), [_of_slice(one) for one in own], thinks(step))
                shares = _utilisations(own, cpus)
                busy = [disks[one.block].mean(*_span(one)) for one in own if one.block in disks] if disks else []
                known = [one for one in busy if one is not None]
                if known:
                    shares[DISK] = sum(known) / len(known)
                if links and (arm, step.id) in links:
                    shares[LINK] = links[arm, step.id]
                found.append(ArmQueue(arm, step.id, loop, shares))
    return in_order(found, experiment)


def closed_loops_of_runs(
    runs: Iterable[tuple[RunRecord, RunSummary]],
    experiment: Experiment,
    cpus: float,
    links: Mapping[tuple[str, str], float] | None = None,
) -> list[ArmQueue]:
    """Every arm and closed loop of a study of blocks, from its valid runs."""
    steps = {step.id: step for step in experiment.resolved_steps if is_closed(step)}
    found = []
    for (arm, name), own in _steps_by_arm(runs, steps).items():
        intervals = [_interval(o.driver.transactions, o.driver.duration_s, o.driver.latency_us) for o, _ in own]
        loop = ClosedLoop(slots(experiment, arm, steps[name]), intervals, thinks(steps[name]))
        shares = _shares_of_values([values for _, values in own], cpus)
        if links and (arm, name) in links:
            shares[LINK] = links[arm, name]
        found.append(ArmQueue(arm, name, loop, shares))
    return in_order(found, experiment)


Measured = tuple[StepRecord, Mapping[str, float]]
"""A step of a run, and its values."""


def _steps_by_arm(
    runs: Iterable[tuple[RunRecord, RunSummary]], steps: Mapping[str, Step]
) -> dict[tuple[str, str], list[Measured]]:
    """{(arm, step): of its valid runs}, of these steps, where there is a mean response time."""
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for run, summary in runs:
        for one in run.steps:
            if (
                summary.usable(one.id)
                and one.id in steps
                and one.driver.transactions
                and "mean" in one.driver.latency_us
            ):
                found[run.arm, one.id].append((one, summary.values.get(one.id, {})))
    return found


def _of_slice(one: SliceRecord) -> Interval:
    return _interval(one.transactions, one.length_s, one.latency_us)


def _interval(transactions: int, length_s: float, latency_us: Mapping[str, float]) -> Interval:
    mean_us = latency_us.get("mean", 0.0)
    return Interval(transactions, length_s, 1e-6 * mean_us, 1e-6 * latency_us.get("p99", mean_us))


def _span(one: SliceRecord) -> tuple[float, float]:
    return one.started_unix_ns, one.started_unix_ns + 1e9 * one.length_s


def _shares_of_values(values: Sequence[Mapping[str, float]], cpus: float) -> dict[str, float]:
    """From the metrics of the runs of an arm at a step; percentages of one CPU for processes, of all for the host."""
    of: dict[str, tuple[tuple[str, ...], float]] = {
        SERVER_CPU: (("server_cpu_user_pct", "server_cpu_system_pct"), 100.0 * cpus),
        LOAD_CPU: (("driver_cpu_user_pct", "driver_cpu_system_pct"), 100.0 * cpus),
        HOST_CPUS: (("cpu_user_pct", "cpu_system_pct"), 100.0),
        DISK: (("disk_util_pct",), 100.0),
    }
    return {
        name: sum(one[metric] for one in values for metric in metrics) / len(values) / whole
        for name, (metrics, whole) in of.items()
        if all(metric in one for one in values for metric in metrics)
    }


def _queue(arm: str, step: Step, slices: Sequence[SliceRecord], instances: int, cpus: float) -> ArmQueue:
    transactions = sum(one.transactions for one in slices)
    length_s = sum(one.length_s for one in slices)
    assert step.rate is not None
    queue = Queue(
        connections=step.connections * instances,
        rate_per_s=step.rate * instances,
        transactions=transactions,
        length_s=length_s,
        response_s=1e-6 * sum(one.latency_us["mean"] * one.transactions for one in slices) / transactions,
        service_s=1e-6 * sum((one.service_us or 0.0) * one.transactions for one in slices) / transactions,
    )
    found = {CONNECTIONS: queue.utilisation, **_utilisations(slices, cpus)}
    return ArmQueue(arm, step.id, queue, found)


def _utilisations(slices: Sequence[SliceRecord], cpus: float) -> dict[str, float]:
    """Utilisation of each resource, by the utilisation law; of the host's CPUs, of what the hypervisor left."""
    found: dict[str, float] = {}
    length_s = sum(one.length_s for one in slices)
    if all(one.server_cpu_s is not None for one in slices):
        found[SERVER_CPU] = sum(one.server_cpu_s or 0.0 for one in slices) / length_s / cpus
    if all(one.driver_cpu_s is not None for one in slices):
        found[LOAD_CPU] = sum(one.driver_cpu_s or 0.0 for one in slices) / length_s / cpus
    if all({"cpu_user_pct", "cpu_system_pct"} <= one.rates.keys() for one in slices):
        busy = sum(one.length_s * (one.rates["cpu_user_pct"] + one.rates["cpu_system_pct"]) / 100.0 for one in slices)
        left_s = sum(one.length_s * (1.0 - min(0.99, one.steal or 0.0)) for one in slices)
        found[HOST_CPUS] = min(1.0, busy / left_s)
    if all("busiest_worker_pct" in one.rates for one in slices):
        found[WORKER] = sum(one.length_s * one.rates["busiest_worker_pct"] for one in slices) / length_s / 100.0
    return found
