"""Sessions on the load's own path (namespace, TLS, compression), made by `dynoload session` as a load makes its own.

For reading what the server negotiated with the load, and whether it resumes TLS sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mydyno.drivers.dynoload_arguments import protocol_arguments
from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost
from mydyno.servers.sql import Address

TIMEOUT_S = 60.0
FORMAT_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NegotiatedTls(_Record):
    """The TLS that one session negotiated; names as in OpenSSL and MySQL."""

    version: str
    cipher_suite: str
    resumed: bool


class Rows(_Record):
    """The rows of one statement, as text; None is NULL."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


class LoadSession(_Record):
    """One session."""

    connection_id: int
    server_version: str
    tls: NegotiatedTls | None = None
    """None in plain text."""
    results: tuple[Rows, ...]

    @property
    def status(self) -> dict[str, str]:
        """{name: value} of a first statement SHOW STATUS or SHOW VARIABLES."""
        return {str(name): str(value) for name, value in self.results[0].rows}


class _Report(_Record):
    format_version: int
    sessions: tuple[LoadSession, ...]


def session_status(*names: str) -> str:
    """The statement for these status variables of the session; what the server does not have is absent."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"SHOW SESSION STATUS WHERE Variable_name IN ({quoted})"


async def open_sessions(
    program: Path, host: LocalHost, address: Address, statements: Sequence[str], sessions: int = 1
) -> tuple[LoadSession, ...]:
    """Make sessions one after the other, each of which executes the statements. `program`: dynoload.

    Raises ServerError with dynoload's message.
    """
    where = [f"--socket={address.socket}"] if address.socket else [f"--host={address.host}", f"--port={address.port}"]
    command = [
        str(program),
        "session",
        *where,
        f"--user={address.user}",
        # By a pipe: the password is in no file and no argument.
        "--password-file=/dev/stdin",
        f"--database={address.database}",
        *protocol_arguments(address),
        f"--sessions={sessions}",
        *(f"--sql={statement}" for statement in statements),
    ]
    process = await host.start(
        command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, entering=address.entering
    )
    try:
        output, _ = await asyncio.wait_for(process.streams.communicate(address.password + b"\n"), TIMEOUT_S)
    except TimeoutError:
        raise ServerError(f"a session on the load's path: no answer within {TIMEOUT_S:.0f} s") from None
    finally:
        await process.end(0.0)
    text = (output or b"").decode(errors="replace").strip()
    if process.exit_code:
        raise ServerError(f"a session on the load's path: {text.removeprefix('dynoload: ') or 'it printed nothing'}")
    return _sessions(text)


def _sessions(text: str) -> tuple[LoadSession, ...]:
    """The sessions on the last line; warnings come before it. Raises ServerError."""
    try:
        report = _Report.model_validate_json(text.rpartition("\n")[2])
    except ValidationError as error:
        raise ServerError(f"a session on the load's path: dynoload printed {text[-200:]!r}") from error
    if report.format_version != FORMAT_VERSION:
        raise ServerError(f"dynoload prints sessions in version {report.format_version}, not {FORMAT_VERSION}")
    return report.sessions
