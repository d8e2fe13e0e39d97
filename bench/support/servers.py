"""Private servers of a benchmark, by mydyno's own code: unpacked from packages, on loopback, unprivileged, removed."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import LOOPBACK, free_port
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Scalar, ServerSpec
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from mydyno.servers.memcached import MIB, MemcachedOptions
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.memcached import MemcachedServer
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials, PrivateServer
from mydyno.servers.templates import initialise
from support.programs import BenchError, Program, others, placement, say

Result = TypeVar("Result")
USER = "bench"
"""An account without a password: the bare epoll loop has no authentication. It has only the benchmark's databases."""
DATABASES = ("sbtest", r"dyno\_bench%")
VARIABLES: dict[str, Scalar] = {
    "innodb_buffer_pool_size": "1G",
    "innodb_log_file_size": "1G",
    "innodb_flush_log_at_trx_commit": 0,
    "max_connections": 12_000,
    "back_log": 1024,
    "table_open_cache": 4000,
    "max_prepared_stmt_count": 1_000_000,
}
MEMORY_FOLDER = Path("/dev/shm")
NEEDED_BYTES = 6 << 30
PREFIX = "mydyno-bench-"


@dataclass(frozen=True)
class Mariadb:
    """A running MariaDB, as the load programs reach it."""

    version: str
    host: str
    port: int
    socket: Path
    pid: int
    user: str
    folder: Path
    client: Program | None
    """The server's own client program, where the package has it."""

    @property
    def settings(self) -> str:
        """What it was started with, for the result."""
        words = ", ".join(f"{name}={value}" for name, value in VARIABLES.items())
        return f"{self.version} on {self.host}, data in {self.folder}, {words}"


class PrivateServers:
    """Starts servers for code that runs in another thread than the event loop; all of them end with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path, sockets: Path) -> None:
        self.paths = HostPaths.resolve()
        self.host = LocalHost(f"bench-{os.getpid()}", self.paths.server_user)
        self.folder = folder
        self._loop = loop
        self._sockets = sockets
        self._started: list[PrivateServer] = []
        self._number = 0

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def dynoload(self) -> Program:
        """The load engine that the bootstrap has built."""
        return Program.at(self.paths.program("dynoload"))

    def package(self, name: str, *paths: str, cwd: str = "") -> Program:
        """A program of a Debian package, unpacked in the cache; the first of the paths that is there."""
        packages = self._call(DebianPackages(self.paths.cache, self.host).get([name]))
        path = packages.find(*paths)
        folder = packages.find(cwd) if cwd else None
        return Program(path.name, (str(path),), f"{name} {packages.versions[name]}", folder, packages.environment)

    def mariadb(self, name: str = "mariadb-10.11") -> Mariadb:
        """A fresh server; it runs until the benchmark ends."""
        say(f"starting a private {name}")
        return self._call(self._start_mariadb(name))

    async def _build(self, name: str) -> ServerBuild:
        return await get_build(ServerSpec(name=name), self.paths.cache, self.host, say)

    def _settings(self) -> dict[str, Any]:
        self._number += 1
        folder = self.folder / str(self._number)
        return {
            "host": self.host,
            "folder": folder,
            "socket_folder": self._sockets,
            "log": self.folder / f"{self._number}.log",
            "credentials": Credentials(),
            "number": self._number,
        }

    async def _start_mariadb(self, name: str) -> Mariadb:
        build = await self._build(name)
        port = free_port()
        server = MysqldServer(
            build=build, settings=InstanceSettings(variables=dict(VARIABLES)), port=port, **self._settings()
        )
        server.own(self._sockets)
        await initialise(server)
        self._started.append(server)
        await server.start()
        others.servers.add(server.pid)
        placement.place(server.pid)
        async with server.control() as control:
            for account in (f"'{USER}'@'localhost'", f"'{USER}'@'{LOOPBACK}'"):
                await control.rows(f"CREATE USER {account}")
                await control.rows(f"GRANT PROCESS ON *.* TO {account}")
                for database in DATABASES:
                    await control.rows(f"GRANT ALL PRIVILEGES ON `{database}`.* TO {account}")
        client = next((path for path in (build.basedir / "bin").glob("mariadb") if path.is_file()), None)
        return Mariadb(
            version=f"{build.name} ({server.version.text})", host=LOOPBACK, port=port, socket=server.socket,
            pid=server.pid, user=USER, folder=server.folder,
            client=Program("mariadb", (str(client),), environment=build.environment) if client else None,
        )  # fmt: skip

    @contextmanager
    def memcached(self) -> Iterator[int]:
        """A fresh memcached with one thread and 1 GiB, stopped afterwards; its port."""
        server, port = self._call(self._start_memcached())
        try:
            yield port
        finally:
            self._started.remove(server)
            self._call(server.stop())

    async def _start_memcached(self) -> tuple[MemcachedServer, int]:
        options = MemcachedOptions(free_port(), memory_bytes=1024 * MIB, threads=1)
        settings = InstanceSettings(memcached=options)
        server = MemcachedServer(build=await self._build("memcached"), settings=settings, **self._settings())
        self._started.append(server)
        await server.start()
        others.servers.add(server.pid)
        placement.place(server.pid)
        return server, options.port

    def memcached_version(self) -> str:
        """The version of the memcached that is started."""
        return f"{self._call(self._build('memcached')).version.text}, 1 thread, 1 GiB"

    async def stop_all(self) -> None:
        """End every server that runs still."""
        for server in self._started:
            warning = await server.stop()
            if warning:
                say(warning)


@contextmanager
def private_folders() -> Iterator[tuple[Path, Path]]:
    """A folder for data, in memory where there is room, so that no disk is measured, and one with a short path for
    sockets (sun_path holds 108 bytes); removed afterwards."""
    has_memory = MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free >= NEEDED_BYTES
    parent = MEMORY_FOLDER if has_memory else HostPaths.resolve().data
    parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(parent).free < NEEDED_BYTES:
        raise BenchError(f"{parent} has less than {NEEDED_BYTES >> 30} GiB free")
    _remove_stale(parent)
    _remove_stale(Path(tempfile.gettempdir()))
    prefix = f"{PREFIX}{os.getpid()}-"
    folders = [Path(tempfile.mkdtemp(prefix=prefix, dir=place)) for place in (parent, None)]
    try:
        for folder in folders:
            folder.chmod(0o755)
        yield folders[0], folders[1]
    finally:
        for folder in folders:
            shutil.rmtree(folder)


def _remove_stale(parent: Path) -> None:
    """Folders of benchmarks that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)
