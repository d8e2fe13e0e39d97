"""The environment of a study as its runs use it: for private servers, for an external server, and a test's fake;
and the folders of a study.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno import clock
from mydyno.drivers.base import Driver
from mydyno.execution.counters.programs import KernelCounter, Profiler, StartCounting
from mydyno.execution.environments.probe import LoadClients, Sampler
from mydyno.files.atomic import check_surroundings, make_folder
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths, socket_folder
from mydyno.hosts.server_user import ids_of
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ArmSpec, Experiment
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import WHOLE_HOST, CpuSlot, RunningServer
from mydyno.servers.templates import Template
from mydyno.treatments.base import Treatment
from mydyno.treatments.catalogue import treatments_of

Say = Callable[[str], None]
"""Reports to a person what is being done."""


@dataclass
class StudyEnvironment(ABC):
    """The environment of one study. What has a body here holds for servers that others started."""

    paths: HostPaths
    experiment: Experiment
    host: LocalHost
    undo: UndoJournal
    drivers: dict[str, Driver]
    scratch: Path
    """The runs' data directories."""
    sockets: Path
    """A folder with a short path (sun_path holds 108 bytes) for sockets and password files."""
    versions: dict[str, str]
    server_facts: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """Facts of the server's host where that is another one that can be asked (server.ssh); empty otherwise."""
    clients: LoadClients | None = field(default=None, kw_only=True)
    """The hosts that the load comes from; None: the server's host."""
    restores_data: bool = field(default=False, kw_only=True)
    """Whether each run begins with the same data."""

    @abstractmethod
    def instance(
        self, folder: Path, log: Path, number: int = 1, cpu_slot: CpuSlot = WHOLE_HOST, arm: str | None = None
    ) -> RunningServer:
        """A server of an arm (None: the control), not yet started; `number` counts from 1 inside a run."""

    def treatments(self, arm: ArmSpec) -> list[Treatment]:
        """New treatments for one server of an arm in one run, in the order in which they are applied."""
        return treatments_of(arm)

    @abstractmethod
    def probe(self, instances: Sequence[RunningServer], *, speed_meter: bool = False) -> Sampler:
        """The sampler of one run, not yet started."""

    def profiler(self) -> Profiler | None:
        """What records CPU profiles of the servers; None: none are wanted."""
        return None

    def wait_counter(self) -> StartCounting | None:
        """The counter of the servers' waits; None: not enabled."""
        return None

    def kernel_counter(self) -> KernelCounter | None:
        """The counter of the kernel's events for the servers; None: not enabled."""
        return None

    async def rehearse(self, say: Say) -> list[Evidence]:  # noqa: ARG002
        """Try the treatments that can be tried without a server, before the first block. Raises HostError."""
        return []

    @abstractmethod
    async def template(self, arm: ArmSpec, say: Say) -> Template | None:
        """The arm's prepared data; created now if no study created it before. None: its server starts without any."""

    @abstractmethod
    async def restore(self, template: Template | None, instance: RunningServer) -> None:
        """Give the instance its own copy of the template."""

    async def prewarm(self, instance: RunningServer) -> None:  # noqa: B027
        """Read all data once, so that no run begins colder than another."""

    def close(self) -> list[str]:
        """Undo everything that is still open; returns what could not be."""
        return self.undo.undo_all()

    def stays(self) -> str:
        """What stays on a server that others use, in words; empty: it is none."""
        return ""


Opener = Callable[[HostPaths, Experiment, str, Path, Say], Awaitable[StudyEnvironment]]
"""Opens a study's environment: host paths, experiment, the study's name and folder, and where to report progress."""


def close(environment: StudyEnvironment, say: Say) -> None:
    """Undo its changes; `say` receives what could not be undone, and that the host's clock was set meanwhile."""
    for words in clock.step_words():
        say(words)
    left = environment.close()
    for one in left:
        say(f"could not be undone: {one}")
    if not left and (words := environment.stays()):
        say(words)


def make_folders(paths: HostPaths, study: str, undo: UndoJournal) -> tuple[Path, Path]:
    """(data, sockets), both mydyno's own; the server's user may enter them, and writes only to folders in them.

    Raises HostError where that user could exchange the folder of the data.
    """
    owner = None if paths.server_user is None else ids_of(paths.server_user)
    if owner is not None:
        check_surroundings(paths.data, owner)
    # Of a name of its own: a study of the same second, or one beyond this name space, may share the data's folder.
    scratch = paths.data / "runs" / f"{study}-{secrets.token_hex(4)}"
    undo.will_change("folder", path=str(scratch))
    make_folder(scratch, mode=0o755)
    sockets = socket_folder() / f"mydyno-{secrets.token_hex(4)}"
    undo.will_change("folder", path=str(sockets))
    sockets.mkdir(mode=0o700)
    if owner is not None:
        check_surroundings(scratch, owner)
        make_folder(sockets, (0, owner[1]), 0o750)
    return scratch, sockets
