"""What all private servers share: made from a build and a folder, configured by the experiment, stopped for sure."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mydyno.errors import BugError, HostError, ServerError
from mydyno.files.atomic import Owner, make_folder, remove_tree, write_private
from mydyno.hosts.limits import open_files_of
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import LOOPBACK, free_port
from mydyno.hosts.quiet import Headway
from mydyno.hosts.root import text_of
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.build import ServerBuild
from mydyno.servers.running.base import (
    CONTROL_USER,
    LOAD_USER,
    WHOLE_HOST,
    ClientPath,
    CpuSlot,
    InstanceSettings,
    RunningServer,
)
from mydyno.servers.sql import Address

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
"""Without headway: recovery and the writing of dirty pages take as long as they take."""
LOG_TAIL_LINES = 15
NOTES = ("[Note]", "[System]", "Version: ")
"""What lines of a server's error log have that say how it started."""
ANY_HOST = "%"


def of_a_failure(lines: Sequence[str]) -> list[str]:
    """Of an error log's lines, the last errors; without any, the last lines, but of a server that was ready without
    the notes of its start.
    """
    chosen = [line for line in lines if "[ERROR]" in line]
    if not chosen and any("ready for connections" in line for line in lines):
        chosen = [line for line in lines if not any(note in line for note in NOTES)]
    elif not chosen:
        chosen = list(lines)
    return chosen[-LOG_TAIL_LINES:]


@dataclass(frozen=True)
class Credentials:
    """The random passwords of one study."""

    control: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    load: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


class PrivateServer(RunningServer):
    """One server that mydyno starts. `build` and `settings` may be changed until start()."""

    def __init__(
        self,
        build: ServerBuild,
        host: LocalHost,
        folder: Path,
        socket_folder: Path,
        log: Path,
        credentials: Credentials,
        settings: InstanceSettings,
        number: int = 1,
        port: int | None = None,
        cpu_slot: CpuSlot = WHOLE_HOST,
    ) -> None:
        super().__init__(host, folder, log, settings, number, cpu_slot)
        self.build = build
        self.credentials = credentials
        self.port = port
        self.socket = socket_folder / "servers" / f"{number}.sock"
        self.version: ServerVersion = build.version
        self.start_s = 0.0
        self.say: Callable[[str], None] = lambda _: None
        """Receives the progress of a long start or stop."""
        self.notes: tuple[str, ...] = ()
        """Which of the experiment's variables were renamed or omitted for this server."""

    @property
    def pid(self) -> int:
        """The server's process id. Raises ServerError if it was not started."""
        if self.process is None:
            raise ServerError(f"instance {self.number} was not started")
        return self.process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The environment that the server gets beside the host's kept variables."""
        return {**self.build.environment, **self.settings.environment}

    @property
    def command(self) -> list[str]:
        """What starts it."""
        return self.build.command

    def address(self, user: str = CONTROL_USER, database: str = "") -> Address:
        """By its socket, or as the load if a treatment set a path for the load."""
        password = (self.credentials.control if user == CONTROL_USER else self.credentials.load).encode()
        path = self.settings.client_path
        if user == LOAD_USER and path is not None:
            return replace(path.address(user, password, database), cpus=self.settings.load_cpus)
        cpus = self.settings.load_cpus if user == LOAD_USER else ()
        return Address(user=user, password=password, socket=str(self.socket), database=database, cpus=cpus)

    def ensure_client_path(self) -> ClientPath:
        """The load's path over TCP; without another one the server listens at a free port of `listen`."""
        path = self.settings.client_path
        if path is None:
            port = free_port(self.listen)
            # Which address a client comes from is known to the server alone; its random password is the study's.
            path = ClientPath(self.listen, port, LOOPBACK if self.listen == LOOPBACK else ANY_HOST)
            self.settings.variables.update({"skip_networking": "OFF", "bind_address": self.listen, "port": port})
            self.settings.client_path = path
        return path

    async def launch(self, folders: list[Path]) -> None:
        """Start the process, its output appended to the log. `folders`: those it must enter beside its own."""
        with self.log.open("ab") as log:
            self.process = await self.host.start(
                self.command,
                environment=self.environment,
                cwd=self.data,
                as_server=True,
                folders=[*self.build.folders, self.folder, *folders, *self.settings.folders],
                stdout=log.fileno(),
                entering=[word for wrapper in self.settings.wrappers for word in wrapper],
            )

    async def stop(self) -> str | None:
        """Stop cleanly; kill it once it makes no headway. Returns a warning where it was killed or had ended."""
        if self.process is None:
            return None
        if self.process.exit_code is not None:
            return f"the server had ended with exit code {self.process.exit_code}{self.log_tail()}"
        headway = Headway(self.pid, STOP_TIMEOUT_S, self.say, f"waiting until {self.build.name} has stopped")
        took_s = await self.process.end(STOP_TIMEOUT_S, headway)
        if self.process.exit_code == -signal.SIGKILL:
            return (
                f"the server had not stopped after {took_s:.0f} s and was killed: "
                f"it did nothing for {STOP_TIMEOUT_S:.0f} s{self.log_tail()}"
            )
        return None

    def record_of(self, variables: dict[str, str], version_comment: str = "") -> ServerRecord:
        """The record with these variables as the server reported them."""
        return ServerRecord(
            instance=self.number,
            place=self.cpu_slot.number,
            version=self.version.text,
            version_comment=version_comment,
            flavour=self.version.flavour,
            binary=str(self.build.program),
            command=tuple(self.command),
            environment=self.environment,
            variables=variables,
            pid=self.pid,
            start_s=round(self.start_s, 3),
            open_files=open_files_of(self.pid),
            notes=self.notes,
        )

    def log_tail(self) -> str:
        """What the error log says of a failure, for messages."""
        lines = of_a_failure(text_of(self.log).splitlines())
        return "\n  error log: " + "\n  error log: ".join(lines) if lines else ""

    def make_folders(self, *names: str) -> None:
        """Make the instance's folder, which the server's user may enter, and folders in it, which are that user's.

        The folder itself stays mydyno's: what the server could put there mydyno would write to.
        """
        owner = self.owner()
        make_folder(self.folder, None if owner is None else (os.getuid(), owner[1]), 0o700 if owner is None else 0o750)
        for name in names:
            self.own(self.folder / name)

    def make_anew(self, *names: str) -> None:
        """Make the folders, empty. Raises HostError if what is there cannot be removed.

        A program that a server left running may keep its data there: root must not write where it puts links.
        """
        remove_tree(self.folder)
        if os.path.lexists(self.folder):
            raise HostError(
                f"{self.folder} cannot be removed: a program that the server started may still write to it",
                "end the processes of the user that servers run as",
            )
        self.make_folders(*names)

    def own(self, folder: Path) -> None:
        """Make a folder (if need be) that only the server's user may enter, in a folder that is not that user's."""
        make_folder(folder, self.owner())

    def write(self, path: Path, text: str) -> None:
        """Write a file that only the server's user may read."""
        write_private(path, text.encode(), self.owner())

    def owner(self) -> Owner | None:
        """The ids of the user that the server runs as; None: the present one."""
        return self.host.server_owner


def as_private(server: RunningServer) -> PrivateServer:
    """The server with what only a private one has. Raises BugError for an external one (see is_private)."""
    if not isinstance(server, PrivateServer):
        raise BugError("an external server was used as a private one")
    return server
