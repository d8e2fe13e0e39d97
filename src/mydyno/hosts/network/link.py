"""A link between two hosts: a veth pair between two namespaces, with addresses, shaped at both ends by tc(8).

Only what leaves an interface is shaped, so both ends are. tbf counts Ethernet frames without preamble, check sequence
and gap (24 bytes of 1538); its `overhead` is added once to a whole batch of segments (GSO), which makes it nothing, so
the rate itself is lowered to 1514/1538: full frames then deliver what a wire of that speed does (941 Mbit/s of TCP
payload at 1 Gbit/s; measured 939 to 943). The burst must hold a whole batch of 64 KiB: with less, tbf takes batches
apart, and what is then delivered depends on how busy the CPUs are (32 KiB: 370 to 950 Mbit/s at 1 Gbit/s).

A timed transfer over TCP between two namespaces: the actual throughput of a link, as payload, in one direction.

Measured at the receiver, after the sender's congestion window had time to open. Sender and receiver are threads of
this process; they sleep in the kernel nearly all the time. On CPUs that others keep busy it comes out too low, or, when
the receiver waited for a CPU just as its window began and then finds full buffers, some percent too high.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.network.namespace import entering, inside
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
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
QUEUE_MS = 10
NETEM_PACKETS = "100000"
"""Of netem's queue: the kernel's 1000 are those of 12 ms at 1 Gbit/s, and more are dropped."""
PORTS = """
echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse
echo 10000 65535 >/proc/sys/net/ipv4/ip_local_port_range
"""
"""Connections that come and go (workload connect) would use up every port of a namespace within seconds.

On loopback the kernel uses ports in TIME_WAIT again by itself (tcp_tw_reuse 2); the setting is each namespace's own and
ends with it. Left as it is where the kernel has it for the whole host alone."""
_taken_here: set[ipaddress.IPv4Network] = set()
"""Networks of this process's own links: those lie in namespaces, where the host's routes do not show them."""
_taken_here_lock = threading.Lock()
RAMP_S = 0.2
WINDOW_S = 0.5
WINDOW_ROUND_TRIPS = 4
TIMEOUT_S = 10.0
TC_TIME_S = 1.1e-6
"""tc cuts times to whole microseconds: it reports 49 us for 50 us."""
_BLOCK = bytes(256 << 10)


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
    def mbit_per_s(self) -> int:
        """As ethtool counts; 0 without a bandwidth."""
        return round((self.bits_per_s or 0) / 1e6)

    @property
    def payload_bits_per_s(self) -> float | None:
        """The TCP throughput of a wire of this speed."""
        return None if self.bits_per_s is None else self.bits_per_s * SEGMENT_PAYLOAD_BYTES / WIRE_FRAME_BYTES

    @property
    def latency_s(self) -> float:
        """What is added in each direction."""
        number = (self.latency or "0s").rstrip("mus")
        return float(number) * _SECONDS[(self.latency or "0s").removeprefix(number)]

    def window_s(self, shortest_s: float) -> float:
        """Time in which a transfer over it is timed: several round trips."""
        return shortest_s + WINDOW_ROUND_TRIPS * 2 * self.latency_s

    def commands(self, interface: str) -> list[list[str]]:
        """The tc commands for one end, to be run in its namespace."""
        add = ["tc", "qdisc", "add", "dev", interface]
        commands = []
        parent = ["root"]
        if self.latency is not None:
            commands.append([*add, *parent, "handle", "1:", "netem", "delay", self.latency, "limit", NETEM_PACKETS])
            parent = ["parent", "1:1"]
        if self.bits_per_s is not None:
            rate = round(self.bits_per_s * OBSERVED_FRAME_BYTES / WIRE_FRAME_BYTES)
            burst = max(MINIMAL_BURST_BYTES, round(self.bits_per_s / 8 * BURST_S))
            commands.append([*add, *parent, "handle", "10:", "tbf", "rate", f"{rate}bit", "burst", f"{burst}b",
                             "latency", f"{QUEUE_MS}ms"])  # fmt: skip
        return commands

    def is_in_force(self, found: Sequence[Mapping[str, Any]]) -> bool:
        """Whether these disciplines, as tc reports them for one end, are this shape's and no others."""
        reported: dict[str, float] = {}
        for one in found:
            if one["kind"] == "tbf":
                reported["tbf"] = 8 * one["options"]["rate"]
            elif one["kind"] == "netem":
                reported["netem"] = one["options"].get("delay", {}).get("delay", 0.0)
            elif one["kind"] != "noqueue":
                return False
        wanted: dict[str, float] = {}
        if self.bits_per_s is not None:
            wanted["tbf"] = self.bits_per_s * OBSERVED_FRAME_BYTES / WIRE_FRAME_BYTES
        if self.latency is not None:
            wanted["netem"] = self.latency_s
        return reported.keys() == wanted.keys() and all(
            isclose(value, reported[kind], rel_tol=1e-3, abs_tol=TC_TIME_S if kind == "netem" else 0.0)
            for kind, value in wanted.items()
        )


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


