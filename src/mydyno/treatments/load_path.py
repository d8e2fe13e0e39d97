"""What treatments of the connection share: the load's way to the server, over TCP, and the count of its sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mydyno.hosts.ports import LOOPBACK, free_port
from mydyno.model.experiment import ServerSpec
from mydyno.model.records import StepRecord
from mydyno.servers.external import ExternalInstance, parse_dsn
from mydyno.servers.instance import Instance
from mydyno.servers.load_path import LoadPath

OWN_SESSIONS = 3
"""Sessions of mydyno's own that the server may count within a step: control, and a probe that came back."""


def speak(instance: Instance, **spoken: Any) -> None:
    """Say what is spoken on the load's path; without a network treatment the path is made, over loopback."""
    path = instance.settings.load_path
    if path is None and isinstance(instance, ExternalInstance):
        path = instance.own_path()
    elif path is None:
        port = free_port()
        path = LoadPath(LOOPBACK, port, LOOPBACK)
        instance.settings.variables.update({"skip_networking": "OFF", "bind_address": LOOPBACK, "port": port})
    instance.settings.load_path = replace(path, **spoken)


def external_obstacle(server: ServerSpec) -> str | None:
    """Why nothing can be said of the way to an external server: a Unix socket has none."""
    if server.dsn is not None and parse_dsn(server.dsn).socket is not None:
        return (
            "server.dsn names a Unix socket, over which no network, TLS or compression is measured; name host and port"
        )
    return None


def plain_sessions(step: StepRecord) -> tuple[int, int, int] | None:
    """(sessions with TLS, sessions without, of them mydyno's own at most) of a step; None where nothing was counted.

    From the growth of Connections, Ssl_accepts and Ssl_finished_accepts over the step.
    """
    counted = step.server_counters
    if "Connections" not in counted:
        return None
    begun = int(counted["Connections"])
    encrypted = int(counted.get("Ssl_finished_accepts", counted.get("Ssl_accepts", 0)))
    return encrypted, begun - encrypted, OWN_SESSIONS
