"""An external server, named by a DSN: nothing is started, stopped or configured, and written only when allowed; and its
data: whether they are those of the experiment, and whether mydyno may write them.

sysbench's tables as they are on a server, compared with those of an experiment: how they are stored, what works on
each change of a row, rows, keys, indexes, text.

The data are restored, and the server is restarted, by commands of the user, here or on the server's host. A command's
whole output is kept in the run's folder (hooks.log). A command that fails, or a server that does not answer, ends the
study: every further run would meet the same. That a restart was one is read from the server's Uptime.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mydyno.errors import HostError, ServerError, UserError
from mydyno.hosts.commands import report_start
from mydyno.hosts.local import Completed, LocalHost
from mydyno.model.definition.experiment import DataSpec, HooksSpec
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.running.base import CONTROL_USER, LOAD_USER, ClientPath, RunningServer, in_list
from mydyno.servers.sql import Address, ClientTls, Control
from mydyno.servers.statistics import tables_of

MARKER = "mydyno_made"
"""A table that mydyno puts into a schema that it filled; only such a schema, or an empty one, is ever written to."""

_OF_A_TABLE = ("rows", "text", "secondary", "auto_inc")
"""The keys of data that each table of oltp depends on."""
COLUMNS = {"id": "int", "k": "int", "c": "char(120)", "pad": "char(60)"}
"""The columns of sysbench's tables and their types; none may be NULL."""
LOG = "hooks.log"
SHOWN_CHARACTERS = 500
UPTIME_SLACK_S = 2.0
"""Uptime counts whole seconds."""


class Missing(Enum):
    """What is missing of the data."""

    NOTHING = "nothing"
    REST = "rest"
    """A preparation was interrupted, or there are to be more tables."""
    ALL = "all"


@dataclass(frozen=True)
class _Marker:
    shape: dict[str, Any] | None
    """The data that were prepared; None: the preparation ended before it was recorded."""
    complete: bool


async def missing_file(address: Address, name: str, shape: Mapping[str, Any], *, allow_writes: bool) -> Missing:
    """Whether the data of a file must be loaded: all or nothing. Raises as missing_data() does.

    `shape`: what tells the file and its options from others.
    """
    async with Control(address, unbounded=True) as control:
        found = await control.rows(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", address.database
        )
        marker = await _marker(control) if (MARKER,) in found else None
    if not found and not allow_writes:
        raise UserError(
            f"server.dsn: {address.database} is empty, and the data of {name} are not loaded without permission "
            "(--allow-writes)",
            "add --allow-writes, or omit data.sql to use the tables of another schema as they are",
        )
    if not found:
        return Missing.ALL
    if marker is None:
        raise UserError(
            f"server.dsn: schema {address.database} contains {len(found)} tables that mydyno did not create, or not "
            f"completely; the data of {name} are loaded into an empty schema only",
            "omit data.sql to use the tables as they are, or use an empty schema",
        )
    if marker.shape != shape:
        raise HostError(
            f"server.dsn: the tables in {address.database} were not made from {name} as it is now",
            f"drop the tables (all of {address.database}, {MARKER} too) to have them loaded again",
        )
    return Missing.NOTHING


async def missing_data(address: Address, data: DataSpec, *, load_writes: bool, allow_writes: bool) -> Missing:
    """What must be prepared. Raises UserError if that, or the load, would write without permission.

    `load_writes`: whether the load itself writes; `allow_writes`: whether --allow-writes was given. Raises HostError,
    with what differs, if the tables that are there are not those of the experiment.
    """
    async with Control(address, unbounded=True) as control:
        found = await control.rows(
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", address.database
        )
        tables = {str(name): str(kind) for name, kind in found}
        marker = await _marker(control) if MARKER in tables else None
        wanted = [f"sbtest{number}" for number in range(1, data.tables + 1)]
        check_tables(address.database, tables, wanted)
        missing = [name for name in wanted if name not in tables]
        interrupted = marker is not None and not marker.complete
        reason = (
            f"the preparation of {address.database} was interrupted" if interrupted
            else f"{address.database} lacks {missing[0]}" if missing
            else "the load writes" if load_writes
            else ""
        )  # fmt: skip
        if reason and not allow_writes:
            raise UserError(
                f"server.dsn: {reason}, and an external server is not written to without permission (--allow-writes)",
                "--allow-writes, with an empty schema; or prepare the tables yourself and run a read-only workload",
            )
        if reason and tables and marker is None:
            raise UserError(
                f"server.dsn: schema {address.database} contains {len(tables)} tables that mydyno did not create",
                "use an empty schema: mydyno does not write to a schema with other tables",
            )
        differences = [] if marker is None else _differences_of_shapes(marker, data)
        if not differences and not interrupted:
            differences = await differences_of_tables(control, [name for name in wanted if name in tables], data)
        if differences:
            raise HostError(
                f"server.dsn: the tables in {address.database} are not those of this experiment: "
                + "; ".join(differences),
                f"change data, or drop the tables (all of {address.database}, {MARKER} too) to have them prepared again"
                if marker is not None
                else "change data, or the tables",
            )
    if interrupted or (missing and len(missing) < len(wanted)):
        return Missing.REST
    return Missing.ALL if missing else Missing.NOTHING


