"""Shaping of one port on a network card that carries other traffic too: a class of htb for each server, by tc(8).

Only what leaves a card is shaped, so both hosts of a link do it: the server's host what comes from the server's port,
the host of the load what goes to it. Everything else on the card, SSH among it, passes as before. Frames are counted as
in hosts/network/link.py: the rate is lowered to 1514/1538, and the burst holds a whole batch of segments.

A packet is compared with the filters of all classes in turn, some nanoseconds each; the order in which arms get their
classes is that of the block, which is random.

All classes of a process share one root. It is in the undo journal before it is made, and is removed with its last
class; the kernel then restores the card's default. A card with another program's queueing discipline is refused.
"""

from __future__ import annotations

import ipaddress
import re
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from mydyno.errors import HostError
from mydyno.hosts.network.card_queueing import HANDLE, KIND, card_obstacle
from mydyno.hosts.network.link import BURST_S, MINIMAL_BURST_BYTES, OBSERVED_FRAME_BYTES, WIRE_FRAME_BYTES, Shape
from mydyno.hosts.network.network_capabilities import programs_obstacle
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
        found = parse_classes(self.undo.root.command(["tc", "-statistics", "class", "show", "dev", card]))
        if number not in found:
            raise HostError(f"tc shows no class {HANDLE}{number:x} on {card}")
        return found[number]

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
    bits_per_s = shape.bits_per_s or UNSHAPED_BIT_PER_S
    rate = round(bits_per_s * OBSERVED_FRAME_BYTES / WIRE_FRAME_BYTES)
    burst = f"{max(MINIMAL_BURST_BYTES, round(bits_per_s / 8 * BURST_S))}b"
    name = f"{HANDLE}{number:x}"
    where = ["dev", wanted.card, "parent"]
    made = [
        ["tc", "class", "add", *where, HANDLE, "classid", name, "htb", "rate", f"{rate}bit", "burst", burst,
         "cburst", burst, "quantum", str(QUANTUM_BYTES)],
    ]  # fmt: skip
    if shape.latency is not None:
        made.append(["tc", "qdisc", "add", *where, name, "netem", "delay", shape.latency, "limit", "100000"])
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
