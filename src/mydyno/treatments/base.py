"""The interface of treatments: a change to one instance that is applied, verified in the running system, and undone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.load_end import LoadPath
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.servers.running.base import RunningServer
from mydyno.store.samples import Sample


class Treatment(ABC):
    """One treatment of one arm.

    A subclass has a name, apply() and evidence(). The rest holds for most treatments: in force for one server alone,
    possible everywhere, nothing to fetch, no change to the host, proved by evidence() and nothing else.
    """

    name: str = ""
    root: HostRoot = HERE
    """The host; a test sets another one."""

    # Facts, known from the treatment's value alone.

    @property
    def coexists(self) -> bool:
        """Whether it can be in force for one server while servers of other arms run beside it."""
        return not self.alone_because

    @property
    def alone_because(self) -> str:
        """Why it cannot coexist; empty if it can."""
        return ""

    @property
    def needed_in_every_arm_because(self) -> str:
        """What it sets for the whole host, so that every arm must set it too; empty if it sets nothing such."""
        return ""

    @property
    def switches(self) -> bool:
        """Whether it can be applied to a running server between two slices, and removed or replaced."""
        return False

    @property
    def begins_with_server(self) -> bool:
        """Whether a server that is switched must have been started with it: the first arm's is applied, and all have
        one.
        """
        return False

    @property
    def lasts(self) -> bool:
        """Whether it may leave something behind for the slices after its own."""
        return True

    @property
    def is_proved_for_one_instance_only(self) -> bool:
        """Whether its proof needs a run with a single instance."""
        return False

    @property
    def server_memory_bytes(self) -> int:
        """Memory that it makes each server take beside its buffer pool."""
        return 0

    @property
    def files(self) -> tuple[str, ...]:
        """Paths, as the experiment has them, of files that the server's host needs: copied to the hosts of a study."""
        return ()

    # Is it possible here? Nothing is started or fetched to find out.

    def obstacle(self, server: ServerSpec) -> str | None:  # noqa: ARG002
        """Why it is impossible with the experiment's server, and what would make it possible; None: it is possible."""
        return None

    def server_obstacle(self, server: ServerSpec) -> str | None:  # noqa: ARG002
        """Why the arm's own server, with the variables of both, does not support it; None if it does."""
        return None

    def driver_obstacle(self, driver: str) -> str | None:  # noqa: ARG002
        """Why this load program does not support it; None if it does."""
        return None

    def statements_obstacle(self) -> str | None:
        """Why the built-in workloads cannot show its effect; None if they can."""
        return None

    def disk_obstacle(self, data: Path) -> str | None:  # noqa: ARG002
        """Why it is impossible with the data in this folder; None if it is possible."""
        return None

    def cache_obstacle(self, cache: Path) -> str | None:  # noqa: ARG002
        """Why it is impossible with files in this cache folder; None if it is possible."""
        return None

    def obstacle_apart(self, server: ServerSpec) -> str | None:
        """The same as obstacle(), where the load comes from other hosts."""
        return self.obstacle(server)

    def host_changes(self, server: ServerSpec) -> list[str]:  # noqa: ARG002
        """What it changes on the host, for plan; empty if it changes nothing beyond its own processes."""
        return []

    def host_changes_apart(self, server: ServerSpec) -> list[str]:
        """The same, where the load comes from other hosts."""
        return self.host_changes(server)

    # One run, in this order.

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:  # noqa: ARG002
        """Fetch what it needs; returns versions for the report. Raises HostError."""
        return {}

    async def rehearse(self, host: LocalHost, scratch: Path) -> Evidence | None:  # noqa: ARG002
        """Try it before the first block, without a server, with files in `scratch`. Raises HostError if it fails.

        None if there is nothing to try.
        """
        return None

    async def rehearse_apart(self, path: LoadPath) -> None:  # noqa: B027
        """Examine the network to the hosts of the load, before the first block. Raises HostError."""

    @abstractmethod
    async def apply(self, instance: RunningServer) -> None:
        """Change the instance's settings before its start."""

    async def switch_on(self, instance: RunningServer) -> None:
        """Put it in force for the running server. Raises HostError."""
        raise NotImplementedError(self.name)

    async def switch_off(self, instance: RunningServer) -> None:
        """Free the running server of it. Raises HostError."""
        raise NotImplementedError(self.name)

    async def left(self, instance: RunningServer) -> str:  # noqa: ARG002
        """What is still in force of it after switch_off(), or was changed since; empty: nothing."""
        return ""

    @abstractmethod
    async def evidence(self, instance: RunningServer) -> Evidence:
        """Proof from the running server. Never raises for a treatment that failed: its evidence then does not hold."""

    async def in_force(self, instance: RunningServer) -> Evidence:
        """What evidence() proves, as far as it can be read within milliseconds: after each switch, before the next."""
        return await self.evidence(instance)

    async def account(self, instance: RunningServer) -> Evidence | None:  # noqa: ARG002
        """Proof from the running server after its last step, from what was counted during the load; None: no proof.

        Never raises for a treatment that failed.
        """
        return None

    def load_evidence(self, step: StepRecord, samples: Sequence[Sample]) -> Evidence | None:  # noqa: ARG002
        """Proof from one finished step: the server's counters, the driver's, and the samples of the whole run.

        For treatments of the load's own sessions; None: no proof.
        """
        return None

    async def end_evidence(self, instance: RunningServer) -> Evidence | None:  # noqa: ARG002
        """Proof that ends the server, taken after the last step and the last sample of a run; None: no proof.

        Never raises for a treatment that failed.
        """
        return None

    async def undo(self) -> None:  # noqa: B027
        """Undo what apply() changed outside the instance."""
