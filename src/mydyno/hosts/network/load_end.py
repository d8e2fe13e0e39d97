"""The network of a host that the load comes from, for a server on another host: its card's shaping, timed transfers.

Done on the load's host, by `mydyno client-network`, at the request of the block on the server's host.
"""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass
from typing import Protocol

from mydyno.errors import HostError
from mydyno.hosts.network.card_queueing import card_obstacle
from mydyno.hosts.network.link import TIMEOUT_S, Shape, Transfer, receive_timed, send_timed
from mydyno.hosts.network.port_shaping import ClassState, PortClass, PortShaping, shaping_obstacle
from mydyno.hosts.root import HERE


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

    async def transfer(self, address: str, port: int, sends: bool) -> Transfer:
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

    async def transfer(self, address: str, port: int, sends: bool) -> Transfer:
        """Time the transfer in a thread."""
        return await asyncio.to_thread(_transfer, address, port, sends)

    async def reach(self, address: str, port: int) -> None:
        """Connect in a thread."""

        def connect() -> None:
            try:
                socket.create_connection((address, port), TIMEOUT_S).close()
            except OSError as error:
                raise HostError(f"cannot connect to {address}, port {port}: {error}") from error

        await asyncio.to_thread(connect)


def _transfer(address: str, port: int, sends: bool) -> Transfer:
    try:
        link = socket.create_connection((address, port), TIMEOUT_S)
        return send_timed(link) if sends else receive_timed(link)
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
