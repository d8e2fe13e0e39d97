"""The control connection: SQL sent by mydyno itself, never the load. PyMySQL in a thread."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Self

import pymysql
import pymysql.cursors
from pymysql.constants import COMMAND, CR

from mydyno.errors import HostError, ServerError

TlsMode = Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"]
Rows = Callable[[str], list[tuple[Any, ...]]]
"""Executes a statement."""
THIS_SERVER = "SELECT CONCAT(@@hostname, ':', @@port, ', server_id ', @@server_id)"
"""Which server a session is of, where its address may lead to several."""


@dataclass(frozen=True)
class ClientTls:
    """The TLS options of a client."""

    mode: TlsMode = "disabled"
    authority: Path | None = None
    """PEM file of the authority to trust."""
    versions: tuple[str, ...] = ()
    """Allowed protocol versions, e.g. ("1.3",); empty: all."""
    ciphers: tuple[str, ...] = ()
    """Allowed suites by OpenSSL's names; empty: all."""
    resumption: bool = True
    certificate: Path | None = None
    """PEM file of the client's own certificate."""
    key: Path | None = None
    """PEM file of its private key."""

    @property
    def of_load(self) -> ClientTls | None:
        """For a load, which is never left to choose: None where TLS is only preferred, or disabled."""
        return None if self.mode in ("disabled", "preferred") else self


@dataclass(frozen=True)
class Address:
    """Where a server listens, and the account; the password is never printed."""

    user: str
    password: bytes = field(repr=False)
    socket: str | None = None
    host: str = "127.0.0.1"
    port: int = 3306
    database: str = ""
    namespace: Path | None = None
    """The network namespace that it is reached from; None: mydyno's own."""
    tls: ClientTls | None = None
    """The TLS options of the client; None: the client's own default (control connections over TCP: preferred, drivers:
    none).
    """
    compression: str = "off"
    """Compression of the protocol: off, zlib or zstd, with a level as in zstd:3."""
    cpus: tuple[int, ...] = ()
    """The CPUs of a program that connects; empty: all."""

    @property
    def entering(self) -> list[str]:
        """The command that enters the namespace and the CPUs and executes what follows; empty if there are none."""
        cpus = ["taskset", "--cpu-list", ",".join(map(str, self.cpus))] if self.cpus else []
        return cpus + ([] if self.namespace is None else ["nsenter", f"--net={self.namespace}", "--"])


MOST_ANSWER_BYTES = 64 << 20
"""Of one control statement, with READ_BYTES for what Python keeps of each packet's header and content beside them."""
READ_BYTES = 50
MOST_WORDS = 2048
"""Characters of a server's error: several times MYSQL_ERRMSG_SIZE."""


def _close_late(connecting: asyncio.Future[pymysql.connections.Connection[pymysql.cursors.Cursor]]) -> None:
    """Close a connection that was made after its user had been cancelled."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""For sockets with SO_KEEPALIVE, as PyMySQL makes them: a host that is silent for a minute is lost."""
SESSION_STATE = (
    "SET SESSION completion_type = 0, sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', "
    "sql_select_limit = 18446744073709551615, wait_timeout = 2147483 "
    "/*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */"
)
"""What control sessions do does not depend on the server's global values. The comments are executed by the versions of
MariaDB and MySQL that limit a statement's time."""
PLUGINS = ("mysql_native_password", "caching_sha2_password")
"""The authentication plug-ins that all parts of mydyno have: PyMySQL, dynoload, dynoprobe."""


