"""What every driver is: a program that prepares data and runs a workload against a server, from its start to its end.

Its CPU time is that of all children that ended meanwhile, as the kernel counts it (getrusage(2), RUSAGE_CHILDREN): with
several drivers at the same time it is known for all together, not for each. Of several, one per instance, counts add
up. Percentiles cannot be averaged: they come from the histograms merged, and if a driver has none they are absent. The
driver's health is the worst of them.
"""

from __future__ import annotations

import asyncio
import resource
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from pathlib import Path

from mydyno import clock
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Scalar, Step
from mydyno.model.stored.records import COUNTS, ClientLoad, DriverResult
from mydyno.packages.debian import DebianPackages, UnpackedPackages
from mydyno.servers.running.base import LOAD_SCHEMA
from mydyno.servers.sql import Address
from mydyno.stats.percentiles import PERCENTILES
from mydyno.store.samples import Sample

SCHEMA = LOAD_SCHEMA
HIGHEST_NS = 3_600_000_000_000
RESPONSE_TAG = ".response,"
_MERGED: Mapping[str, Callable[[float, float], float]] = {
    "errors": add, "rows": add, "least_rows": min, "most_rows": max,
}  # fmt: skip
_WORST = ("valid", "suspect", "invalid")


@dataclass(frozen=True)
class Progress:
    """What a driver reports while it runs: seconds since the load began and the last second's rates."""

    t_s: float
    qps: float
    tps: float
    latency_us: dict[str, float] = field(default_factory=dict)
    """p50, p95, p99 of the response time, as far as the driver reports them."""
    errors_per_s: float | None = None


@dataclass(frozen=True)
class Agent:
    """A load program on another host, driven by the one on this host."""

    name: str
    """Name of its host."""
    command: str
    """What leads to it, as dynoload's --agent takes it."""


@dataclass(frozen=True)
class StepContext:
    """One step to be run against one server."""

    address: Address
    data: DataSpec
    step: Step
    folder: Path
    """For files that hold passwords; removed afterwards."""
    log: Path
    """Gets the program's output."""
    agents: tuple[Agent, ...] = ()
    """Where the load comes from; empty: from this host."""
    on_start: Callable[[int], None] = lambda _pid: None
    """Gets the program's process id."""
    on_progress: Callable[[Progress], None] = lambda _progress: None


@dataclass(frozen=True)
class Reading:
    """One value as the driver reports it: `unix_ns` is the end of the interval that the value describes."""

    unix_ns: int
    metric: str
    value: float


@dataclass(frozen=True)
class DriverOutcome:
    """One finished step as measured by the driver."""

    result: DriverResult
    readings: tuple[Reading, ...]
    """Per second."""
    started_unix_ns: int
    """When the load began."""
    latency_log: tuple[str, ...] = ()
    """Interval lines of an HdrHistogram log in nanoseconds, where the driver writes one."""

    def samples(self, instance: int) -> tuple[Sample, ...]:
        """The readings as samples of this instance's driver."""
        scope = f"driver:{instance}"
        return tuple(Sample(one.unix_ns, scope, one.metric, one.value) for one in self.readings)


def closed_loop_alone(driver: str, step: Step) -> list[str]:
    """The problem of a rate with a driver that has no open loop."""
    if step.search is not None:
        return [f"search: {driver} has no open loop that counts latency from when each was due; use dynoload"]
    if step.rate is None:
        return []
    return [
        f"rate = {step.rate:.10g}: {driver} has no open loop that counts latency from when each was due; use dynoload"
    ]


def option_text(value: Scalar) -> str:
    """A value as options take it: booleans as on and off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class Driver(ABC):
    """A load program."""

    name: str = ""

    @abstractmethod
    async def get(self, paths: HostPaths, host: LocalHost) -> None:
        """Make the program available. Raises HostError."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The program's version, known after get()."""

    @abstractmethod
    def check(self, step: Step) -> list[str]:
        """What the driver cannot do of this step, as sentences; empty if it supports the step. Needs no get()."""

    def data_obstacle(self, data: DataSpec) -> str | None:  # noqa: ARG002
        """Why it cannot load these data; None if it can. Needs no get()."""
        return None

    @abstractmethod
    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        """Create and fill the tables; `resume`: complete those that are there. Raises DriverError with the program's
        message."""

    @abstractmethod
    async def run(self, context: StepContext) -> DriverOutcome:
        """Run the step's load: warm-up, then the measured window. Raises DriverError with the program's message."""


class PackagedDriver(Driver):
    """A load program from a Debian package."""

    package: str = ""

    def __init__(self) -> None:
        self._host: LocalHost | None = None
        self._packages: UnpackedPackages | None = None

    async def get(self, paths: HostPaths, host: LocalHost) -> None:
        """The package, unpacked in the cache. Raises HostError."""
        self._host = host
        self._packages = await DebianPackages(paths.cache, host).get((self.package,))

    @property
    def version(self) -> str:
        """The package's version, e.g. 1.0.20+ds-5."""
        return self._parts[1].versions[self.package]

    @property
    def _parts(self) -> tuple[LocalHost, UnpackedPackages]:
        if self._host is None or self._packages is None:
            raise BugError(f"{self.name} was used before get()")
        return self._host, self._packages


@dataclass(frozen=True)
class ChildCpu:
    """CPU time of the children that have ended."""

    user_s: float
    system_s: float

    @classmethod
    def so_far(cls) -> ChildCpu:
        """Since mydyno began."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(usage.ru_utime, usage.ru_stime)

    def since(self, before: ChildCpu) -> ChildCpu:
        """Between two readings, in milliseconds."""
        return ChildCpu(round(self.user_s - before.user_s, 3), round(self.system_s - before.system_s, 3))


@dataclass(frozen=True)
class CompletedProgram:
    """A load program that ran to its end."""

    exit_code: int
    started_unix_ns: int
    cpu: ChildCpu

    def with_cpu(self, result: DriverResult) -> DriverResult:
        """The result with the program's CPU time."""
        return result.model_copy(update={"cpu_user_s": self.cpu.user_s, "cpu_system_s": self.cpu.system_s})


