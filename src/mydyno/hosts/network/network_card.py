"""The speed of a real network card, by ethtool(8): read, set for the time of a run, restored.

`ethtool -s IF speed 1000 duplex full autoneg off`, as study 4 did it; where the driver insists on autonegotiation
(1000BASE-T and faster), the same with `autoneg on`, which then offers that one speed. Either way the link goes down and
comes again, which takes some seconds. What ethtool says of virtual interfaces is a constant (a veth pair: 10000Mb/s,
whatever it carries), so an interface without link modes counts as having no speed that can be set.

The root queueing discipline of a network card: the kernel's default, mydyno's, or another program's (tc(8)).
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.root import HERE, HostRoot

LINK_WAIT_S = 20.0
POLL_S = 0.2
_MODE = re.compile(r"\b(\d+)base\S*/(Full|Half)\b")
KIND = "queueing"
"""Kind of the entry in the undo journal."""
HANDLE = "d1d0:"
"""Handle of the root queueing discipline that mydyno adds."""
DEFAULT_HANDLE = "0:"
"""Handle of the root queueing discipline that the kernel gives a card."""


@dataclass(frozen=True)
class CardState:
    """What ethtool reports of one interface."""

    speed_mbit_per_s: int | None
    """None: unknown, or no link."""
    duplex: str
    """full or half; empty if it is unknown."""
    negotiates: bool
    """Whether autonegotiation is on."""
    supported: tuple[str, ...]
    """Link modes, e.g. 1000baseT/Full; empty if none are reported."""
    advertised: tuple[str, ...]
    link: bool

    @property
    def speeds_mbit_per_s(self) -> tuple[int, ...]:
        """Speeds of its full-duplex modes, the slowest first."""
        return tuple(sorted({int(m[1]) for mode in self.supported if (m := _MODE.match(mode)) and m[2] == "Full"}))


def read_state(text: str) -> CardState:
    """Parse `ethtool INTERFACE`, whose lists continue over indented lines."""
    reported: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and line.startswith("\t") and not line.startswith("\t "):
            key = name.strip()
            reported[key] = value.strip()
        elif key:
            reported[key] = f"{reported[key]} {line.strip()}"
    speed = re.match(r"(\d+)Mb/s", reported.get("Speed", ""))
    duplex = reported.get("Duplex", "").lower()
    return CardState(
        speed_mbit_per_s=int(speed[1]) if speed else None,
        duplex=duplex if duplex in ("full", "half") else "",
        negotiates=reported.get("Auto-negotiation") == "on",
        supported=_modes(reported.get("Supported link modes", "")),
        advertised=_modes(reported.get("Advertised link modes", "")),
        link=reported.get("Link detected") == "yes",
    )


def _modes(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split() if _MODE.match(word))


def card_state(interface: str, root: HostRoot = HERE) -> CardState:
    """Run ethtool. Raises HostError with its message."""
    return read_state(root.command(["ethtool", interface]))


def obstacle(interface: str, mbit_per_s: int | None, root: HostRoot = HERE) -> str | None:
    """Why this interface's speed cannot be set to this (None: to any); None if it can. Changes nothing."""
    present = sorted(name for _, name in socket.if_nameindex())
    if interface not in present:
        return f"this host has no interface {interface}; it has {', '.join(present)}"
    if root.which("ethtool") is None:
        return "ethtool is not on PATH: it sets the speed of a network card (package ethtool)"
    try:
        state = card_state(interface, root)
    except HostError as error:
        return error.message
    if not state.supported:
        return (
            f"ethtool reports no link modes of {interface} (a virtual interface, or a driver that cannot set its "
            "speed): its speed cannot be changed"
        )
    if mbit_per_s is not None and mbit_per_s not in state.speeds_mbit_per_s:
        speeds = ", ".join(str(speed) for speed in state.speeds_mbit_per_s)
        return f"{interface} has no mode of {mbit_per_s} Mb/s; it has {speeds}"
    if not state.link:
        return f"{interface} has no link: is the cable connected?"
    if not root.is_root:
        return "setting the speed of a network card needs root; run mydyno as root"
    return None