def unix_stream(path: str, timeout_s: float) -> socket.socket:
    """A connected Unix socket; OSError closes it, which PyMySQL 2.2 leaves to the garbage collector."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.settimeout(timeout_s)
        found.connect(path)
    except BaseException:
        found.close()
        raise
    return found


class _Connection(pymysql.connections.Connection):
    """PyMySQL's, for accounts with PLUGINS: with others it fails in many ways, or sends the password in clear.

    An answer is bounded: PyMySQL keeps all rows, and a hostile server's have no end.
    """

    _answer_bytes = 0

    def _execute_command(self, command: int, sql: Any) -> None:
        self._answer_bytes = 0
        super()._execute_command(command, sql)  # type: ignore[misc]  # not in the stubs

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._answer_bytes += num_bytes + READ_BYTES
        if self._answer_bytes > MOST_ANSWER_BYTES:
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.err.OperationalError(CR.CR_NET_PACKET_TOO_LARGE, "an answer of more than 64 MiB")
        found: bytes = super()._read_bytes(num_bytes)  # type: ignore[misc]
        return found

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        name = plugin_name.decode(errors="backslashreplace")
        if name not in PLUGINS:
            raise HostError(
                f"the account uses the authentication plug-in {name}, which mydyno does not have",
                f"use an account with {' or '.join(PLUGINS)}",
            )
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]  # not in the stubs


class Control:
    """One connection for control statements. Use as an async context manager."""

    def __init__(self, address: Address, timeout_s: float = 30.0, plain: bool = False, unbounded: bool = False) -> None:
        """`plain`: without TLS, also over TCP. `unbounded`: a statement takes as long as its tables need; a server that
        was lost is noticed by keep-alive, and a statement whose caller was cancelled is killed.
        """
        self._address = address
        self._timeout_s = timeout_s
        self._plain = plain
        self._unbounded = unbounded
        self._connection: pymysql.connections.Connection[pymysql.cursors.Cursor] | None = None
        self._columns: tuple[str, ...] = ()
        self._turn = Lock()
        """A statement whose caller was cancelled still runs."""

    async def __aenter__(self) -> Self:
        connecting = asyncio.ensure_future(asyncio.to_thread(self._connect))
        try:
            self._connection = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_late)  # the thread continues, and nothing else would close it
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await asyncio.to_thread(self._close)

    def _connect(self) -> pymysql.connections.Connection[pymysql.cursors.Cursor]:
        path = self._address.socket
        try:
            connection: Any = _Connection(
                user=self._address.user,
                password=self._address.password,
                host=self._address.host,
                port=self._address.port,
                database=self._address.database or None,
                connect_timeout=int(self._timeout_s),
                read_timeout=self._timeout_s,
                charset="utf8",
                autocommit=True,
                init_command=SESSION_STATE,
                defer_connect=True,
                **self._tls(),
            )
            connection._ssl_required = connection.ssl and self._mode != "preferred"
            if path is not None:
                connection._secure = True  # as PyMySQL sets it for its own Unix sockets: passwords may go in clear
                connection.connect(unix_stream(path, self._timeout_s))
            else:
                connection.connect()
                for option, value in _KEEP_ALIVE:
                    connection._sock.setsockopt(socket.IPPROTO_TCP, option, value)
            if self._unbounded:
                connection._read_timeout = None
        except (pymysql.MySQLError, OSError) as error:
            raise ServerError(f"control connection: {_words(error)}") from error
        except (AssertionError, IndexError, TypeError, ValueError, struct.error) as error:
            raise ServerError(f"control connection: no MySQL or MariaDB server answers there ({error})") from error
        return connection  # type: ignore[no-any-return]  # Any for the private names above

    @property
    def _mode(self) -> TlsMode:
        return self._address.tls.mode if self._address.tls is not None else "preferred"

    def _tls(self) -> dict[str, Any]:
        """PyMySQL's arguments."""
        mode, tls = self._mode, self._address.tls or ClientTls()
        # A Unix socket needs none, and mydyno's own sessions must not be counted among the load's.
        if self._plain or mode == "disabled" or (mode == "preferred" and self._address.socket is not None):
            return {"ssl_disabled": True}
        return {
            "ssl_verify_cert": mode.startswith("verify"),
            "ssl_verify_identity": mode == "verify_identity",
            **{
                option: str(path)
                for option, path in (("ssl_ca", tls.authority), ("ssl_cert", tls.certificate), ("ssl_key", tls.key))
                if path is not None
            },
        }

    def _close(self) -> None:
        assert self._connection is not None
        try:
            self._connection.close()
        except pymysql.MySQLError:
            return  # the server has gone before us

    async def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """All rows of one statement. Raises ServerError with the statement and the server's message."""
        running = asyncio.ensure_future(asyncio.to_thread(self._rows, sql, arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._unbounded:
                await asyncio.to_thread(self._kill)
                await asyncio.wait([running], timeout=self._timeout_s)
            raise

    def _rows(self, sql: str, arguments: Sequence[object]) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        try:
            with self._turn, self._connection.cursor() as cursor:
                cursor.execute(sql, arguments or None)
                self._columns = tuple(column[0] for column in cursor.description or ())
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            if isinstance(error.__context__, TimeoutError):
                self._kill()
            raise ServerError(f"{sql.partition(' IDENTIFIED')[0][:120]}: {_words(error)}") from error

    def _kill(self) -> None:
        """Kill the statement, which the server would otherwise continue."""
        lost: Any = self._connection
        other = Control(self._address, timeout_s=5, plain=self._plain)
        with suppress(ServerError, pymysql.MySQLError, OSError), closing(other._connect()) as connection:
            connection.query(f"KILL QUERY {lost.thread_id()}")

    def rows_now(self, sql: str) -> list[tuple[Any, ...]]:
        """rows() outside of any event loop, in the calling thread."""
        return self._rows(sql, ())

    async def records(self, sql: str) -> list[dict[str, Any]]:
        """All rows of one statement as {column: value}. Raises ServerError."""

        def read() -> list[dict[str, Any]]:
            rows, names = self._rows(sql, ()), self._columns
            return [dict(zip(names, row, strict=True)) for row in rows]

        return await asyncio.to_thread(read)

    async def scalar(self, sql: str, *arguments: object) -> Any:
        """The first column of the first row; None if there is no row."""
        rows = await self.rows(sql, *arguments)
        return rows[0][0] if rows else None

    async def variables(self) -> dict[str, str]:
        """SHOW GLOBAL VARIABLES."""
        return {str(name): str(value) for name, value in await self.rows("SHOW GLOBAL VARIABLES")}

    async def status(self) -> dict[str, float]:
        """SHOW GLOBAL STATUS, the numbers of it."""
        found = {}
        for name, value in await self.rows("SHOW GLOBAL STATUS"):
            try:
                found[str(name)] = float(value)
            except (TypeError, ValueError):
                continue
        return found

    def raw_socket(self) -> socket.socket:
        """The connection's socket, for callers that continue the protocol; the session must not be used afterwards."""
        assert self._connection is not None
        found: socket.socket = self._connection._sock  # type: ignore[attr-defined]  # the stubs leave it out
        return found

    async def debug(self) -> None:
        """COM_DEBUG: the server writes its internal state to its log. Raises ServerError."""
        await asyncio.to_thread(self._debug)

    def _debug(self) -> None:
        connection: Any = self._connection  # PyMySQL has no public name for a command of its own
        try:
            connection._execute_command(COMMAND.COM_DEBUG, b"")
            connection._read_packet()  # OK or EOF, by version; an error is raised
        except (pymysql.MySQLError, OSError) as error:
            raise ServerError(f"COM_DEBUG: {_words(error)}") from error


@contextmanager
def session_now(address: Address, timeout_s: float = 10.0) -> Iterator[Rows]:
    """A session outside of any event loop. Raises ServerError."""
    control = Control(address, timeout_s)
    control._connection = control._connect()
    with closing(control._connection):
        yield control.rows_now


def server_code(error: ServerError) -> int | None:
    """The server's (or PyMySQL's) error number, where a session's error has one."""
    cause = error.__cause__
    code = cause.args[0] if isinstance(cause, pymysql.MySQLError) and cause.args else None
    return code if isinstance(code, int) else None


def _words(error: Exception) -> str:
    text = f"{error.args[0]} {error.args[1]}" if len(error.args) > 1 else str(error)
    line = " ".join(text[: MOST_WORDS + 1].split())
    return line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}…"