def check_tables(schema: str, kinds: Mapping[str, str], wanted: Sequence[str]) -> None:
    """Raise UserError for a view of one of these names; `kinds` is what TABLE_TYPE says of what is there."""
    for name in (MARKER, *wanted):
        if (kind := kinds.get(name, "BASE TABLE")) != "BASE TABLE":
            raise UserError(
                f"server.dsn: {name} in {schema} is a {kind.lower()}, not a table", "drop it, or use another schema"
            )


async def _marker(control: Control) -> _Marker:
    rows = await control.rows(f"SELECT shape, complete FROM `{MARKER}`")
    # Without its row, the preparation ended between two statements.
    return _Marker(json.loads(rows[0][0]), bool(rows[0][1])) if rows else _Marker(None, complete=False)


def shape_of(data: DataSpec) -> dict[str, Any]:
    """What each of sysbench's tables depends on, and how many there are."""
    return data.model_dump(mode="json", include={"tables", *_OF_A_TABLE})


def _differences_of_shapes(marker: _Marker, data: DataSpec) -> list[str]:
    wanted = shape_of(data)
    made = wanted if marker.shape is None else marker.shape
    return [
        f"data.{key} was {json.dumps(made.get(key))} when they were prepared, and is {json.dumps(wanted[key])}"
        for key in _OF_A_TABLE
        if made.get(key) != wanted[key]
    ]


async def mark_as_begun(address: Address, shape: Mapping[str, Any]) -> None:
    """Create the marker table, before the first row of sysbench's tables is written.

    It has a primary key: Group Replication, Galera and sql_require_primary_key demand one.
    """
    async with Control(address) as control:
        await control.rows(
            f"CREATE TABLE IF NOT EXISTS `{MARKER}` "
            "(made_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, shape TEXT, complete INT, "
            "id INT NOT NULL DEFAULT 1 PRIMARY KEY)"
        )
        await control.rows(f"DELETE FROM `{MARKER}`")
        await control.rows(f"INSERT INTO `{MARKER}` (shape, complete) VALUES (%s, 0)", json.dumps(shape))


async def mark_as_complete(address: Address) -> None:
    """After the last row and index."""
    async with Control(address) as control:
        await control.rows(f"UPDATE `{MARKER}` SET complete = 1")


async def differences_of_tables(control: Control, names: Sequence[str], data: DataSpec) -> list[str]:
    """What the named tables (sbtest1, …) have that `data` does not say, of the first table that differs.

    Any seed will do, and more rows than `data` has: a load inserts some.
    """
    for name in names:
        if found := await _differences_of_storage(control, name):
            return found
        if found := await _differences_of_columns(control, name):
            return found
        rows = int(await control.scalar(f"SELECT COUNT(*) FROM `{name}`"))
        found = [] if rows >= data.rows else [f"{name} has {rows} rows, data.rows is {data.rows}"]
        found += await _differences_of_keys(control, name, data)
        text = await control.scalar(f"SELECT c FROM `{name}` ORDER BY id LIMIT 1")
        if text is not None and text_kind(str(text)) != data.text:
            found.append(f"the text of {name} is {text_kind(str(text))}, data.text is {data.text}")
        if found:
            return found
    return []


async def _differences_of_storage(control: Control, name: str) -> list[str]:
    """What a prepared table has not: another engine, partitions, another row format, triggers, …"""
    here = "TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
    rows = await control.rows(
        f"SELECT TABLE_TYPE, ENGINE, CREATE_OPTIONS, TABLE_COLLATION FROM information_schema.TABLES WHERE {here}", name
    )
    kind, engine, options, collation = ("" if one is None else str(one) for one in rows[0])
    if kind != "BASE TABLE":
        return [f"{name} is a {kind.lower()}, not a table"]
    found = [] if engine == "InnoDB" else [f"{name} is a table of the engine {engine}, not of InnoDB"]
    found += [f"{name} is made with {option}" for option in options.split() if not option.startswith("stats_")]
    usual = await control.scalar(
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE()"
    )
    if collation != str(usual):
        found.append(f"the collation of {name} is {collation}, the schema's is {usual}")
    for table, where, what in (
        ("TRIGGERS", "EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = %s", "triggers"),
        ("TABLE_CONSTRAINTS", "TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND CONSTRAINT_TYPE = 'CHECK'",
         "CHECK constraints"),
        ("REFERENTIAL_CONSTRAINTS", "CONSTRAINT_SCHEMA = DATABASE() AND %s IN (TABLE_NAME, REFERENCED_TABLE_NAME)",
         "foreign keys"),
    ):  # fmt: skip
        if count := int(await control.scalar(f"SELECT COUNT(*) FROM information_schema.{table} WHERE {where}", name)):
            found.append(f"{name} has {what} ({count})")
    return found