def set_speed(interface: str, mbit_per_s: int, root: HostRoot = HERE) -> CardState:
    """Set speed and full duplex and wait for the link; returns the resulting state.

    Raises HostError with ethtool's message.
    """
    request = ["ethtool", "-s", interface, "speed", str(mbit_per_s), "duplex", "full", "autoneg"]
    try:
        root.command([*request, "off"])
    except HostError:
        root.command([*request, "on"])
    return _with_link(interface, mbit_per_s, root)


def undo_facts(interface: str, state: CardState) -> dict[str, Any]:
    """What the undo journal needs to restore the present state of the card."""
    return {
        "interface": interface,
        "speed_mbit_per_s": state.speed_mbit_per_s,
        "duplex": state.duplex,
        "negotiates": state.negotiates,
        "advertised": list(state.advertised),
    }


def give_back(facts: dict[str, Any], root: HostRoot = HERE) -> str | None:
    """Undo a change of the kind `network_card`; returns what still differs, or None."""
    interface, speed = str(facts["interface"]), facts["speed_mbit_per_s"]
    words = ["ethtool", "-s", interface]
    if facts["negotiates"] or speed is None:
        words += ["autoneg", "on"]
        words += ["advertise", *(word for mode in facts["advertised"] for word in (mode, "on"))]
    else:
        words += ["speed", str(speed), "duplex", facts["duplex"] or "full", "autoneg", "off"]
    try:
        root.command(words)
        state = _with_link(interface, speed, root)
    except HostError as error:
        return f"the speed of {interface} (was {speed} Mb/s): {error.message}"
    if state.speed_mbit_per_s == speed and state.negotiates == facts["negotiates"]:
        return None
    return f"{interface} is at {state.speed_mbit_per_s} Mb/s, was at {speed} Mb/s"


def _with_link(interface: str, mbit_per_s: int | None, root: HostRoot) -> CardState:
    """The state once the link is up again at this speed, or what it is after LINK_WAIT_S."""
    deadline = root.now_s() + LINK_WAIT_S
    while True:
        state = card_state(interface, root)
        if (state.link and state.speed_mbit_per_s == mbit_per_s) or root.now_s() > deadline:
            return state
        root.sleep(POLL_S)


def interface_towards(host: str, root: HostRoot = HERE) -> str | None:
    """The interface by which this host sends to a name or an address (ip-route(8)); None if there is no route."""
    try:
        address = socket.gethostbyname(host)
        (route, *_) = json.loads(root.command(["ip", "-json", "route", "get", address]) or "[{}]")
    except (HostError, OSError, ValueError):
        return None
    return str(route["dev"]) if "dev" in route else None


def cards(root: HostRoot = HERE) -> list[str]:
    """Interfaces with a device behind them: what may be a network card."""
    return sorted(path.name for path in (root.sys / "class/net").glob("*") if (path / "device").exists())


def root_of(card: str, root: HostRoot) -> str:
    """The handle of its root. Raises HostError."""
    found = json.loads(root.command(["tc", "-json", "qdisc", "show", "dev", card]) or "[]")
    return next((str(one["handle"]) for one in found if one.get("root")), DEFAULT_HANDLE)


def card_obstacle(card: str, root: HostRoot = HERE) -> str | None:
    """Why this card's traffic cannot be shaped; None if it can. Raises HostError."""
    found = root_of(card, root)
    if found == HANDLE:
        return f"{card} is shaped by another study, or by one that was killed: see `mydyno clean` on that host"
    if found != DEFAULT_HANDLE:
        return f"{card} has a queueing discipline of its own ({found}); remove it: tc qdisc del dev {card} root"
    return None


def remove_root(facts: dict[str, Any], root: HostRoot) -> str | None:
    """Undo a change of the kind `queueing`; returns what remains, or None. Leaves another program's root alone."""
    card = str(facts["card"])
    try:
        if root_of(card, root) == facts["handle"]:
            root.command(["tc", "qdisc", "del", "dev", card, "root"])
    except HostError as error:
        return None if "Cannot find device" in error.message else f"the shaping of {card}: {error.message}"
    return None
