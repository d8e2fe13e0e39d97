"""What every running server is to the rest of mydyno, whichever program it is and whoever started it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mydyno.errors import BugError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.network.link import LinkEnd
from mydyno.hosts.network.load_end import LoadPath
from mydyno.hosts.network.ports import LOOPBACK
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import Scalar
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.memcached import MemcachedOptions
from mydyno.servers.sql import Address, ClientTls, Control

CONTROL_USER = "mydyno"
LOAD_USER = "dyno"
LOAD_SCHEMA = "sbtest"


@dataclass
class InstanceSettings:
    """What treatments may change before the start."""

    base: dict[str, Scalar] = field(default_factory=dict)
    """The experiment's variables, the same for every arm; adapted to the server's version when it starts."""
    variables: dict[str, Scalar] = field(default_factory=dict)
    """The arm's variables: never adapted, and they override `base`."""
    environment: dict[str, str] = field(default_factory=dict)
    wrappers: list[list[str]] = field(default_factory=list)
    """Commands put before the server's, outermost first (a cgroup, a namespace); they run with mydyno's own rights."""
    folders: list[Path] = field(default_factory=list)
    """Further folders that the server must be able to enter (a preloaded library's)."""
    client_path: ClientPath | None = None
    """How the load reaches the server; None: by its Unix socket. mydyno itself always uses the socket."""
    link: tuple[LinkEnd, LinkEnd] | None = None
    """The server's and the load's end of a link of this host that was made for them; None: there is none."""
    load_cpus: tuple[int, ...] = ()
    """The CPUs of the load program; empty: all."""
    init_sql: list[str] = field(default_factory=list)
    """Statements that the server executes at its start, before it accepts connections."""
    memcached: MemcachedOptions | None = None
    """Options of the memcached inside this server, or of the memcached that it is; None: there is none."""
    interface: str | None = None
    """The network interface, in the server's namespace, that carries the load; None: none in particular."""


@dataclass(frozen=True)
class CpuSlot:
    """Which share of the host's CPUs an instance gets; instances swap slots between blocks."""

    number: int = 1
    taken: tuple[int, ...] = (1,)
    """The slots of all instances of the run."""

    @property
    def rank(self) -> int:
        """The slot's position among those that are taken: 1 to their number."""
        return sorted(self.taken).index(self.number) + 1


WHOLE_HOST = CpuSlot()
"""The slot of an instance that runs alone."""


class RunningServer(ABC):
    """One server of a run. `settings` may be changed until start()."""

    has_sql: ClassVar[bool] = True
    """Whether it executes SQL: then control() opens a session."""
    is_private: ClassVar[bool] = True
    """Whether mydyno configures, starts and stops it: then it is a PrivateServer (as_private)."""
    version_command: ClassVar[str] = "SELECT VERSION()"
    """The command that reported_version() sends."""

    def __init__(
        self,
        host: LocalHost,
        folder: Path,
        log: Path,
        settings: InstanceSettings | None = None,
        number: int = 1,
        cpu_slot: CpuSlot = WHOLE_HOST,
    ) -> None:
        self.host = host
        self.folder = folder
        self.log = log
        self.settings = settings or InstanceSettings()
        self.number = number
        self.cpu_slot = cpu_slot
        self.build_number = 1
        """Which of its arm's builds or running servers it is, where several alternate over the blocks."""
        self.process: Process | None = None
        """Its process, where mydyno started it."""
        self.listen = LOOPBACK
        """The address on which it accepts connections over TCP, where it accepts any."""
        self.load_path: LoadPath | None = None
        """The network to the hosts of the load; None: the load runs on this host."""
        self.card: str | None = None
        """This host's network interface that leads to an external server, where the experiment names one."""

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def undo(self) -> UndoJournal:
        """Where treatments record what they change on the host. Raises BugError outside of a study."""
        return self.host.undo

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process id; 0 where it is no process of this host. Raises ServerError if it was not started."""

    @abstractmethod
    def address(self, user: str = CONTROL_USER, database: str = "") -> Address:
        """How to reach it as mydyno itself, or as the load (LOAD_USER) on the load's own path."""

    @abstractmethod
    def ensure_client_path(self) -> ClientPath:
        """The load's path over TCP; created where no treatment has set one."""

    def control(self, unbounded: bool = False) -> Control:
        """A session for mydyno's own statements, of any duration if `unbounded`; use with `async with`.

        Raises BugError without SQL (see has_sql).
        """
        if not self.has_sql:
            raise BugError(f"instance {self.number} executes no SQL")
        return Control(self.address(), unbounded=unbounded)

    @abstractmethod
    async def start(self) -> None:
        """Start it and wait until it answers. Raises ServerError with its own error messages."""

    @abstractmethod
    async def stop(self) -> str | None:
        """Stop it; returns a warning where it had to be killed or had ended by itself."""

    async def prewarm(self, statements: Sequence[str]) -> None:
        """Read all data once, by these statements, so that no run starts colder than another."""
        async with self.control(unbounded=True) as control:
            for statement in statements:
                await control.rows(statement)

    @asynccontextmanager
    async def relaxed_durability(self) -> AsyncIterator[None]:
        """While data are stored before the load: commits need not be synced, where the server can do without."""
        yield

    async def reported_version(self) -> str:
        """The version that it reports by its own protocol."""
        async with self.control() as control:
            return str(await control.scalar("SELECT VERSION()"))

    @abstractmethod
    async def record(self) -> ServerRecord:
        """What it reports about itself, for run.json."""

    async def counters(self) -> dict[str, float]:
        """The server's own counters: SHOW GLOBAL STATUS, the numbers of it."""
        async with self.control() as control:
            return await control.status()

    @abstractmethod
    def probe_target(self) -> str:
        """The value of dynoprobe's --instance, without the password's file; its parts are escaped by in_list()."""

    def probe_interface(self) -> str | None:
        """The interface that dynoprobe samples for it, INTERFACE@PID; None: none in particular."""
        return f"{self.settings.interface}@{self.pid}" if self.settings.interface else None

    def log_tail(self) -> str:
        """The error log's last errors, for messages; empty if it cannot be read."""
        return ""


def in_list(value: object) -> str:
    """A value in one of dynoprobe's arguments with commas: its own commas and backslashes are preceded by one."""
    return re.sub(r"([\\,])", r"\\\1", str(value))


@dataclass(frozen=True)
class ClientPath:
    """A TCP path with its protocol options."""

    host: str
    """The address that the server listens on."""
    port: int
    client_host: str
    """The client address that the server sees; the load's account is created for it."""
    namespace: Path | None = None
    """The network namespace that the load starts from; None: mydyno's own."""
    tls: ClientTls | None = None
    compression: str = "off"

    def address(self, user: str, password: bytes, database: str = "") -> Address:
        """The path as a driver takes it."""
        return Address(
            user=user,
            password=password,
            host=self.host,
            port=self.port,
            database=database,
            namespace=self.namespace,
            tls=self.tls,
            compression=self.compression,
        )
