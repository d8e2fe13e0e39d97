"""Little's law and the utilisation law at each step of each arm, and its busiest resource.

For an open loop (a set rate), the queue; for a closed loop, whether throughput and response time account for the
connections. Nothing is stored: both are counted anew from slices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.special_steps import is_closed, slots, thinks
from mydyno.model.stored.records import SliceRecord
from mydyno.stats.queueing import ClosedLoop, Interval, Queue
from mydyno.store.samples import read_metric
from mydyno.wording.numbers import latency_text, percent, significant

SATURATED = 0.90
"""Utilisation from which a resource is called saturated; as of analysis/limits.py."""
WORKER = "busiest thread of the load program"
DISK = "disk of the data (I/O in flight)"
SERVER_CPU = "server's CPU"
LOAD_CPU = "load program's CPU"
LOAD_APART = "load program's CPU, on its own host"
HOST_CPUS = "CPUs of the host"
LINK = "network link"
CONNECTIONS = "connections"
NEVER_SATURATED = (DISK,)
"""A disk that serves requests in parallel has room even if some I/O is always in flight."""

Busy = tuple[float, float]
"""(seconds that a resource was busy, seconds that it could have been)"""


@dataclass(frozen=True)
class ArmQueue:
    """One arm at one step, both copies of the control together."""

    arm: str
    step: str
    queue: Queue | ClosedLoop
    utilisations: Mapping[str, float]
    """Resource → share that is busy, by the utilisation law: busy time / (time × number)."""

    @property
    def saturated(self) -> tuple[str, ...]:
        """The resources that are, the busiest first."""
        full = [(share, name) for name, share in self.utilisations.items() if share >= SATURATED]
        return tuple(name for _, name in sorted(full, reverse=True) if name not in NEVER_SATURATED)

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


def _busy(one: SliceRecord, cpus: Mapping[str, float], disks: Mapping[int, DiskReadings]) -> dict[str, Busy]:
    """How busy each resource was in a slice, as far as that is known."""
    length_s, rates = one.length_s, one.rates
    busy: dict[str, Busy] = {}
    for name, usable in cpus.items():
        cpu_s = one.server_cpu_s if name == SERVER_CPU else one.driver_cpu_s
        if cpu_s is not None:
            busy[name] = (cpu_s, length_s * usable)
    if {"cpu_user_pct", "cpu_system_pct"} <= rates.keys():
        left_s = length_s * (1.0 - min(0.99, one.steal or 0.0))
        busy[HOST_CPUS] = (length_s * (rates["cpu_user_pct"] + rates["cpu_system_pct"]) / 100, left_s)
    if "busiest_worker_pct" in rates:
        busy[WORKER] = (length_s * rates["busiest_worker_pct"] / 100, length_s)
    begin = one.started_unix_ns
    disk = disks[one.block].mean(begin, begin + 1e9 * length_s) if one.block in disks else None
    if "disk_util_pct" in rates:
        disk = rates["disk_util_pct"] / 100
    if disk is not None:
        busy[DISK] = (length_s * disk, length_s)
    return busy


def analyse(
    experiment: Experiment,
    slices: Sequence[SliceRecord],
    cpus: Callable[[SliceRecord], Mapping[str, float]],
    disks: Mapping[int, DiskReadings] | None = None,
    links: Mapping[tuple[str, str], float] | None = None,
) -> list[ArmQueue]:
    """Every arm at every step with a rate or with a closed loop, as far as times were measured.

    By step, and arms as the experiment has them. `cpus`: {SERVER_CPU, LOAD_CPU or LOAD_APART: usable CPUs of its host}
    of a slice; `disks` by block; `links`: share of the link that was used, by arm and step.
    """
    found = []
    served = [one for one in slices if not one.failed and one.length_s > 0]
    for step in experiment.resolved_steps:
        counted = _loop if is_closed(step) else _queue if step.rate is not None and step.search is None else None
        for arm in [arm.name for arm in experiment.arms] if counted else []:
            own = [one for one in served if (one.arm, one.step) == (arm, step.id)]
            if counted is None or (queue := counted(experiment, arm, step, own)) is None:
                continue
            shares = {CONNECTIONS: queue.utilisation} if isinstance(queue, Queue) else {}
            times = [_busy(one, cpus(one), disks or {}) for one in own]
            for name in (SERVER_CPU, LOAD_CPU, LOAD_APART, HOST_CPUS, WORKER, DISK):
                busy = [one[name] for one in times if name in one]
                if busy:
                    share = sum(of for of, _ in busy) / sum(of for _, of in busy)
                    shares[name] = min(1.0, share) if name == HOST_CPUS else share
            if links and (arm, step.id) in links:
                shares[LINK] = links[arm, step.id]
            found.append(ArmQueue(arm, step.id, queue, shares))
    return found


def _queue(experiment: Experiment, arm: str, step: Step, slices: Sequence[SliceRecord]) -> Queue | None:
    """The queue at a set rate; None without service times."""
    timed = [
        (one.transactions, one.length_s, 1e-6 * one.latency_us["mean"], 1e-6 * one.service_us)
        for one in slices
        if one.transactions and "mean" in one.latency_us and one.service_us is not None
    ]
    if not timed:
        return None
    transactions = sum(count for count, *_ in timed)
    instances = experiment.instances_of(experiment.arm(arm))
    return Queue(
        connections=step.connections * instances,
        rate_per_s=(step.rate or 0.0) * instances,
        transactions=transactions,
        length_s=sum(length_s for _, length_s, _, _ in timed),
        response_s=sum(count * response_s for count, _, response_s, _ in timed) / transactions,
        service_s=sum(count * service_s for count, *_, service_s in timed) / transactions,
    )


def _loop(experiment: Experiment, arm: str, step: Step, slices: Sequence[SliceRecord]) -> ClosedLoop | None:
    """The closed loop; None where nothing was served, or response times are unknown."""
    served = [one for one in slices if one.transactions]
    if not served or any("mean" not in one.latency_us for one in served):
        return None
    usual_us = sum(one.latency_us["mean"] for one in served) / len(served)
    intervals = [
        Interval(one.done_transactions, one.length_s, 1e-6 * mean_us, 1e-6 * one.latency_us.get("p99", mean_us))
        for one in slices
        for mean_us in [one.latency_us.get("mean", usual_us)]
    ]
    return ClosedLoop(slots(experiment, arm, step), intervals, thinks(step))


def sentences(found: Sequence[ArmQueue]) -> list[str]:
    """Sentences for one step: first arms whose counts disagree, then one for arms with the same saturated resources."""
    said = [
        f"{one.arm}, {one.step}: SUSPECT. The counts do not agree, so do not use them: {_wrong(one.queue)}."
        for one in found
        if one.queue.disagreement()
    ]
    groups: dict[tuple[str, ...], list[ArmQueue]] = {}
    for one in found:
        if not one.queue.disagreement() and one.utilisations:
            groups.setdefault(one.saturated, []).append(one)
    for saturated, of in groups.items():
        where = f"{', '.join(one.arm for one in of)}, {of[0].step}"
        if saturated:
            resources = ", ".join(_used_by(of) if name == HOST_CPUS else name for name in saturated)
            said.append(f"{where}: saturated: {resources}.")
        else:
            share, name = max((share, name) for one in of for name, share in one.utilisations.items())
            said.append(f"{where}: no resource is saturated; the busiest is {name} at {percent(share)}.")
    return said


def _used_by(found: Sequence[ArmQueue]) -> str:
    """The host's CPUs with what used them."""
    others = [one.others for one in found if one.others is not None]
    if len(others) < len(found):
        return HOST_CPUS
    server, load = (
        percent(sum(one.utilisations[name] for one in found) / len(found)) for name in (SERVER_CPU, LOAD_CPU)
    )
    return f"{HOST_CPUS} (server {server}, load program {load}, others {percent(sum(others) / len(others))})"


