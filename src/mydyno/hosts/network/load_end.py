"""The network of a host that the load comes from, for a server on another host: its card's shaping, timed transfers.

Done on the load's host, by `mydyno client-network`, at the request of the block on the server's host.

Shaping of one port on a network card that carries other traffic too: a class of htb for each server, by tc(8).

Only what leaves a card is shaped, so both hosts of a link do it: the server's host what comes from the server's port,
the host of the load what goes to it. Everything else on the card, SSH among it, passes as before. Frames are counted as
in hosts/network/link.py: the rate is lowered to 1514/1538, and the burst holds a whole batch of segments.

A packet is compared with the filters of all classes in turn, some nanoseconds each; the order in which arms get their
classes is that of the block, which is random.

All classes of a process share one root. It is in the undo journal before it is made, and is removed with its last
class; the kernel then restores the card's default. A card with another program's queueing discipline is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
import threading
from dataclasses import dataclass, field, replace
from functools import cache
from math import isclose
from typing import Literal, Protocol

from mydyno.errors import HostError
from mydyno.hosts.network.link import (
    BURST_S,
    MINIMAL_BURST_BYTES,
    NETEM_PACKETS,
    OBSERVED_FRAME_BYTES,
    TC_TIME_S,
    TIMEOUT_S,
    WIRE_FRAME_BYTES,
    Shape,
    Transfer,
    receive_timed,
    send_timed,
)
from mydyno.hosts.network.namespace import programs_obstacle
from mydyno.hosts.network.network_card import HANDLE, KIND, card_obstacle
from mydyno.hosts.root import HERE, HostRoot
from mydyno.hosts.undo import UndoJournal

UNSHAPED_BIT_PER_S = 100e9
"""The rate of a class that only adds latency: more than a card carries."""
QUANTUM_BYTES = 60_000
Side = Literal["server", "load"]
TRIAL = (
    "ip link set lo up",
    f"tc qdisc add dev lo root handle {HANDLE} htb default 0",
    f"tc class add dev lo parent {HANDLE} classid {HANDLE}1 htb rate 1gbit burst 128kb",
    f"tc filter add dev lo parent {HANDLE} protocol ip prio 1 u32 match ip sport 1 0xffff flowid {HANDLE}1",
    "echo shaping",
    f"tc qdisc add dev lo parent {HANDLE}1 netem delay 1ms && echo netem",
)


@dataclass(frozen=True)
class ShapedPort:
    """A class on a card."""

    card: str
    number: int


class LoadEnd(Protocol):
    """A load host's end of the network, from whichever process. Each method raises HostError."""

    @property
    def name(self) -> str:
        """Name of the host, as reports show it."""

    async def examine(self, address: str, shaped: bool, latency: bool) -> str:
        """The card that leads to the server's address. Raises HostError also for what cannot be done there."""

    async def shape(self, address: str, ports: tuple[int, ...], shape: Shape) -> ShapedPort:
        """Shape what leaves this host for the server's ports, until unshape() or the end of the block."""

    async def state(self, shaped: ShapedPort) -> ClassState:
        """What tc reports of it."""

    async def unshape(self, shaped: ShapedPort) -> str | None:
        """Returns what remains, or None."""

    async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
        """Connect, and send or receive for the length of a timed transfer; the receiver's rate counts."""

    async def reach(self, address: str, port: int) -> None:
        """Connect to the server, and disconnect."""


class OwnLoadEnd:
    """The end on this host."""

    name = "local"

    def __init__(self, shaping: PortShaping) -> None:
        self._shaping = shaping

    async def examine(self, address: str, shaped: bool, latency: bool) -> str:
        """Find the card by ip-route(8), and try what tc can do."""
        card = await asyncio.to_thread(_card_towards, address)
        if shaped:
            obstacle = await asyncio.to_thread(lambda: shaping_obstacle(latency) or card_obstacle(card))
            if obstacle is not None:
                raise HostError(obstacle)
        return card

    async def shape(self, address: str, ports: tuple[int, ...], shape: Shape) -> ShapedPort:
        """Shape by tc."""
        card = await asyncio.to_thread(_card_towards, address)
        wanted = PortClass(card, "load", address, ports)
        return ShapedPort(card, await asyncio.to_thread(self._shaping.add, wanted, shape))

    async def state(self, shaped: ShapedPort) -> ClassState:
        """Read the state by tc."""
        return await asyncio.to_thread(self._shaping.state, shaped.card, shaped.number)

    async def unshape(self, shaped: ShapedPort) -> str | None:
        """Remove the shaping by tc."""
        return await asyncio.to_thread(self._shaping.remove, shaped.card, shaped.number)

    async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
        """Time the transfer in a thread."""
        return await asyncio.to_thread(_transfer, address, port, sends, window_s)

    async def reach(self, address: str, port: int) -> None:
        """Connect in a thread."""

        def connect() -> None:
            try:
                socket.create_connection((address, port), TIMEOUT_S).close()
            except OSError as error:
                raise HostError(f"cannot connect to {address}, port {port}: {error}") from error

        await asyncio.to_thread(connect)


