"""An external server, named by a DSN: nothing is started, stopped or configured, and written only when allowed.

The password comes from the environment variable MYDYNO_DSN_PASSWORD, so that it is in no file and on no command line.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import DataSpec
from mydyno.model.records import ServerRecord
from mydyno.servers.instance import LOAD_USER, InstanceSettings
from mydyno.servers.load_path import LoadPath
from mydyno.servers.sql import Address, Control
from mydyno.servers.version import ServerVersion

PASSWORD_VARIABLE = "MYDYNO_DSN_PASSWORD"
MARKER = "mydyno_made"
"""A table that mydyno puts into a schema that it filled; only such a schema, or an empty one, is ever written to."""


def parse_dsn(dsn: str) -> Address:
    """From mysql://user@host:3306/schema, or mysql://user@/schema?socket=/path. Raises UserError."""
    parts = urlsplit(dsn)
    form = "mysql://user@host:3306/schema or mysql://user@localhost/schema?socket=/path/mysqld.sock"
    if parts.scheme not in ("mysql", "mariadb"):
        raise UserError(f"server.dsn: the scheme is {parts.scheme or 'missing'!r}", f"say {form}")
    if parts.password is not None:
        raise UserError(
            "server.dsn holds a password, which would be kept in every study",
            f"leave it out and set the environment variable {PASSWORD_VARIABLE}",
        )
    schema = parts.path.strip("/")
    if not parts.username or not schema:
        raise UserError(f"server.dsn: {'user' if not parts.username else 'schema'} is missing", f"say {form}")
    query = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    if set(query) - {"socket"}:
        raise UserError(f"server.dsn: unknown option {', '.join(set(query) - {'socket'})}", "known: socket")
    try:
        port = parts.port or 3306
    except ValueError:
        raise UserError(f"server.dsn: no such port in {parts.netloc.rpartition('@')[2]}", f"say {form}") from None
    return Address(
        user=unquote(parts.username),
        password=os.environ.get(PASSWORD_VARIABLE, ""),
        socket=unquote(query["socket"]) if "socket" in query else None,
        host=parts.hostname or "127.0.0.1",
        port=port,
        database=schema,
    )


class ExternalInstance:
    """Stands where servers.instance.Instance stands, for a server that is not ours."""

    process = None
    number = 1
    pid = 0
    """Unknown: no process of this host is sampled as the server's."""

    def __init__(self, address: Address, folder: Path, host: LocalHost, undo: UndoJournal, card: str | None) -> None:
        self._address = address
        self.host = host
        self.undo = undo
        self.card = card
        """This host's interface that leads there, whose speed treatments may set; None: none was named."""
        self.folder = folder
        self.data = folder
        self.settings = InstanceSettings()
        self.socket = address.socket

    def address(self, user: str = "", database: str = "") -> Address:  # noqa: ARG002 - there is one account
        """How to reach it: as the load, where a treatment says what is spoken on its path."""
        path = self.settings.load_path
        if user == LOAD_USER and path is not None:
            return path.address(self._address.user, self._address.password, self._address.database)
        return self._address

    def own_path(self) -> LoadPath:
        """The way that the DSN names, to be told what is spoken on it."""
        return LoadPath(self._address.host, self._address.port, "")

    def control(self) -> Control:
        """A control connection; use with `async with`."""
        return Control(self._address)

    async def start(self) -> None:
        """It runs already; whether it does shows at the first statement."""

    async def stop(self) -> str | None:
        """It is not ours to stop."""
        return None

    async def record(self) -> ServerRecord:
        """What the server tells of itself by SQL."""
        async with self.control() as control:
            version = ServerVersion.parse(str(await control.scalar("SELECT VERSION()")))
            variables = await control.variables()
        return ServerRecord(
            version=version.text,
            version_comment=variables.get("version_comment", ""),
            flavour=version.flavour,
            variables=variables,
        )

    async def counters(self) -> dict[str, float]:
        """The server's own counters."""
        async with self.control() as control:
            return await control.status()

    def log_tail(self) -> str:
        """Its error log is not ours to read."""
        return ""


async def check_data(address: Address, data: DataSpec, writes: bool, allow_writes: bool) -> bool:
    """Whether the data must be prepared. Raises UserError where that, or the load, would write without leave.

    `writes`: the load itself writes.
    """
    async with Control(address) as control:
        found = await control.rows(
            "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", address.database
        )
        tables = {str(name): int(rows or 0) for name, rows in found}
        wanted = {f"sbtest{number}" for number in range(1, data.tables + 1)}
        ours = MARKER in tables
        missing = sorted(wanted - set(tables), key=lambda name: int(name.removeprefix("sbtest")))
        if (missing or writes) and not allow_writes:
            why = f"{address.database} lacks {missing[0]}" if missing else "the load writes"
            raise UserError(
                f"server.dsn: {why}, and an external server is not written to without leave",
                "--allow-writes, with an empty schema; or prepare the tables yourself and ask a read-only workload",
            )
        if (missing or writes) and tables and not ours:
            raise UserError(
                f"server.dsn: schema {address.database} holds {len(tables)} tables that mydyno did not make",
                "name an empty schema: mydyno never writes beside other people's tables",
            )
        for name in sorted(wanted - set(missing)):
            rows = await control.scalar(f"SELECT COUNT(*) FROM `{name}`")
            if int(rows) < data.rows:
                raise UserError(f"server.dsn: {name} has {rows} rows, data.rows asks for {data.rows}")
    return bool(missing)


async def mark_as_made(address: Address) -> None:
    """Leave the marker table, before the first row is written."""
    async with Control(address) as control:
        await control.rows(f"CREATE TABLE IF NOT EXISTS `{MARKER}` (made_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)")