def shape_anew(ends: Iterable[LinkEnd], shape: Shape, root: HostRoot = HERE) -> None:
    """Shape what leaves each end in place of what shaped it before. Raises HostError with tc's message.

    What is in the queues is lost: nothing, between slices.
    """
    for end in ends:
        lines = [f"tc qdisc del dev {end.interface} root 2>&- || :", *map(shlex.join, shape.commands(end.interface))]
        root.command([*entering(end.namespace), "sh", "-ec", "\n".join(lines)])


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


def addresses_obstacle(root: HostRoot = HERE) -> str | None:
    """Why no link can have addresses on this host; None if one can."""
    try:
        free_addresses(taken_networks(root))
    except HostError as error:
        return f"{error.message}; {error.hint}"
    return None


@dataclass(frozen=True)
class Transfer:
    """One direction's result."""

    bits_per_s: float
    cpu_busy: float
    """Share of this host's CPUs that was busy, with any work, while it ran."""


def timed_transfer(source: Path | None, destination: Path | None, address: str, window_s: float = WINDOW_S) -> Transfer:
    """Send from a namespace to an address in another for RAMP_S + window_s. Raises OSError if no byte arrives."""
    listener = inside(destination, lambda: listen(address))
    try:
        port = listener.getsockname()[1]
        sender = inside(source, lambda: socket.create_connection((address, port), TIMEOUT_S))
        receiver, _ = listener.accept()
    finally:
        listener.close()
    before = cpu_ticks()
    thread = threading.Thread(target=_send, args=(sender, RAMP_S + window_s))
    thread.start()
    try:
        rate = _receive(receiver, window_s)
    finally:
        receiver.close()
        thread.join()
    return Transfer(rate, busy_since(before))


def listen(address: str, port: int = 0) -> socket.socket:
    """For one connection, at a port that may have been used just before; 0: any. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.settimeout(TIMEOUT_S)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener


def send_timed(link: socket.socket, window_s: float) -> Transfer:
    """The sending half of a transfer to another host; its rate is known to the receiver alone. Closes the socket."""
    before = cpu_ticks()
    link.settimeout(TIMEOUT_S)
    _send(link, RAMP_S + window_s)
    return Transfer(0.0, busy_since(before))


def receive_timed(link: socket.socket, window_s: float) -> Transfer:
    """The receiving half; closes the socket. Raises OSError if too few bytes arrive."""
    before = cpu_ticks()
    with link:
        rate = _receive(link, window_s)
    return Transfer(rate, busy_since(before))


def _send(sender: socket.socket, length_s: float) -> None:
    end = time.monotonic() + length_s
    with sender:
        try:
            while time.monotonic() < end:
                sender.sendall(_BLOCK)
        except OSError:
            return  # the receiver saw it too, and says so


def _receive(receiver: socket.socket, window_s: float) -> float:
    """Bits per second between the ramp's end and the window's."""
    receiver.settimeout(TIMEOUT_S)
    buffer = bytearray(1 << 20)
    window = TimedWindow(window_s)
    while count := receiver.recv_into(buffer):
        window.take(count)  # what comes behind the window is only emptied, so that the sender is not cut off
    return window.bits_per_s()


class TimedWindow:
    """Bytes as they arrive, timed from the first arrival after RAMP_S to the last within `length_s` after that."""

    def __init__(self, length_s: float) -> None:
        self._began = time.monotonic()
        self._length_s = length_s
        self._total = 0
        self._first: tuple[float, int] | None = None
        self._last = (self._began, 0)

    @property
    def is_over(self) -> bool:
        """Whether what arrives now is too late to count."""
        return time.monotonic() - self._began > RAMP_S + self._length_s

    def take(self, count: int) -> None:
        """Count bytes that arrived now."""
        now = time.monotonic()
        self._total += count
        if now - self._began > RAMP_S + self._length_s:
            return
        if self._first is None and now - self._began >= RAMP_S:
            self._first = (now, self._total)
        self._last = (now, self._total)

    def bits_per_s(self) -> float:
        """The rate. Raises OSError if fewer than two arrivals were in the window."""
        if self._first is None or self._last[0] <= self._first[0]:
            took_s = time.monotonic() - self._began
            raise OSError(f"{self._total} bytes arrived in {took_s:.1f} s: too few to time")
        return (self._last[1] - self._first[1]) * 8 / (self._last[0] - self._first[0])


def busy_since(before: tuple[int, int]) -> float:
    """The share of this host's CPUs that was busy since cpu_ticks() was `before`."""
    busy, total = (after - then for after, then in zip(cpu_ticks(), before, strict=True))
    return busy / total if total else 0.0


def cpu_ticks() -> tuple[int, int]:
    """(busy, all) ticks of all CPUs since boot (proc(5), stat)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)