def _transfer(address: str, port: int, sends: bool, window_s: float) -> Transfer:
    try:
        link = socket.create_connection((address, port), TIMEOUT_S)
        return (send_timed if sends else receive_timed)(link, window_s)
    except OSError as error:
        raise HostError(f"a timed transfer with {address}, port {port}: {error}") from error


def _card_towards(address: str) -> str:
    (route, *_) = json.loads(HERE.command(["ip", "-json", "route", "get", address]) or "[{}]")
    card = str(route.get("dev", ""))
    if not card or card == "lo":
        raise HostError(
            f"{address} is an address of this host" if card else f"there is no route to {address}",
            "address of the [[group]] must be that of the server's host on the network that carries the load",
        )
    return card


def card_with(address: str) -> str:
    """The interface of this host that has the address. Raises HostError."""
    for link in json.loads(HERE.command(["ip", "-json", "address", "show"]) or "[]"):
        if any(one.get("local") == address for one in link.get("addr_info", ())):
            return str(link["ifname"])
    raise HostError(f"no interface of this host has the address {address}", "see `ip address`")


@dataclass(frozen=True)
class LoadPath:
    """The network between the server's host, this one, and the hosts of its load."""

    address: str
    """Address of this host."""
    ends: tuple[LoadEnd, ...]
    shaping: PortShaping
    """Shaping on this host's cards."""


@dataclass(frozen=True)
class PortClass:
    """What is shaped on one card: packets of a server's address and ports, on the server's side or the load's."""

    card: str
    side: Side
    address: str
    """Address of the server."""
    ports: tuple[int, ...]
    """The server's, and the one of the timed transfers."""

    def matches(self, port: int) -> list[str]:
        """The words of tc's u32 filter for one port."""
        name, bits = ("ip", 32) if self.protocol == "ip" else ("ip6", 128)
        of_address, of_port = ("src", "sport") if self.side == "server" else ("dst", "dport")
        return ["match", name, of_address, f"{self.address}/{bits}", "match", name, of_port, str(port), "0xffff"]

    @property
    def protocol(self) -> str:
        """As tc names it."""
        return "ip" if ipaddress.ip_address(self.address).version == 4 else "ipv6"


@dataclass(frozen=True)
class ClassState:
    """What tc reports of a class."""

    rate: str
    """As tc writes it, e.g. 98439Kbit."""
    sent_bytes: int
    sent_packets: int
    latency_s: float = 0.0
    """That netem adds to it."""

    def is_in_force(self, shape: Shape) -> bool:
        """Whether it is the class that commands() make of this shape, as exactly as tc reports it."""
        rate = float(self.rate.removesuffix("bit").translate(_UNITS))
        return isclose(rate, _frame_rate(shape), rel_tol=2e-3) and isclose(
            self.latency_s, shape.latency_s, rel_tol=1e-3, abs_tol=TC_TIME_S
        )


_UNITS = str.maketrans({"K": "e3", "M": "e6", "G": "e9", "T": "e12"})


def _frame_rate(shape: Shape) -> int:
    return round((shape.bits_per_s or UNSHAPED_BIT_PER_S) * OBSERVED_FRAME_BYTES / WIRE_FRAME_BYTES)


def shaping_obstacle(latency: bool, root: HostRoot = HERE) -> str | None:
    """Why ports cannot be shaped on this host; None if they can. Tried in a namespace of its own, once per process."""
    missing = programs_obstacle(root)
    if missing is not None:
        return missing
    words = _tried(root)
    if "shaping" not in words:
        return (
            "this kernel has no htb with u32 filters to shape one port with (CONFIG_NET_SCH_HTB, CONFIG_NET_CLS_U32); "
            "load sch_htb and cls_u32, or use a kernel with them"
        )
    if latency and "netem" not in words:
        return (
            "this kernel has no netem to add latency with (CONFIG_NET_SCH_NETEM); load sch_netem, use a kernel with "
            "it, or omit latency"
        )
    return None


