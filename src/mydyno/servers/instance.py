"""One private server: made from a build and a folder, configured by the experiment, proved ready, stopped for sure."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.ports import LOOPBACK
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import Scalar
from mydyno.model.records import ServerRecord
from mydyno.servers.build import ServerBuild
from mydyno.servers.load_path import LoadPath
from mydyno.servers.memcached_options import MemcachedOptions
from mydyno.servers.memcached_protocol import MemcachedClient, numbers
from mydyno.servers.my_cnf import my_cnf
from mydyno.servers.sql import Address, Control
from mydyno.servers.variables_by_version import fitted
from mydyno.servers.version import ServerVersion

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
CONTROL_USER = "mydyno"
LOAD_USER = "dyno"
ACCOUNT_HOSTS = ("localhost", "127.0.0.1")
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Credentials:
    """The random passwords of one study."""

    control: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    load: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


@dataclass
class InstanceSettings:
    """What treatments may change before the start."""

    base: dict[str, Scalar] = field(default_factory=dict)
    """What the experiment says for every arm; fitted to the server's version when it starts."""
    variables: dict[str, Scalar] = field(default_factory=dict)
    """What an arm says: taken as it is, and wins over `base`."""
    environment: dict[str, str] = field(default_factory=dict)
    wrappers: list[list[str]] = field(default_factory=list)
    """Commands put before the server's, outermost first (a cgroup, a namespace); they run with mydyno's own rights."""
    folders: list[Path] = field(default_factory=list)
    """Further folders that the server must be able to enter (a preloaded library's)."""
    load_path: LoadPath | None = None
    """How the load reaches the server; None: by its Unix socket. mydyno itself always comes by the socket."""
    init_sql: list[str] = field(default_factory=list)
    """Statements that the server executes at its start, before anyone can come."""
    memcached: MemcachedOptions | None = None
    """Of the memcached in this server, or that it is; None: there is none."""
    interface: str | None = None
    """The network interface, in the server's namespace, that carries the load; None: none in particular."""


@dataclass(frozen=True)
class Place:
    """Which share of the host an instance gets; instances swap places between blocks."""

    number: int = 1
    taken: tuple[int, ...] = (1,)
    """The places of all instances of the run."""

    @property
    def rank(self) -> int:
        """The place counted among those that are taken: 1 to their number."""
        return sorted(self.taken).index(self.number) + 1


ALONE = Place()


