"""What every driver is: a program that prepares data and runs a workload against a server, from its start to its end.

Its CPU time is that of all children that ended meanwhile, as the kernel counts it (getrusage(2), RUSAGE_CHILDREN): with
several drivers at the same time it is known for all together, not for each.
"""

from __future__ import annotations

import asyncio
import resource
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mydyno import clock
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult
from mydyno.packages.debian import DebianPackages, UnpackedPackages
from mydyno.servers.running.base import LOAD_SCHEMA
from mydyno.servers.sql import Address
from mydyno.store.samples import Sample

SCHEMA = LOAD_SCHEMA


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
    """Interval lines of an HdrHistogram log in nanoseconds, where the driver writes one; times from the window on."""

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
        command,
        environment=environment,
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        entering=context.address.entering,
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