@cache
def _tried(root: HostRoot) -> frozenset[str]:
    done = root.call(["unshare", "--net", "sh", "-ec", "\n".join(TRIAL)])
    return frozenset(done.stdout.split())


@dataclass
class PortShaping:
    """The classes of this process on all cards of this host. Methods may be called from several threads."""

    undo: UndoJournal
    _changes: dict[str, int] = field(default_factory=dict)
    """Card → entry of its root."""
    _classes: dict[str, dict[int, PortClass]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, wanted: PortClass, shape: Shape) -> int:
        """Shape what the class describes; returns its number. Raises HostError with tc's message."""
        card, command = wanted.card, self.undo.root.command
        with self._lock:
            if card not in self._changes:
                obstacle = card_obstacle(card, self.undo.root)
                if obstacle is not None:
                    raise HostError(obstacle)
                self._changes[card] = self.undo.will_change(KIND, card=card, handle=HANDLE)
                command(["tc", "qdisc", "add", "dev", card, "root", "handle", HANDLE, "htb", "default", "0"])
            classes = self._classes.setdefault(card, {})
            number = next(number for number in range(1, len(classes) + 2) if number not in classes)
            classes[number] = wanted
        try:
            for words in commands(wanted, number, shape):
                command(words)
        except HostError:
            self.remove(card, number)
            raise
        return number

    def state(self, card: str, number: int) -> ClassState:
        """What tc reports of it. Raises HostError if there is no such class."""
        name, command = f"{HANDLE}{number:x}", self.undo.root.command
        found = parse_classes(command(["tc", "-statistics", "class", "show", "dev", card])).get(number)
        if found is None:
            raise HostError(f"tc shows no class {name} on {card}")
        shown = json.loads(command(["tc", "-json", "qdisc", "show", "dev", card]) or "[]")
        below = [one["options"] for one in shown if one["kind"] == "netem" and one.get("parent") == name]
        return replace(found, latency_s=sum(one.get("delay", {}).get("delay", 0.0) for one in below))

    def remove(self, card: str, number: int) -> str | None:
        """Shape it no longer; with the card's last class goes its root. Returns what remains, or None."""
        with self._lock:
            classes = self._classes.get(card, {})
            wanted = classes.pop(number, None)
            if wanted is None:
                return None
            if classes:
                self.undo.root.call(["tc", "filter", "del", "dev", card, "parent", HANDLE, "prio", str(number)])
                self.undo.root.call(["tc", "class", "del", "dev", card, "classid", f"{HANDLE}{number:x}"])
                return None
            return self.undo.undo(self._changes.pop(card))


def commands(wanted: PortClass, number: int, shape: Shape) -> list[list[str]]:
    """The tc commands that make one class below the root."""
    rate = f"{_frame_rate(shape)}bit"
    burst = f"{max(MINIMAL_BURST_BYTES, round((shape.bits_per_s or UNSHAPED_BIT_PER_S) / 8 * BURST_S))}b"
    name = f"{HANDLE}{number:x}"
    where = ["dev", wanted.card, "parent"]
    made = [
        ["tc", "class", "add", *where, HANDLE, "classid", name, "htb", "rate", rate, "burst", burst,
         "cburst", burst, "quantum", str(QUANTUM_BYTES)],
    ]  # fmt: skip
    if shape.latency is not None:
        netem = ["netem", "delay", shape.latency, "limit", NETEM_PACKETS]
        made.append(["tc", "qdisc", "add", *where, name, *netem])
    for port in wanted.ports:
        made.append(["tc", "filter", "add", *where, HANDLE, "protocol", wanted.protocol, "prio", str(number), "u32",
                     *wanted.matches(port), "flowid", name])  # fmt: skip
    return made


def parse_classes(text: str) -> dict[int, ClassState]:
    """{number: state} from `tc -statistics class show`, of classes below the root."""
    pattern = rf"^class htb {HANDLE}([0-9a-f]+) .*?\brate (\S+).*\n\s+Sent (\d+) bytes (\d+) pkt"
    return {
        int(number, 16): ClassState(rate, int(sent), int(packets))
        for number, rate, sent, packets in re.findall(pattern, text, re.MULTILINE)
    }