async def _differences_of_columns(control: Control, name: str) -> list[str]:
    """Columns that are missing, of another type or collation, computed, or not sysbench's."""
    rows = await control.rows(
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, C.COLLATION_NAME, TABLE_COLLATION "
        "FROM information_schema.COLUMNS C JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME) "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
        name,
    )
    found: list[str] = []
    for row in rows:
        column, kind, nullable, extra, collation, of_table = ("" if one is None else str(one) for one in row)
        # A server before 8.0.19 writes a display width: int(11).
        kind = re.sub(r"^int\(\d+\)", "int", kind) + (" NULL" if nullable == "YES" else "")
        wanted = COLUMNS.get(column)
        if wanted is None:
            found.append(f"{name} has the column {column} besides")
        elif kind != wanted:
            found.append(f"{name}.{column} is {kind}, not {wanted}")
        elif collation not in ("", of_table):
            found.append(f"the collation of {name}.{column} is {collation}, the table's is {of_table}")
        elif extra not in ("", "auto_increment"):
            found.append(f"{name}.{column} is {extra}")
    there = {str(row[0]) for row in rows}
    return [f"{name} has no column {column}" for column in COLUMNS if column not in there] + found


async def _differences_of_keys(control: Control, name: str, data: DataSpec) -> list[str]:
    by_index: dict[str, list[str]] = {}
    for row in await control.rows(f"SHOW INDEX FROM `{name}`"):
        by_index.setdefault(str(row[2]), []).append(str(row[4]))
        # The last columns are Visible and Expression (MySQL 8.0), or Ignored (MariaDB 10.6).
        if row[13:14] == (("NO",) if len(row) > 14 else ("YES",)):
            return [f"the index {row[2]} of {name} is not used by the optimizer"]
    found = {f"{'primary key' if index == 'PRIMARY' else 'index'} ({', '.join(columns)})"
             for index, columns in by_index.items()}  # fmt: skip
    wanted = {"index (id)" if data.secondary else "primary key (id)", "index (k)"}
    extra = [str(row[5]) for row in await control.rows(f"SHOW COLUMNS FROM `{name}` LIKE 'id'")]
    differences = [f"{name} has no {one}" for one in sorted(wanted - found)]
    differences += [f"{name} has the {one} besides" for one in sorted(found - wanted)]
    if ("auto_increment" in extra) != data.auto_inc:
        differences.append(
            f"{name}.id is {'not ' if data.auto_inc else ''}AUTO_INCREMENT, data.auto_inc is "
            f"{str(data.auto_inc).lower()}"
        )
    return differences


def text_kind(text: str) -> str:
    """digits, words or random: which of data.text a row's c is."""
    if re.fullmatch(r"[0-9-]*", text):
        return "digits"
    return "words" if " " in text else "random"