async def run_measured(
    host: LocalHost,
    command: list[str],
    context: StepContext,
    read: Callable[[Process], Awaitable[None]],
    *,
    grace_s: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CompletedProgram:
    """Start the program where the load comes from, and let `read` read its standard output until it ends.

    Raises DriverError, and kills it, where it still runs `grace_s` after the step's time.
    """
    before = ChildCpu.so_far()
    started_unix_ns = clock.unix_ns()
    process = await host.start(
        command, environment=environment, cwd=cwd, stdout=asyncio.subprocess.PIPE, entering=context.address.entering
    )
    context.on_start(process.pid)
    try:
        await asyncio.wait_for(read(process), context.step.warmup_s + context.step.measure_s + grace_s)
    except TimeoutError:
        raise DriverError(
            f"{Path(command[0]).name} still ran {grace_s:.0f} s after its time was over and was killed "
            "(a hanging server?)"
        ) from None
    finally:
        await process.end(0.0)
    return CompletedProgram(process.exit_code or 0, started_unix_ns, ChildCpu.so_far().since(before))


def merged(outcomes: Sequence[DriverOutcome], cpu_user_s: float | None, cpu_system_s: float | None) -> DriverResult:
    """One result of at least one outcome; the CPU time is that of all drivers together."""
    results = [outcome.result for outcome in outcomes]
    first = results[0]
    whole: Counter[str] = Counter()
    for result in results:
        whole.update(result.whole)
    return DriverResult(
        driver=first.driver,
        version=first.version,
        command=first.command,
        **{name: sum(getattr(result, name) for result in results) for name in COUNTS},
        queries_read=_sum([result.queries_read for result in results]),
        queries_write=_sum([result.queries_write for result in results]),
        queries_other=_sum([result.queries_other for result in results]),
        duration_s=max(result.duration_s for result in results),
        latency_us=_latency_us(outcomes),
        service_us=_service_us(results),
        cpu_user_s=cpu_user_s,
        cpu_system_s=cpu_system_s,
        whole=dict(whole),
        transaction_types=merged_types([result.transaction_types for result in results]),
        digests=first.digests,
        clients=_clients(results),
        health=max((result.health for result in results), key=_WORST.index),
        health_reasons=tuple(
            f"driver {number}: {reason}" for number, r in enumerate(results, 1) for reason in r.health_reasons
        ),
        findings=tuple(
            finding.model_copy(update={"text": f"driver {number}: {finding.text}"})
            for number, result in enumerate(results, 1)
            for finding in result.findings
        ),
    )


def merged_types(parts: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """DriverResult.transaction_types of several loads or slices together."""
    total: dict[str, dict[str, float]] = {}
    for part in parts:
        for name, one in part.items():
            known = total.setdefault(name, {"count": 0.0, "mean_us": 0.0})
            known["count"] += one["count"]
            known["mean_us"] += (one["mean_us"] - known["mean_us"]) * one["count"] / max(1.0, known["count"])
            for key, together in _MERGED.items():
                if key in one:
                    known[key] = together(known[key], one[key]) if key in known else one[key]
    return total


def _clients(results: Sequence[DriverResult]) -> tuple[ClientLoad, ...]:
    """Each client host once: what its agents of all drivers used together."""
    found: dict[str, ClientLoad] = {}
    for client in (client for result in results for client in result.clients):
        known = found.get(client.name)
        found[client.name] = client if known is None else client.with_other(known)
    return tuple(found.values())


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _service_us(results: Sequence[DriverResult]) -> float | None:
    """Mean weighted by transactions; None where one of the drivers has none."""
    total = sum(result.transactions for result in results)
    if not total or any(result.service_us is None for result in results):
        return None
    return sum((result.service_us or 0.0) * result.transactions for result in results) / total


def _latency_us(outcomes: Sequence[DriverOutcome]) -> dict[str, float]:
    """Mean weighted by transactions, least and greatest of all, percentiles of the merged histograms."""
    latencies = [(outcome.result.latency_us, outcome.result.transactions) for outcome in outcomes]
    found: dict[str, float] = {}
    total = sum(count for _, count in latencies)
    if total and all("mean" in latency for latency, _ in latencies):
        found["mean"] = sum(latency["mean"] * count for latency, count in latencies) / total
    for name, choose in (("min", min), ("max", max)):
        if all(name in latency for latency, _ in latencies):
            found[name] = choose(latency[name] for latency, _ in latencies)
    return found | _percentiles(outcomes)


def _percentiles(outcomes: Sequence[DriverOutcome]) -> dict[str, float]:
    from hdrh.histogram import HdrHistogram

    together = HdrHistogram(1000, HIGHEST_NS, 3)
    for outcome in outcomes:
        lines = [line for line in outcome.latency_log if RESPONSE_TAG in line]
        if lines:
            for line in lines:
                together.decode_and_add(line.rpartition(",")[2])
        elif outcome.result.latency_histogram_us:
            for bound_us, count in outcome.result.latency_histogram_us:
                together.record_value(min(max(round(bound_us * 1000), 1000), HIGHEST_NS), count)
        else:
            return {}
    if not together.get_total_count():
        return {}
    return {name: together.get_value_at_percentile(share) / 1000 for name, share in PERCENTILES.items()}
