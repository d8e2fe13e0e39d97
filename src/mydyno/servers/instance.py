"""One private server: made from a build and a folder, configured by the experiment, proved ready, stopped for sure."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.experiment import Scalar
from mydyno.model.records import ServerRecord
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import my_cnf
from mydyno.servers.sql import Address, Control
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

    variables: dict[str, Scalar] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    wrappers: list[list[str]] = field(default_factory=list)
    """Commands put before the server's, outermost first (a cgroup, a namespace); they run with mydyno's own rights."""
    folders: list[Path] = field(default_factory=list)
    """Further folders that the server must be able to enter (a preloaded library's)."""


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
        """How to reach it by its socket."""
        password = self.credentials.control if user == CONTROL_USER else self.credentials.load
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
        self._write(init_file, "".join(f"{statement};\n" for statement in [*before_passwords, *self._password_sql()]))
        text = my_cnf(self.build, self.folder, self.socket, self.port, self.settings.variables)
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
                    async with Control(self.address(), timeout_s=10) as control:
                        return ServerVersion.parse(str(await control.scalar("SELECT VERSION()")))
                except ServerError as error:
                    last = error.message
            await asyncio.sleep(0.05)
        raise ServerError(f"{self.build.name} was not ready after {START_TIMEOUT_S:.0f} s: {last}{self.log_tail()}")

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
        )

    def log_tail(self) -> str:
        """The error log's last lines, for messages."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        except OSError:
            return ""
        return "\n  error log: " + "\n  error log: ".join(lines) if lines else ""

    def _password_sql(self) -> list[str]:
        passwords = ((CONTROL_USER, self.credentials.control), (LOAD_USER, self.credentials.load))
        return [
            self.build.version.set_password_sql(f"'{user}'@'{host}'", password)
            for user, password in passwords
            for host in ACCOUNT_HOSTS
        ]

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


async def initialise(instance: Instance) -> None:
    """A fresh data directory with mydyno's accounts and no others that need no password; the server is left stopped.

    Raises ServerError with the words of the server's own initialisation.
    """
    shutil.rmtree(instance.folder, ignore_errors=True)
    for folder in (instance.folder, instance.folder / "tmp"):
        instance.own(folder)
    build = instance.build
    options = [f"--basedir={build.basedir}", f"--datadir={instance.data}", f"--tmpdir={instance.folder / 'tmp'}"]
    shaping = [f"--{name}={value}" for name, value in instance.settings.variables.items() if name.startswith("innodb_")]
    if build.version.initialises_itself:
        command = [*build.command, "--no-defaults", "--initialize-insecure", *options, *shaping]
        command.append(f"--lc-messages-dir={build.messages}")
    else:
        script = _initialisation_script(build)
        command = [str(script), "--no-defaults", *options, *shaping]
        if build.version.flavour == "mariadb":
            command += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    done = await instance.host.run(
        command,
        environment=build.environment,
        cwd=build.basedir,
        as_server=True,
        folders=[*build.folders, instance.folder],
        timeout_s=START_TIMEOUT_S,
    )
    if done.exit_code or not (instance.data / "mysql").is_dir():
        words = "\n  ".join(done.output.strip().splitlines()[-LOG_TAIL_LINES:])
        raise ServerError(f"{command[0]} failed with exit code {done.exit_code}:\n  {words}")
    await _make_accounts(instance)


def _initialisation_script(build: ServerBuild) -> Path:
    names = ("mariadb-install-db", "mysql_install_db")
    for candidate in (f"{folder}/{name}" for name in names for folder in ("bin", "scripts")):
        if (build.basedir / candidate).is_file():
            return build.basedir / candidate
    raise ServerError(f"{build.basedir} has no mysql_install_db or mariadb-install-db in bin/ or scripts/")


async def _make_accounts(instance: Instance) -> None:
    """By --init-file at a first start: no moment at which root without a password can be reached over a port."""
    control = [f"'{CONTROL_USER}'@'{host}'" for host in ACCOUNT_HOSTS]
    load = [f"'{LOAD_USER}'@'{host}'" for host in ACCOUNT_HOSTS]
    statements = [f"CREATE USER {account}" for account in [*control, *load]]
    statements += [f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION" for account in control]
    statements += [f"GRANT ALL PRIVILEGES ON `sbtest`.* TO {account}" for account in load]
    statements += ["CREATE DATABASE IF NOT EXISTS `sbtest`"]
    await instance.start(before_passwords=statements)
    async with instance.control() as connection:
        keep = {CONTROL_USER, LOAD_USER, "mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"}
        for user, host in await connection.rows("SELECT User, Host FROM mysql.user"):
            if str(user) not in keep:
                await connection.rows(f"DROP USER '{user}'@'{host}'")
    warning = await instance.stop()
    if warning:
        raise ServerError(f"after initialisation: {warning}")
