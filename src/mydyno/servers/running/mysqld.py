"""One private mysqld or mariadbd: its option file and accounts, its start, proved ready by SQL."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mydyno.errors import ServerError
from mydyno.hosts.quiet import Headway
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.memcached import MemcachedClient, numbers
from mydyno.servers.my_cnf import adapt_variables, my_cnf
from mydyno.servers.running.base import CONTROL_USER, LOAD_SCHEMA, LOAD_USER, in_list
from mydyno.servers.running.private import START_TIMEOUT_S, PrivateServer
from mydyno.servers.sql import Control
from mydyno.servers.statistics import tables_of

LOGGER = logging.getLogger("mydyno.servers")
ACCOUNT_HOSTS = ("localhost", "127.0.0.1")


class MysqldServer(PrivateServer):
    """One MySQL or MariaDB server of a run."""

    @property
    def command(self) -> list[str]:
        """The program with its option file, which alone configures it."""
        return [*self.build.command, f"--defaults-file={self.folder / 'my.cnf'}"]

    def probe_target(self) -> str:
        """The process, and its status by SQL."""
        return f"{self.number}:{self.pid},socket={in_list(self.socket)},user={CONTROL_USER}"

    async def start(self, before_passwords: Sequence[str] = ()) -> None:
        """Write my.cnf, start, wait until SQL works. Raises ServerError with the error log's tail."""
        self.make_folders("tmp", "data")
        self.own(self.socket.parent)
        init_file = self.folder / "init.sql"
        statements = [*before_passwords, *self._password_sql(), *self.settings.init_sql]
        self.write(init_file, "".join(f"{statement};\n" for statement in statements))
        base = adapt_variables(self.settings.base, self.build.version, self.build.variables)
        self.notes = tuple(base.notes)
        variables = {**base.variables, **self.settings.variables}
        text = my_cnf(self.build, self.folder, self.socket, self.port, variables, self.notes, init_file)
        self.write(self.folder / "my.cnf", text)
        began = time.monotonic()
        await self.launch([self.socket.parent])
        assert self.process is not None
        try:
            self.version = await self._wait_ready()
        except BaseException:
            await self.process.end(0.0)
            raise
        finally:
            init_file.unlink(missing_ok=True)  # it holds passwords
        self.start_s = time.monotonic() - began
        LOGGER.debug("%s of instance %d accepts SQL after %.2f s", self.version.name, self.number, self.start_s)

    async def _wait_ready(self) -> ServerVersion:
        """As long as it makes headway before it listens, as in a recovery; then for START_TIMEOUT_S."""
        assert self.process is not None
        headway = Headway(self.pid, START_TIMEOUT_S, self.say, f"waiting until {self.build.name} has started")
        began, last = time.monotonic(), "no answer yet"
        while not headway.ended(counts=not self.socket.exists()):
            if self.process.exit_code is not None:
                raise ServerError(f"{self.build.name} ended with exit code {self.process.exit_code}{self.log_tail()}")
            if self.socket.exists():
                try:
                    return await self._answer()
                except ServerError as error:
                    last = error.message
            await asyncio.sleep(0.05)
        took_s = time.monotonic() - began
        raise ServerError(f"{self.build.name} was not ready after {took_s:.0f} s: {last}{self.log_tail()}")

    async def _answer(self) -> ServerVersion:
        async with Control(self.address(), timeout_s=10) as control:
            version = ServerVersion.parse(str(await control.scalar("SELECT VERSION()")))
        if self.settings.memcached is not None:
            async with MemcachedClient(
                self.settings.memcached.listen, self.settings.memcached.port, timeout_s=10
            ) as client:
                await client.version()  # the plugin's port opens a moment after SQL's
        return version

    @asynccontextmanager
    async def relaxed_durability(self) -> AsyncIterator[None]:
        """InnoDB does not sync each commit meanwhile; the value from before is set again at the end."""
        async with self.control() as control:
            usual = int(await control.scalar("SELECT @@innodb_flush_log_at_trx_commit"))
            await control.rows("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
            try:
                yield
            finally:
                await control.rows(f"SET GLOBAL innodb_flush_log_at_trx_commit = {usual}")

    async def counters(self) -> dict[str, float]:
        """The server's own counters, and those of the memcached inside it as memcached_NAME."""
        found = await super().counters()
        if self.settings.memcached is not None:
            async with MemcachedClient(self.settings.memcached.listen, self.settings.memcached.port) as client:
                found |= numbers(await client.stats())
        return found

    async def record(self) -> ServerRecord:
        """What the server reports about itself by SQL."""
        async with self.control() as control:
            variables = await control.variables()
            tables = await tables_of(control, LOAD_SCHEMA)
        record = self.record_of(variables, variables.get("version_comment", ""))
        return record.model_copy(update={"tables": tables})

    def _password_sql(self) -> list[str]:
        passwords = ((CONTROL_USER, self.credentials.control), (LOAD_USER, self.credentials.load))
        statements = [
            self.build.version.set_password_sql(f"'{user}'@'{host}'", password)
            for user, password in passwords
            for host in ACCOUNT_HOSTS
        ]
        path = self.settings.client_path
        if path is not None and path.client_host not in ACCOUNT_HOSTS:
            account = f"'{LOAD_USER}'@'{path.client_host}'"
            statements += [
                f"CREATE USER {account}",
                f"GRANT ALL PRIVILEGES ON `sbtest`.* TO {account}",
                self.build.version.set_password_sql(account, self.credentials.load),
            ]
        return statements
