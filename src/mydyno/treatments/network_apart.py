"""The network between a server's host and the hosts of its load: shaped for the server's port, or a slower real card.

`network = "1gbit"` shapes what leaves the server's card from the server's port and what leaves each load host's card to
it (hosts/network/load_end.py). SSH on the same cards is not touched, and several servers can be up at the same
time, each with a bandwidth of its own. With several load hosts each of them has the bandwidth towards the server.

`network = { bandwidth = "1gbit", by = "card" }` sets the speed of the server's card by ethtool. Both directions of a
wire have one speed, so this end suffices. It is in force for the whole host.

Either way the change is in the undo journal of the host on which it is made. Proved in every run by a timed transfer
each way between the two hosts, by reading back what tc or ethtool report, and, where a port is shaped, by a connection
from each load host to the server's own port, which the classes at both ends must have counted.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mydyno.errors import HostError, StudyError
from mydyno.hosts.network import network_card
from mydyno.hosts.network.link import TIMEOUT_S, WINDOW_S, Shape, Transfer, listen, receive_timed, send_timed
from mydyno.hosts.network.load_end import (
    ClassState,
    LoadEnd,
    LoadPath,
    PortClass,
    ShapedPort,
    card_with,
    shaping_obstacle,
)
from mydyno.hosts.network.namespace import programs_obstacle
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.root import HostRoot
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.link_proof import (
    ATTEMPTS,
    TIMED_ATTEMPTS,
    CardSpeed,
    is_as_fast_as_requested,
    judge,
    transfer_facts,
)


def is_shaped(shape: Shape) -> bool:
    """Whether anything is to be changed at all."""
    return shape.bits_per_s is not None or shape.latency is not None


def obstacle(shape: Shape, by_card: bool, root: HostRoot) -> str | None:
    """Why this host cannot be the server's end; None if it can, as far as that is known without its address."""
    if not is_shaped(shape):
        return None
    return programs_obstacle(root) if by_card else shaping_obstacle(shape.latency is not None, root)


def host_changes(shape: Shape, by_card: bool) -> list[str]:
    """What is changed on the hosts, for plan."""
    if not is_shaped(shape):
        return []
    if by_card:
        return ["the speed of the server's network card, by ethtool (its link goes down for seconds; restored after "
                "each run)"]  # fmt: skip
    return [
        "queueing disciplines of the network cards between server and load, on both hosts: packets of each server's "
        "port are shaped while it runs; all others pass as before"
    ]


async def examine(path: LoadPath, shape: Shape, by_card: bool) -> None:
    """Whether it can be done on all hosts. Raises HostError with the name of the host that cannot."""
    card = await asyncio.to_thread(card_with, path.address)
    shaped = is_shaped(shape) and not by_card
    if by_card and shape.bits_per_s is not None:
        words = await asyncio.to_thread(network_card.obstacle, card, shape.mbit_per_s)
        if words is not None:
            raise HostError(f"network: {words}", 'omit by = "card" to shape the server\'s port instead')
    for end in path.ends:
        await end.examine(path.address, shaped, shape.latency is not None)