def _wrong(queue: Queue | ClosedLoop) -> str:
    """Why the counts cannot all be right, as a clause."""
    if isinstance(queue, ClosedLoop):
        one = queue.middle
        facts = (
            f"{one.transactions / one.length_s:.4g} transactions/s × {1000.0 * one.response_s:.4g} ms = "
            f"{one.in_system:.3g} under way, but"
        )
        connections, resolution = queue.connections, f"(resolution ±{queue.resolution:.2g})"
        if queue.disagreement() == "many":
            return agreed(f"{facts} there are {connections} connections {resolution}")
        return agreed(
            f"{facts} {connections} connections always have one {resolution}; response times lack the transactions "
            "that had not ended when their interval did, or transactions were not counted"
        )
    if queue.disagreement() == "service":
        return "the mean response time is shorter than the mean service time, which is a part of it"
    if queue.disagreement() == "busy":
        return (
            f"throughput × service time is {queue.in_service:.3g} busy connections, but there are {queue.connections}"
        )
    return f"{queue.transactions:,} transactions ended, but only about {queue.due:,.0f} were due"


QUEUE_ROWS: tuple[tuple[str, Callable[[Queue], str]], ...] = (
    ("arrival rate by the plan, per second", lambda one: significant(one.rate_per_s, 3)),
    ("mean response time", lambda one: latency_text(1e6 * one.response_s)),
    ("mean service time", lambda one: latency_text(1e6 * one.service_s)),
    ("transactions in the system", lambda one: significant(one.in_system, 3)),
    ("of these waiting for a connection", lambda one: significant(max(0.0, one.waiting), 2)),
    ("busy connections", lambda one: f"{significant(one.in_service, 3)} of {one.connections}"),
)
LOOP_ROWS: tuple[tuple[str, Callable[[ClosedLoop], str]], ...] = (
    (
        "transactions under way: throughput × response time",
        lambda one: f"{significant(one.in_system, 3)} of {one.connections} (±{significant(one.resolution, 2)})",
    ),
)