class Runner(Protocol):
    """The host on which commands run."""

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command to its end; exit code 124: it took too long."""


class UserCommands:
    """Commands of the user on this host: a server that they start is the user's, and is left alone at the end."""

    async def run(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Run a command until it ends itself, whatever programs it leaves."""
        started = report_start(argv)
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                code = 124
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            started.ended(code)
            output.seek(0)
            return Completed(tuple(argv), code, output.read().decode(errors="replace"))


@dataclass(frozen=True)
class ExternalHooks:
    """The hooks of a study."""

    spec: HooksSpec
    host: Runner
    where: str
    """Where the commands run, for messages: "this host" or user@host."""
    address: Address
    poll_s: float = 0.2

    async def before_run(self, folder: Path) -> None:
        """Restore, then restart. Raises HostError with the command and the end of its output."""
        if self.spec.restore is not None:
            await self._command("restore", self.spec.restore, folder)
        if self.spec.restart is not None:
            began_s = time.monotonic()
            await self._command("restart", self.spec.restart, folder)
            await self._await_new_server(began_s)

    async def _command(self, name: str, command: str, folder: Path) -> None:
        began_s, done = time.monotonic(), None
        running = asyncio.ensure_future(self.host.run(["sh", "-c", command], timeout_s=self.spec.timeout))
        try:
            done = await asyncio.shield(running)
        except asyncio.CancelledError:
            # Half of a restore would leave the user's server without its data; a second interruption ends it.
            done = await running
            raise
        finally:
            took_s = time.monotonic() - began_s
            with (folder / LOG).open("a") as log:
                log.write(f"== {name} on {self.where}: {command}\n")
                log.write(
                    f"{done.output}\n== exit code {done.exit_code}" if done else "== ended before it was finished"
                )
                log.write(f" after {took_s:.1f} s\n")
        if done.exit_code == 124 and took_s >= self.spec.timeout:
            raise HostError(
                f"server.hooks.{name} was not finished after {self.spec.timeout:g} s on {self.where}: {command}",
                "raise server.hooks.timeout, or see why it waits",
            )
        if done.exit_code:
            words = done.output.strip()[-SHOWN_CHARACTERS:] or "it printed nothing"
            raise HostError(
                f"server.hooks.{name} failed with exit code {done.exit_code} on {self.where}: {command}\n  {words}",
                f"its whole output is in {folder / LOG}",
            )

    async def _await_new_server(self, began_s: float) -> None:
        """The former one may answer for a while: a command may only order the restart."""
        deadline_s = time.monotonic() + self.spec.timeout
        while True:
            try:
                uptime_s = await self._uptime_s()
                since_s = time.monotonic() - began_s
                if uptime_s <= since_s + UPTIME_SLACK_S:
                    return
                last = HostError(
                    f"server.hooks.restart did not restart the server: it has been up for {uptime_s:.0f} s, the "
                    f"command began {since_s:.0f} s ago",
                    "is it the server of server.dsn that the command restarts?",
                )
            except ServerError as error:
                last = HostError(
                    f"the server does not answer {self.spec.timeout:g} s after server.hooks.restart: {error.message}",
                    "see its error log on its host",
                )
            if time.monotonic() > deadline_s:
                raise last
            await asyncio.sleep(self.poll_s)

    async def _uptime_s(self) -> float:
        """Raises ServerError while it is down."""
        async with Control(self.address, timeout_s=10) as control:
            return float((await control.status()).get("Uptime", 0.0))


class ExternalServer(RunningServer):
    """The server of a study with server.dsn; its settings carry the load's path and nothing else."""

    is_private: ClassVar[bool] = False

    def __init__(
        self,
        addresses: Sequence[Address],
        host: LocalHost,
        folder: Path,
        log: Path,
        card: str | None = None,
        number: int = 1,
    ) -> None:
        """`addresses`: of the arm's servers, of which this is the one of its build_number. `card`: this host's
        interface that leads there, whose speed treatments may set; None: none was named.
        """
        super().__init__(host, folder, log, number=number)
        self._addresses = addresses
        self.card = card

    @property
    def _address(self) -> Address:
        return self._addresses[(self.build_number - 1) % len(self._addresses)]

    @property
    def data(self) -> Path:
        """A folder of this host: the server's own data directory is on its host."""
        return self.folder

    @property
    def pid(self) -> int:
        """0: no process of this host is sampled as the server's."""
        return 0

    def address(self, user: str = CONTROL_USER, database: str = "") -> Address:  # noqa: ARG002 - there is one account
        """The DSN's; for the load with the TLS that a load has, or what a treatment has set for its path."""
        if user != LOAD_USER:
            return self._address
        if self.settings.client_path is None:
            return replace(self._address, tls=self._tls.of_load)
        return self.settings.client_path.address(self._address.user, self._address.password, self._address.database)

    @property
    def _tls(self) -> ClientTls:
        return self._address.tls or ClientTls()

    def ensure_client_path(self) -> ClientPath:
        """The DSN's host, port and TLS, which treatments change; they add compression."""
        if self.settings.client_path is None:
            tls = self._tls.of_load
            self.settings.client_path = ClientPath(self._address.host, self._address.port, "", tls=tls)
        return self.settings.client_path

    async def start(self) -> None:
        """Nothing: it runs already; the first statement shows whether it does."""

    async def stop(self) -> str | None:
        """It is not stopped."""
        return None

    async def prewarm(self, statements: Sequence[str]) -> None:
        """Nothing: an external server is not prewarmed."""

    async def record(self) -> ServerRecord:
        """What the server reports about itself by SQL."""
        version = ServerVersion.parse(await self.reported_version())
        async with self.control() as control:
            variables = await control.variables()
            tables = await tables_of(control, self._address.database) if self._address.database else None
        return ServerRecord(
            tables=tables,
            version=version.text,
            version_comment=variables.get("version_comment", ""),
            flavour=version.flavour,
            variables=variables,
        )

    def probe_target(self) -> str:
        """Its status by SQL; no process."""
        address = self._address
        tls = self._tls
        named = {
            **({"socket": address.socket} if address.socket else {"host": address.host, "port": address.port}),
            "user": address.user,
            "ssl-mode": tls.mode,
            "ssl-ca": tls.authority,
            "ssl-cert": tls.certificate,
            "ssl-key": tls.key,
        }
        return ",".join([f"{self.number}:-", *(f"{key}={in_list(value)}" for key, value in named.items() if value)])