@dataclass
class ApartLink:
    """One server's links to the hosts of its load."""

    shape: Shape
    by_card: bool
    instance: RunningServer
    path: LoadPath
    _card: str = ""
    _port: int = 0
    _proof_port: int = 0
    """Port of the timed transfers; shaped like the server's."""
    _bare: Transfer | None = None
    """The slowest before anything was changed."""
    _own: ShapedPort | None = None
    _far: list[tuple[LoadEnd, ShapedPort]] = field(default_factory=list)
    _speed: CardSpeed | None = None
    """Where the card's is set."""

    async def apply(self) -> None:
        """Measure the links as they are, then shape them. Raises StudyError: this run is lost, others may be made."""
        instance = self.instance
        try:
            self._card = await asyncio.to_thread(card_with, self.path.address)
            self._port = instance.ensure_client_path().port
            self._proof_port = await asyncio.to_thread(free_port, self.path.address)
            instance.settings.interface = self._card
            async with instance.host.timing:
                found = [one for end in self.path.ends for one in await self._transfers(end)]
            self._bare = min(found, key=lambda one: one.bits_per_s)
            if self.by_card and self.shape.bits_per_s is not None:
                self._speed = CardSpeed(self._card, self.shape.mbit_per_s, instance.undo)
                await self._speed.set()
            elif is_shaped(self.shape):
                await self._shape_ports()
        except HostError as error:
            raise StudyError(error.message, error.hint) from error

    async def _shape_ports(self) -> None:
        ports = (self._port, self._proof_port)
        own = PortClass(self._card, "server", self.path.address, ports)
        self._own = ShapedPort(self._card, await asyncio.to_thread(self.path.shaping.add, own, self.shape))
        for end in self.path.ends:
            self._far.append((end, await end.shape(self.path.address, ports, self.shape)))

    async def evidence(self) -> Evidence:
        """Transfers each way with each load host, and what tc or ethtool report."""
        assert self._bare is not None
        number = self.instance.number
        words, facts, holds, reached = [], self._places(), True, True
        downs, ups = [], []
        try:
            for end in self.path.ends:
                async with self.instance.host.timing:
                    down, up = await self._best(end)
                proof = judge(self.shape, self._bare.bits_per_s, down, up)
                holds, reached = holds and proof.holds, reached and proof.reached
                words.append(f"{end.name}: {proof.text}" if len(self.path.ends) > 1 else proof.text)
                downs.append(down)
                ups.append(up)
            read_holds, read_words, read_facts = await self._read_back()
        except HostError as error:
            return Evidence(treatment="network", holds=False, text=error.message, facts=facts, instance=number)
        facts |= read_facts | transfer_facts(self.shape, self._bare.bits_per_s, downs, ups, reached)
        text = "; ".join([*words, *read_words])
        return Evidence(treatment="network", holds=holds and read_holds, text=text, facts=facts, instance=number)

    def _places(self) -> dict[str, Any]:
        return {
            "by": "card" if self.by_card else "shaping",
            "server_end": f"{self._card} {self.path.address}, port {self._port}",
            "load_end": ", ".join(
                f"{end.name} {shaped.card}" for end, shaped in self._far
            ) or ", ".join(end.name for end in self.path.ends),
        }  # fmt: skip

    async def _read_back(self) -> tuple[bool, list[str], dict[str, Any]]:
        """(whether it holds, words, facts) of what was set."""
        if self._speed is not None:
            holds, words, facts = await self._speed.read_back()
            return holds, [words], facts
        if self._own is None:
            return True, [], {}
        before = await self._states()
        for end, _ in self._far:
            await end.reach(self.path.address, self._port)
        after = await self._states()
        missed = [name for name, state in after.items() if state.sent_packets <= before[name].sent_packets]
        wrong = [name for name, state in after.items() if not state.is_in_force(self.shape)]
        rates = ", ".join(
            f"{name} {state.rate}" + (f" and {state.latency_s * 1e3:g} ms" if state.latency_s else "")
            for name, state in after.items()
        )
        words = f"tc reports for port {self._port}: {rates}"
        if wrong:
            words += f"; not as requested on {', '.join(wrong)}"
        if missed:
            words += f"; a connection to the port was not counted on {', '.join(missed)}"
        return not missed and not wrong, [words], {"classes": {name: state.rate for name, state in after.items()}}

    async def _states(self) -> dict[str, ClassState]:
        """{host and card: what tc reports of the class}."""
        assert self._own is not None
        found = {
            f"server {self._own.card}": await asyncio.to_thread(
                self.path.shaping.state, self._own.card, self._own.number
            )
        }
        for end, shaped in self._far:
            found[f"{end.name} {shaped.card}"] = await end.state(shaped)
        return found

    async def _best(self, end: LoadEnd) -> tuple[Transfer, Transfer]:
        """The first pair that is as fast as requested, else the last."""
        for attempt in range(ATTEMPTS):
            found = await self._transfers(end)
            if all(is_as_fast_as_requested(self.shape, one) for one in found) or attempt + 1 == ATTEMPTS:
                return found
        raise AssertionError("unreachable")

    async def _transfers(self, end: LoadEnd) -> tuple[Transfer, Transfer]:
        """(to the load, to the server), with the busier host's CPUs. Raises HostError."""
        return await self._timed(end, sends=False), await self._timed(end, sends=True)

    async def _timed(self, end: LoadEnd, sends: bool) -> Transfer:
        """One transfer, in which the load's host sends or receives; made again where it could not be timed."""
        for attempt in range(TIMED_ATTEMPTS):
            try:
                with listen(self.path.address, self._proof_port) as listener:
                    return await self._transfer(end, listener, sends)
            except (HostError, OSError) as error:
                if attempt + 1 < TIMED_ATTEMPTS:
                    continue
                raise HostError(
                    f"no timed transfer between {self.path.address} and the load host {end.name}: {error}",
                    f"does a firewall let {end.name} connect to ports from 10000 on of {self.path.address}?",
                ) from error
        raise AssertionError("unreachable")

    async def _transfer(self, end: LoadEnd, listener: socket.socket, sends: bool) -> Transfer:
        window_s = self.shape.window_s(WINDOW_S)
        half = receive_timed if sends else send_timed
        here = asyncio.ensure_future(_accepted(listener, lambda link: half(link, window_s)))
        try:
            there = await end.transfer(self.path.address, self._proof_port, sends, window_s)
            own = await here
        finally:
            here.cancel()
            await asyncio.gather(here, return_exceptions=True)
        return Transfer((own if sends else there).bits_per_s, max(own.cpu_busy, there.cpu_busy))

    async def undo(self) -> None:
        """Remove the classes on all hosts, and restore the card."""
        far, self._far = self._far, []
        for end, shaped in far:
            try:
                await end.unshape(shaped)
            except HostError:
                continue  # the host is lost, which ends the block; what runs there undoes its own changes
        if self._own is not None:
            await asyncio.to_thread(self.path.shaping.remove, self._own.card, self._own.number)
            self._own = None
        if self._speed is not None:
            await self._speed.restore()


async def _accepted(listener: socket.socket, half: Callable[[socket.socket], Transfer]) -> Transfer:
    """This host's half. When it is cancelled, no thread continues to wait for the other host: asyncio.run() would wait
    for that thread, up to TIMEOUT_S.
    """
    listener.setblocking(False)
    async with asyncio.timeout(TIMEOUT_S):
        link, _ = await asyncio.get_running_loop().sock_accept(listener)
    try:
        return await asyncio.to_thread(half, link)
    finally:
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)
