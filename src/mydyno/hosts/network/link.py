"""A link between two hosts: a veth pair between two namespaces, with addresses, shaped at both ends by tc(8).

Only what leaves an interface is shaped, so both ends are. tbf counts Ethernet frames without preamble, check sequence
and gap (24 bytes of 1538); its `overhead` is added once to a whole batch of segments (GSO), which makes it nothing, so
the rate itself is lowered to 1514/1538: full frames then deliver what a wire of that speed does (941 Mbit/s of TCP
payload at 1 Gbit/s; measured 939 to 943). The burst must hold a whole batch of 64 KiB: with less, tbf takes batches
apart, and what is then delivered depends on how busy the CPUs are (32 KiB: 370 to 950 Mbit/s at 1 Gbit/s).
"""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.network.namespace import entering
from mydyno.hosts.root import HERE, HostRoot

POOL = ipaddress.ip_network("198.18.0.0/15")
"""Reserved for measurements of networks (RFC 2544); routed nowhere."""
SERVER_INTERFACE = "dyno-server"
LOAD_INTERFACE = "dyno-load"
"""Followed by the server's number from the second server on; a name has 15 characters at most."""
WIRE_FRAME_BYTES = 1538
OBSERVED_FRAME_BYTES = 1514
SEGMENT_PAYLOAD_BYTES = 1448
"""An MTU of 1500 less 20 of IP, 20 of TCP and 12 of time stamps."""
FRAME_TO_PAYLOAD = OBSERVED_FRAME_BYTES / SEGMENT_PAYLOAD_BYTES
"""An interface counts whole frames, a transfer counts payload."""
MINIMAL_BURST_BYTES = 128 << 10
BURST_S = 0.001
QUEUE_MS = 10
PORTS = """
echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse
echo 10000 65535 >/proc/sys/net/ipv4/ip_local_port_range
"""
"""Connections that come and go (workload connect) would use up every port of a namespace within seconds.

On loopback the kernel uses ports in TIME_WAIT again by itself (tcp_tw_reuse 2); the setting is each namespace's own and
ends with it. Left as it is where the kernel has it for the whole host alone."""


@dataclass(frozen=True)
class LinkEnd:
    """One end of the link."""

    namespace: Path
    interface: str
    address: str


@dataclass(frozen=True)
class Shape:
    """The wanted properties of a link; None: unchanged."""

    bits_per_s: float | None = None
    latency: str | None = None

    @property
    def payload_bits_per_s(self) -> float | None:
        """The TCP throughput of a wire of this speed."""
        return None if self.bits_per_s is None else self.bits_per_s * SEGMENT_PAYLOAD_BYTES / WIRE_FRAME_BYTES

    def commands(self, interface: str) -> list[list[str]]:
        """The tc commands for one end, to be run in its namespace."""
        add = ["tc", "qdisc", "add", "dev", interface]
        commands = []
        parent = ["root"]
        if self.latency is not None:
            commands.append([*add, *parent, "handle", "1:", "netem", "delay", self.latency])
            parent = ["parent", "1:1"]
        if self.bits_per_s is not None:
            rate = round(self.bits_per_s * OBSERVED_FRAME_BYTES / WIRE_FRAME_BYTES)
            burst = max(MINIMAL_BURST_BYTES, round(self.bits_per_s / 8 * BURST_S))
            commands.append([*add, *parent, "handle", "10:", "tbf", "rate", f"{rate}bit", "burst", f"{burst}b",
                             "latency", f"{QUEUE_MS}ms"])  # fmt: skip
        return commands


def make_link(server: LinkEnd, load: LinkEnd, root: HostRoot = HERE) -> None:
    """Make the pair; its ends are never in the host's own namespace. Raises HostError with ip's message."""
    peer = ["peer", "name", load.interface, "netns", load.namespace.name]
    root.command([*entering(server.namespace), "ip", "link", "add", "name", server.interface, "type", "veth", *peer])
    for end in (server, load):
        enter = entering(end.namespace)
        root.command([*enter, "ip", "address", "add", f"{end.address}/30", "dev", end.interface])
        root.command([*enter, "ip", "link", "set", "dev", end.interface, "up"])
        root.call([*enter, "sh", "-c", PORTS])


def shape_link(ends: Iterable[LinkEnd], shape: Shape, root: HostRoot = HERE) -> None:
    """Shape what leaves each end. Raises HostError with tc's message."""
    for end in ends:
        for words in shape.commands(end.interface):
            root.command([*entering(end.namespace), *words])


def disciplines(end: LinkEnd, root: HostRoot = HERE) -> list[dict[str, object]]:
    """The queueing disciplines of one end with their statistics, as reported by tc."""
    show = ["tc", "-statistics", "-json", "qdisc", "show", "dev", end.interface]
    reported = root.command([*entering(end.namespace), *show])
    found: list[dict[str, object]] = json.loads(reported or "[]")
    return found


def taken_networks(root: HostRoot = HERE) -> list[str]:
    """Addresses and routes of the host's own namespace. Raises HostError."""
    addresses = json.loads(root.command(["ip", "-json", "-4", "address", "show"]) or "[]")
    routes = json.loads(root.command(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]")
    found = [f"{one['local']}/{one['prefixlen']}" for link in addresses for one in link.get("addr_info", ())]
    return found + [str(route["dst"]) for route in routes if route.get("dst") not in (None, "default", "0.0.0.0/0")]


_taken_here: set[ipaddress.IPv4Network] = set()
"""Networks of this process's own links: those lie in namespaces, where the host's routes do not show them."""
_taken_here_lock = threading.Lock()


def take_addresses(root: HostRoot = HERE) -> tuple[str, str]:
    """free_addresses() of this host, and of no other link of this process until give_addresses_back().

    Raises HostError if all are in use.
    """
    taken = taken_networks(root)
    with _taken_here_lock:
        server, load = free_addresses([*taken, *map(str, _taken_here)])
        _taken_here.add(_network_of(server))
    return server, load


def give_addresses_back(server: str) -> None:
    """The link with this server's address is gone. Safe to call again."""
    with _taken_here_lock:
        _taken_here.discard(_network_of(server))


def _network_of(address: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(f"{address}/30", strict=False)


def free_addresses(taken: Sequence[str]) -> tuple[str, str]:
    """(server's, load's) addresses of a network of four that nothing here uses. Raises HostError if all are in use."""
    used = [ipaddress.IPv4Network(one, strict=False) for one in taken]
    used = [network for network in used if network.overlaps(POOL)]
    for candidate in POOL.subnets(new_prefix=30):
        if not any(candidate.overlaps(network) for network in used):
            server, load = list(candidate.hosts())
            return str(server), str(load)
    raise HostError(
        f"every address of {POOL} is in use on this host ({', '.join(map(str, ipaddress.collapse_addresses(used)))})",
        "that network is reserved for measurements (RFC 2544); remove the address or route that covers it",
    )
