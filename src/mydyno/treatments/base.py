"""What every treatment is: a change to one instance that is applied, proved from the running system, and undone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from mydyno.hosts.local import LocalHost
from mydyno.model.experiment import ServerSpec
from mydyno.model.records import Evidence, StepRecord
from mydyno.servers.instance import Instance
from mydyno.store.samples import Sample


class Treatment(Protocol):
    """One treatment of one arm."""

    name: str

    @property
    def coexists(self) -> bool:
        """Whether it can be in force for one server while servers of other arms run beside it."""

    @property
    def alone_because(self) -> str:
        """Why it cannot coexist; empty where it can."""

    @property
    def touches_client(self) -> bool:
        """Whether the load program's work for one query depends on its value."""

    def obstacle(self, server: ServerSpec) -> str | None:
        """Why it cannot be done here, with what would make it possible; None where it can. Starts nothing."""

    def host_changes(self) -> list[str]:
        """What it will change on the host, for plan; empty where it changes nothing beyond its own processes."""

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:
        """Fetch what it needs; gives versions for the report. Raises HostError."""

    async def apply(self, instance: Instance) -> None:
        """Change the instance's settings before its start."""

    async def evidence(self, instance: Instance) -> Evidence:
        """Proof from the running server. Never raises for a treatment that failed: then it does not hold."""

    async def undo(self) -> None:
        """Take back what apply changed outside the instance."""


class TreatmentDefaults:
    """What holds for most treatments: in force for one server alone, nothing to fetch, no change to the host."""

    @property
    def coexists(self) -> bool:
        """Unless there is a reason against it."""
        return not self.alone_because

    @property
    def alone_because(self) -> str:
        """No reason."""
        return ""

    @property
    def touches_client(self) -> bool:
        """It changes the server alone."""
        return False

    def host_changes(self) -> list[str]:
        """None."""
        return []

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:  # noqa: ARG002
        """Nothing to fetch."""
        return {}

    async def undo(self) -> None:
        """Nothing outside the instance was changed."""


@runtime_checkable
class NeededInEveryArm(Protocol):
    """A treatment that sets something of the whole host to a value that every arm must then have."""

    @property
    def needed_in_every_arm_because(self) -> str:
        """What it sets for the whole host."""


@runtime_checkable
class ChangesByServer(Protocol):
    """A treatment whose changes to this host depend on where the server is."""

    def host_changes_for(self, server: ServerSpec) -> list[str]:
        """What host_changes() gives, for this server."""


@runtime_checkable
class OnDisk(Protocol):
    """A treatment that also depends on where the data lie."""

    def disk_obstacle(self, data: Path) -> str | None:
        """Why it cannot be done with the data in this folder; None where it can. Starts nothing."""


@runtime_checkable
class Rehearsed(Protocol):
    """A treatment that is tried without a server, before the first block."""

    async def rehearse(self, host: LocalHost, scratch: Path) -> Evidence | None:
        """Proof that it works here, from files in `scratch`; None where there is nothing to try. Raises HostError."""


@runtime_checkable
class Accounted(Protocol):
    """A treatment that is proved again after the load, from what the kernel counted during it."""

    async def account(self, instance: Instance) -> Evidence:
        """Proof from the running server after its last step. Never raises for a treatment that failed."""


@runtime_checkable
class ProvesLoad(Protocol):
    """A treatment of the load's own sessions: what it did to them shows only once the load has run."""

    def load_evidence(self, step: StepRecord, samples: Sequence[Sample]) -> Evidence:
        """Proof from one finished step: the server's counters, the driver's, and the samples of the whole run."""


@runtime_checkable
class ProvesEnd(Protocol):
    """A treatment whose last proof ends the server: taken behind the last step and the last sample of a run."""

    async def end_evidence(self, instance: Instance) -> Evidence | None:
        """Proof, or None where there is nothing to prove. Never raises for a treatment that failed."""


@runtime_checkable
class NeedsServer(Protocol):
    """A treatment that not every server can have."""

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """Why the arm's own server cannot; None where it can. Starts nothing."""


@runtime_checkable
class NeedsDriver(Protocol):
    """A treatment that not every load program can play its part in."""

    def driver_obstacle(self, driver: str) -> str | None:
        """Why this load program cannot; None where it can. Starts nothing."""
