"""What every driver is: a program that prepares data and asks a workload of a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import DataSpec, Step
from mydyno.model.records import DriverResult
from mydyno.servers.sql import Address
from mydyno.store.samples import Sample

SCHEMA = "sbtest"


@dataclass(frozen=True)
class Progress:
    """What a driver tells while it runs: seconds since the load began and the last second's rates."""

    t_s: float
    qps: float
    tps: float


@dataclass(frozen=True)
class DriverOutcome:
    """One finished step as the driver saw it."""

    result: DriverResult
    samples: tuple[Sample, ...]
    """Per second, scope "driver:1"."""
    started_unix_ns: int
    """When the load began."""
    latency_log: tuple[str, ...] = ()
    """Interval lines of an HdrHistogram log in nanoseconds, where the driver writes one; times from the window on."""


@runtime_checkable
class NeedsData(Protocol):
    """A load program that not every data spec suits."""

    def data_obstacle(self, data: DataSpec) -> str | None:
        """Why these data do not; None where they do. Needs no get()."""


def closed_loop_alone(driver: str, step: Step) -> list[str]:
    """The problem of a rate with a driver that has no plan of its own for it."""
    if step.rate is None:
        return []
    return [
        f"rate = {step.rate:.10g}: {driver} has no open loop that counts latency from when each was due; use dynoload"
    ]


class Driver(Protocol):
    """A load program."""

    name: str

    async def get(self, settings: Settings, host: LocalHost) -> None:
        """Make the program available. Raises HostError."""

    @property
    def version(self) -> str:
        """The program's version, known after get()."""

    def check(self, step: Step) -> list[str]:
        """What of this step the driver cannot do, as sentences; empty where all is well. Needs no get()."""

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path) -> None:
        """Create and fill the tables. Raises DriverError with the program's own words."""

    async def run(
        self,
        address: Address,
        data: DataSpec,
        step: Step,
        folder: Path,
        log: Path,
        on_start: Callable[[int], None],
        on_progress: Callable[[Progress], None],
    ) -> DriverOutcome:
        """Ask the step's load: warm-up, then the measured window. Raises DriverError with the program's own words.

        `folder` is for files that hold passwords and is removed afterwards; `log` gets the program's output;
        `on_start` gets the process id.
        """
