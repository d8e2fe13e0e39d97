"""The root queueing discipline of a network card: the kernel's default, mydyno's, or another program's (tc(8))."""

from __future__ import annotations

import json
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.root import HERE, HostRoot

KIND = "queueing"
"""Kind of the entry in the undo journal."""
HANDLE = "d1d0:"
"""Handle of the root queueing discipline that mydyno adds."""
DEFAULT_HANDLE = "0:"
"""Handle of the root queueing discipline that the kernel gives a card."""


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