class Instance:
    """One mysqld of a run. `settings` may be changed until start()."""

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
        place: Place = ALONE,
    ) -> None:
        self.build = build
        self.host = host
        self.folder = folder
        self.log = log
        self.credentials = credentials
        self.settings = settings
        self.number = number
        self.port = port
        self.place = place
        self.socket = socket_folder / f"{number}.sock"
        self.process: Process | None = None
        self.version: ServerVersion = build.version
        self.start_s = 0.0
        self.undo: UndoJournal | None = None
        """Where treatments write down what they change on the host; the workbench gives it."""
        self.notes: tuple[str, ...] = ()
        """What of the experiment's variables was said otherwise, or left out, for this server."""

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The server's process id. Raises ServerError where it was not started."""
        if self.process is None:
            raise ServerError(f"instance {self.number} was not started")
        return self.process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment that the server gets beside the host's kept variables."""
        return {**self.build.environment, **self.settings.environment}

    def address(self, user: str = CONTROL_USER, database: str = "") -> Address:
        """How to reach it: by its socket, or as the load where a treatment gave the load a path of its own."""
        password = self.credentials.control if user == CONTROL_USER else self.credentials.load
        path = self.settings.load_path
        if user == LOAD_USER and path is not None:
            return path.address(user, password, database)
        return Address(user=user, password=password, socket=str(self.socket), database=database)

    def control(self) -> Control:
        """A control connection; use with `async with`."""
        return Control(self.address())

    async def start(self, before_passwords: Sequence[str] = ()) -> None:
        """Write my.cnf, start, wait until SQL is answered. Raises ServerError with the error log's tail."""
        for name in ("tmp", "data"):
            self.own(self.folder / name)
        self.own(self.folder)
        configuration = self.folder / "my.cnf"
        init_file = self.folder / "init.sql"
        statements = [*before_passwords, *self._password_sql(), *self.settings.init_sql]
        self._write(init_file, "".join(f"{statement};\n" for statement in statements))
        base = fitted(self.settings.base, self.build.version, self.build.variables)
        self.notes = tuple(base.notes)
        variables = {**base.variables, **self.settings.variables}
        text = my_cnf(self.build, self.folder, self.socket, self.port, variables, self.notes)
        self._write(configuration, text + f"init_file = {init_file}\n")
        began = time.monotonic()
        command = [*self.build.command, f"--defaults-file={configuration}"]
        with self.log.open("ab") as log:
            self.process = await self.host.start(
                command,
                environment=self.environment,
                cwd=self.data,
                as_server=True,
                folders=[*self.build.folders, self.folder, self.socket.parent, *self.settings.folders],
                stdout=log.fileno(),
                entering=[word for wrapper in self.settings.wrappers for word in wrapper],
            )
        try:
            self.version = await self._wait_ready(began + START_TIMEOUT_S)
        except BaseException:
            await self.process.end(0.0)
            raise
        finally:
            init_file.unlink(missing_ok=True)  # it holds passwords
        self.start_s = time.monotonic() - began

    async def _wait_ready(self, deadline: float) -> ServerVersion:
        assert self.process is not None
        last = "no answer yet"
        while time.monotonic() < deadline:
            if self.process.exit_code is not None:
                raise ServerError(f"{self.build.name} ended with exit code {self.process.exit_code}{self.log_tail()}")
            if self.socket.exists():
                try:
                    return await self._answer()
                except ServerError as error:
                    last = error.message
            await asyncio.sleep(0.05)
        raise ServerError(f"{self.build.name} was not ready after {START_TIMEOUT_S:.0f} s: {last}{self.log_tail()}")

    async def _answer(self) -> ServerVersion:
        async with Control(self.address(), timeout_s=10) as control:
            version = ServerVersion.parse(str(await control.scalar("SELECT VERSION()")))
        if self.settings.memcached is not None:
            async with MemcachedClient(LOOPBACK, self.settings.memcached.port, timeout_s=10) as client:
                await client.version()  # the plugin's port opens a moment after SQL's
        return version

    async def stop(self) -> str | None:
        """Stop cleanly; kill after the time-out. Gives a warning where it had to be killed or had died."""
        if self.process is None:
            return None
        if self.process.exit_code is not None:
            return f"the server had ended with exit code {self.process.exit_code}{self.log_tail()}"
        took_s = await self.process.end(STOP_TIMEOUT_S)
        if took_s >= STOP_TIMEOUT_S:
            return f"the server did not stop within {STOP_TIMEOUT_S:.0f} s and was killed{self.log_tail()}"
        return None

    async def told_version(self) -> str:
        """SELECT VERSION()."""
        async with self.control() as control:
            return str(await control.scalar("SELECT VERSION()"))

    async def counters(self) -> dict[str, float]:
        """The server's own counters, and those of the memcached in it under memcached_NAME."""
        found = await self.sql_status()
        if self.settings.memcached is not None:
            async with MemcachedClient(LOOPBACK, self.settings.memcached.port) as client:
                found |= numbers(await client.stats())
        return found

    async def sql_status(self) -> dict[str, float]:
        """SHOW GLOBAL STATUS, the numbers of it."""
        async with self.control() as control:
            return await control.status()

    async def record(self) -> ServerRecord:
        """What the server tells of itself by SQL, for run.json."""
        async with self.control() as control:
            variables = await control.variables()
        return ServerRecord(
            instance=self.number,
            place=self.place.number,
            version=self.version.text,
            version_comment=variables.get("version_comment", ""),
            flavour=self.version.flavour,
            binary=str(self.build.program),
            command=(*self.build.command, f"--defaults-file={self.folder / 'my.cnf'}"),
            environment=self.environment,
            variables=variables,
            pid=self.pid,
            start_s=round(self.start_s, 3),
            notes=self.notes,
        )

    def log_tail(self) -> str:
        """The error log's last errors, or its last lines where it has none; for messages."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        lines = ([line for line in lines if "[ERROR]" in line] or lines)[-LOG_TAIL_LINES:]
        return "\n  error log: " + "\n  error log: ".join(lines) if lines else ""

    def _password_sql(self) -> list[str]:
        passwords = ((CONTROL_USER, self.credentials.control), (LOAD_USER, self.credentials.load))
        statements = [
            self.build.version.set_password_sql(f"'{user}'@'{host}'", password)
            for user, password in passwords
            for host in ACCOUNT_HOSTS
        ]
        path = self.settings.load_path
        if path is not None and path.client_host not in ACCOUNT_HOSTS:
            account = f"'{LOAD_USER}'@'{path.client_host}'"
            statements += [
                f"CREATE USER {account}",
                f"GRANT ALL PRIVILEGES ON `sbtest`.* TO {account}",
                self.build.version.set_password_sql(account, self.credentials.load),
            ]
        return statements

    def own(self, folder: Path) -> None:
        """Make a folder (if need be) that only the server's user may enter."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._chown(folder)

    def _write(self, path: Path, text: str) -> None:
        path.touch(mode=0o600)
        path.write_text(text)
        self._chown(path)

    def _chown(self, path: Path) -> None:
        if self.host.server_user is not None:
            entry = pwd.getpwnam(self.host.server_user)
            os.chown(path, entry.pw_uid, entry.pw_gid)
