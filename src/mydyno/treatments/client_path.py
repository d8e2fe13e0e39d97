"""What treatments of the connection share: the load's way to the server, over TCP, and its sessions.

Sessions on the load's own path (namespace, TLS, compression) are made by `dynoload session` as a load makes its own, to
read what the server negotiated with the load, and whether it resumes TLS sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from mydyno.drivers.dynoload import protocol_arguments
from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.stored.records import StepRecord
from mydyno.servers.dsn import parse_dsn, unreadable_file
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Address, ClientTls
from mydyno.treatments.base import Treatment

TIMEOUT_S = 60.0
"""For `dynoload session`."""
FORMAT_VERSION = 1
"""Of its records."""


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


OWN_SESSIONS = 5
"""Sessions of mydyno's own that the server may count within a step: control, a probe that came back, and with --waits
the reader of counters and the sampler of sessions."""


class ConnectionTreatment(Treatment):
    """A treatment of the connections between load and server: the load does what the server does."""

    program = Path()
    """dynoload, which makes the sessions that are read."""

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:  # noqa: ARG002
        """Find dynoload. Raises HostError if the engine was not built."""
        self.program = paths.program("dynoload")
        return {}

    @property
    def is_proved_for_one_instance_only(self) -> bool:
        """Its handshakes and bytes are counted for the whole step."""
        return True


def configure_client_path(
    instance: RunningServer, *, tls: ClientTls | None = None, compression: str | None = None
) -> None:
    """Set TLS or compression on the load's path (None: unchanged); without a network treatment, over loopback."""
    path = instance.ensure_client_path()
    path = path if tls is None else replace(path, tls=tls)
    instance.settings.client_path = path if compression is None else replace(path, compression=compression)


def external_obstacle(server: ServerSpec) -> str | None:
    """Why the connection to an external server cannot be changed: it is a Unix socket, or lacks a file of its TLS."""
    if server.dsn is None:
        return None
    address = parse_dsn(server.dsn)
    if address.socket is not None:
        return (
            "server.dsn names a Unix socket, over which network, TLS and compression cannot be measured; use host "
            "and port"
        )
    return unreadable_file(address)


def plain_sessions(step: StepRecord) -> tuple[int, int, int] | None:
    """(sessions with TLS, sessions without, of them mydyno's own at most) of a step; None if nothing was counted.

    From the growth of Connections, Ssl_accepts and Ssl_finished_accepts over the step.
    """
    counted = step.server_counters
    if "Connections" not in counted:
        return None
    begun = int(counted["Connections"])
    encrypted = int(counted.get("Ssl_finished_accepts", counted.get("Ssl_accepts", 0)))
    return encrypted, begun - encrypted, OWN_SESSIONS
