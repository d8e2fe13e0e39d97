"""A private native memcached: started, proved ready and stopped as a mysqld is; it keeps nothing on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from mydyno.errors import ServerError
from mydyno.hosts.ports import LOOPBACK, free_port
from mydyno.model.records import ServerRecord
from mydyno.servers.instance import START_TIMEOUT_S, Instance
from mydyno.servers.load_path import LoadPath
from mydyno.servers.memcached_options import MemcachedOptions
from mydyno.servers.memcached_protocol import MemcachedClient
from mydyno.servers.sql import Control
from mydyno.servers.version import ServerVersion


class MemcachedInstance(Instance):
    """One memcached of a run, at a free port of loopback, as the server's unprivileged user."""

    def control(self) -> Control:
        """Raises ServerError: there is no SQL to be had."""
        raise ServerError("memcached speaks no SQL", "ask it by its own protocol")

    async def start(self, before_passwords: Sequence[str] = ()) -> None:
        """Start and wait until it tells its version. Raises ServerError with the log's tail."""
        assert not before_passwords, "memcached has no accounts"
        self.own(self.folder)
        self.own(self.data)
        options = self.settings.memcached or MemcachedOptions(free_port())
        self.settings.memcached = options
        self.settings.load_path = LoadPath(LOOPBACK, options.port, LOOPBACK)
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = await self.host.start(
                [*self.build.command, *options.words],
                environment=self.environment,
                cwd=self.data,
                as_server=True,
                folders=[*self.build.folders, self.folder, *self.settings.folders],
                stdout=log.fileno(),
                entering=[word for wrapper in self.settings.wrappers for word in wrapper],
            )
        try:
            self.version = await self._answered(began + START_TIMEOUT_S)
        except BaseException:
            await self.process.end(0.0)
            raise
        self.start_s = time.monotonic() - began

    async def _answered(self, deadline: float) -> ServerVersion:
        assert self.process is not None
        assert self.settings.memcached is not None
        last = "no answer yet"
        while time.monotonic() < deadline:
            if self.process.exit_code is not None:
                raise ServerError(f"memcached ended with exit code {self.process.exit_code}{self.log_tail()}")
            try:
                async with MemcachedClient(LOOPBACK, self.settings.memcached.port, timeout_s=5) as client:
                    return ServerVersion.parse(f"memcached {await client.version()}")
            except ServerError as error:
                last = error.message
            await asyncio.sleep(0.02)
        raise ServerError(f"memcached was not ready after {START_TIMEOUT_S:.0f} s: {last}{self.log_tail()}")

    async def told_version(self) -> str:
        """What it tells by its protocol."""
        assert self.settings.memcached is not None
        async with MemcachedClient(LOOPBACK, self.settings.memcached.port) as client:
            return f"memcached {await client.version()}"

    async def sql_status(self) -> dict[str, float]:
        """Nothing: there is no SQL."""
        return {}

    async def record(self) -> ServerRecord:
        """What it tells of itself: `stats settings`, under memcached_NAME."""
        assert self.settings.memcached is not None
        async with MemcachedClient(LOOPBACK, self.settings.memcached.port) as client:
            told = await client.stats("settings")
        return ServerRecord(
            instance=self.number,
            place=self.place.number,
            version=self.version.text,
            flavour="memcached",
            binary=str(self.build.program),
            command=(*self.build.command, *self.settings.memcached.words),
            environment=self.environment,
            variables={f"memcached_{name}": value for name, value in told.items()},
            pid=self.pid,
            start_s=round(self.start_s, 3),
        )