def table(step: str, found: Sequence[ArmQueue]) -> Table:
    """The figures of one step, a column for each arm."""
    queues = [one.queue for one in found if isinstance(one.queue, Queue)]
    loops = [one.queue for one in found if isinstance(one.queue, ClosedLoop)]
    rows = [(name, [text(one) for one in queues]) for name, text in QUEUE_ROWS if queues]
    rows += [(name, [text(one) for one in loops]) for name, text in LOOP_ROWS if loops]
    for name in dict.fromkeys(name for one in found for name in one.utilisations):
        shares = [one.utilisations.get(name) for one in found]
        rows.append((f"utilisation: {name}", ["–" if share is None else percent(share) for share in shares]))
    return Table(
        f"{step}, means of the measured slices",
        ("", *(one.arm for one in found)),
        [[name, *(Cell(text, "num") for text in texts)] for name, texts in rows],
    )


LITTLE = (
    "Numbers by Little's law: mean number = throughput × mean time. What is counted independently of the times has to "
    "agree with them: no more connections can be busy than there are, and no more transactions can end than were due; "
    "in a closed loop every connection always has a transaction."
)


def part(result: StudyResult) -> Part | None:
    """The section; None where no step has been counted."""
    experiment = result.study.experiment
    if experiment.compares_statements:
        return None
    slices = [one for step in result.steps for one in result.used_slices(step.id)]
    links = {(one.arm, one.step): one.shares["link"] for one in result.summary.limits if "link" in one.shares}
    found = analyse(experiment, slices, partial(_cpus, result), _disks(result), links)
    if not found:
        return None
    of_step = {step: [one for one in found if one.step == step] for step in dict.fromkeys(one.step for one in found)}
    said = [text for own in of_step.values() for text in sentences(own)]
    return Part(
        id="queueing", heading="The queue" if any(isinstance(one.queue, Queue) for one in found) else "Utilisation",
        says="whether the counts agree by Little's law, and how busy each resource is", folded=True,
        body=[*said, *(table(step, own) for step, own in of_step.items()), Note(LITTLE)],
    )  # fmt: skip


def _cpus(result: StudyResult, one: SliceRecord) -> dict[str, float]:
    """Usable CPUs of the hosts of a slice's server and load; nothing of client hosts, which may be several."""
    study = result.study
    own = study.hosts.get(result.group_of.get(one.block, ""), study.host)
    hosts = {SERVER_CPU: study.server_host or own}
    if not any(group.clients for group in study.host_groups):
        hosts[LOAD_APART if study.server_host else LOAD_CPU] = own
    return {name: float(facts.get("cpus_usable", 1)) for name, facts in hosts.items()}


def _disks(result: StudyResult) -> dict[int, DiskReadings]:
    """{block: how busy the disk was}: each run's file has the samples of its whole block."""
    found: dict[int, DiskReadings] = {}
    for path, run in result.samples.items():
        if run.block not in found:
            readings = read_metric(path, "host", "disk_util_pct")
            found[run.block] = DiskReadings([at for at, _ in readings], [min(1.0, pct / 100) for _, pct in readings])
    return found


ANALYSIS = Analysis(chapter="why", part=part)
