"""What treatments of the connection share: the load's way to the server, over TCP, and the count of its sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.stored.records import StepRecord
from mydyno.servers.dsn import parse_dsn, unreadable_file
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import ClientTls
from mydyno.treatments.base import Treatment

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
