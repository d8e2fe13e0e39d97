"""A private native memcached: started, proved ready and stopped as a mysqld is; it keeps nothing on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar

from mydyno.errors import ServerError
from mydyno.hosts.network.ports import free_port
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.memcached import MemcachedClient, MemcachedOptions, numbers
from mydyno.servers.running.base import ClientPath
from mydyno.servers.running.private import START_TIMEOUT_S, PrivateServer


class MemcachedServer(PrivateServer):
    """One memcached of a run, at a free port of `listen`, as the server's unprivileged user."""

    has_sql: ClassVar[bool] = False
    version_command: ClassVar[str] = "version"

    @property
    def options(self) -> MemcachedOptions:
        """Its options: a treatment's, or the defaults at a free port."""
        if self.settings.memcached is None:
            self.settings.memcached = MemcachedOptions(free_port(self.listen), listen=self.listen)
        return self.settings.memcached

    @property
    def command(self) -> list[str]:
        """The program with its options."""
        return [*self.build.command, *self.options.words]

    def probe_target(self) -> str:
        """The process alone: there is no SQL."""
        return f"{self.number}:{self.pid}"

    async def start(self) -> None:
        """Start and wait until it reports its version. Raises ServerError with the log's tail."""
        self.make_folders("data")
        self.settings.client_path = ClientPath(self.listen, self.options.port, self.listen)
        began = time.monotonic()
        await self.launch([])
        assert self.process is not None
        try:
            self.version = await self._wait_ready(began + START_TIMEOUT_S)
        except BaseException:
            await self.process.end(0.0)
            raise
        self.start_s = time.monotonic() - began

    async def _wait_ready(self, deadline: float) -> ServerVersion:
        assert self.process is not None
        last = "no answer yet"
        while time.monotonic() < deadline:
            if self.process.exit_code is not None:
                raise ServerError(f"memcached ended with exit code {self.process.exit_code}{self.log_tail()}")
            try:
                async with self._client(timeout_s=5) as client:
                    return ServerVersion.parse(f"memcached {await client.version()}")
            except ServerError as error:
                last = error.message
            await asyncio.sleep(0.02)
        raise ServerError(f"memcached was not ready after {START_TIMEOUT_S:.0f} s: {last}{self.log_tail()}")

    def _client(self, timeout_s: float = 30.0) -> MemcachedClient:
        return MemcachedClient(self.options.listen, self.options.port, timeout_s)

    async def prewarm(self, statements: Sequence[str]) -> None:
        """Nothing: what it has is in memory."""

    async def reported_version(self) -> str:
        """The version that it reports by its own protocol."""
        async with self._client() as client:
            return f"memcached {await client.version()}"

    async def counters(self) -> dict[str, float]:
        """Its statistics as memcached_NAME."""
        async with self._client() as client:
            return numbers(await client.stats())

    async def record(self) -> ServerRecord:
        """What it reports about itself: `stats settings`, as memcached_NAME."""
        async with self._client() as client:
            settings = await client.stats("settings")
        return self.record_of({f"memcached_{name}": value for name, value in settings.items()})
