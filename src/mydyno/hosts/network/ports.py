"""Free TCP ports, of loopback if no other address is named, for servers that cannot choose one for themselves."""

from __future__ import annotations

import random
import socket
import threading
from collections import deque

from mydyno.errors import HostError
from mydyno.hosts.root import HERE, HostRoot

LOOPBACK = "127.0.0.1"
LOWEST = 10_000
REMEMBERED = 1000
"""Ports that are not reused soon; far more than a study has servers at the same time."""
TRIES = 2000
_given: deque[int] = deque(maxlen=REMEMBERED)
_lock = threading.Lock()
_random = random.SystemRandom()  # leaves the seeded generator alone


def free_port(address: str = LOOPBACK) -> int:
    """A port of a local address that is free now and none of the last 1000 returned. Raises HostError if there is none.

    It lies below the range from which the kernel takes the ports of outgoing connections, so that none of those gets
    it before the server does, or while the server is restarted. Who listens there is proved after the start.
    """
    return port_between(address, LOWEST, first_outgoing())


def port_between(address: str, lowest: int, below: int) -> int:
    """Such a port from `lowest` to `below` - 1."""
    with _lock:
        for _ in range(TRIES):
            port = _random.randrange(lowest, below)
            if port not in _given and _is_free(address, port):
                _given.append(port)
                return port
    raise HostError(f"no free TCP port from {lowest} to {below - 1}", "see ss -tln")


def first_outgoing(root: HostRoot = HERE) -> int:
    """The first port that the kernel gives to outgoing connections (ip(7)), where that leaves enough below."""
    try:
        first = int((root.proc / "sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return first if first >= LOWEST + 2 * REMEMBERED else 65536


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trying:
        # Not SO_REUSEADDR: what is in TIME_WAIT is left alone.
        try:
            trying.bind((address, port))
        except OSError:
            return False
    return True
