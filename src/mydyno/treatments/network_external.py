"""The network to an external server: its bandwidth is that of this host's network card, which ethtool can set.

`server.card` names the card that leads to the server, and with it asks for that: both directions of a wire have one
speed, so this end suffices. The card's state is in the undo journal before it is changed, and given back after each
run. Proved in every run by the speed read back, and by a timed transfer each way over the server's own port (nothing is
started on its host). Without a card nothing is changed: an arm may then only have `network = {}`, measured as it is.

The timed transfers. Down: statements that answer with 256 KiB each are sent far ahead of their answers, and the
answers' bytes are timed as they come. Up: statements of 256 KiB each, and their answers are timed, so that only what
the server has read counts. Nothing is written to the server. It handles each byte in one thread, so some Gbit/s are the
most that can be shown. In plain text and uncompressed, whatever the load speaks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from mydyno.errors import HostError, ServerError, StudyError
from mydyno.hosts.network import network_card
from mydyno.hosts.network.link import WINDOW_S, Shape, TimedWindow, Transfer, busy_since, cpu_ticks
from mydyno.hosts.root import HostRoot
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.stored.records import Evidence
from mydyno.servers.dsn import parse_dsn
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Address, Control
from mydyno.treatments.client_path import external_obstacle
from mydyno.treatments.link_proof import (
    ATTEMPTS,
    TIMED_ATTEMPTS,
    CardSpeed,
    is_as_fast_as_requested,
    judge,
    transfer_facts,
)

CHUNK_BYTES = 256 << 10
"""Below every server's max_allowed_packet."""
TIMEOUT_S = 10.0
QUERY = b"\x03"
"""COM_QUERY."""
ERROR = 0xFF
"""The first byte of an ERR packet."""
DOWN = b"SELECT REPEAT('x', %d)" % CHUNK_BYTES
Receive = Callable[[socket.socket, TimedWindow], None]
UP = b"DO '%s'" % (b"x" * CHUNK_BYTES)


async def timed_transfers(address: Address, window_s: float = WINDOW_S) -> tuple[Transfer, Transfer]:
    """(from the server, to the server). Raises ServerError if there is no session, or no byte arrives."""
    found = []
    for statement, receive in ((DOWN, _receive_rows), (UP, _receive_answers)):
        async with Control(address, TIMEOUT_S, plain=True) as session:
            try:
                found.append(await asyncio.to_thread(_timed, session.raw_socket(), statement, receive, window_s))
            except OSError as error:
                raise ServerError(f"a timed transfer over the server's port: {error}") from error
    return found[0], found[1]


def _timed(link: socket.socket, statement: bytes, receive: Receive, window_s: float) -> Transfer:
    link.settimeout(TIMEOUT_S)
    before = cpu_ticks()
    packet = struct.pack("<I", len(statement) + 1)[:3] + b"\0" + QUERY + statement
    sender = threading.Thread(target=_send, args=(link, packet))
    window = TimedWindow(window_s)
    sender.start()
    try:
        receive(link, window)
        return Transfer(window.bits_per_s(), busy_since(before))
    finally:
        link.shutdown(socket.SHUT_RDWR)  # the sender waits for room in it, and answers are outstanding
        sender.join()


def _send(link: socket.socket, packet: bytes) -> None:
    several = packet * max(1, CHUNK_BYTES // 8 // len(packet))
    try:
        while True:
            link.sendall(several)
    except OSError:
        return  # shut down by the one who receives, or lost, which he sees too


def _receive_rows(link: socket.socket, window: TimedWindow) -> None:
    """Bytes as they come, whatever they are; an error comes in one small packet and no more."""
    buffer = bytearray(1 << 20)
    first = True
    while not window.is_over:
        count = link.recv_into(buffer)
        if not count:
            raise OSError("the server ended the connection")
        if first and count > 4 and buffer[4] == ERROR:
            raise OSError(f"the server refuses {DOWN.decode()}")
        first = False
        window.take(count)


def _receive_answers(link: socket.socket, window: TimedWindow) -> None:
    """One packet for each statement that the server has read to its end."""
    waiting = b""
    while not window.is_over:
        received = link.recv(1 << 16)
        if not received:
            raise OSError("the server ended the connection")
        waiting += received
        while len(waiting) > 4 and len(waiting) >= (length := int.from_bytes(waiting[:3], "little")) + 4:
            if waiting[4] == ERROR:
                raise OSError(f"the server refuses a statement of {len(UP)} bytes")
            waiting = waiting[length + 4 :]
            window.take(len(UP) + 5)


def obstacle(shape: Shape, server: ServerSpec, root: HostRoot) -> str | None:
    """Why the path to this external server cannot be set up; None if it can."""
    words = external_obstacle(server)
    if words is not None:
        return words
    if shape.latency is not None:
        return "latency needs the server's host too; remove it for an external server (dsn)"
    if shape.bits_per_s is None:
        return None
    host = parse_dsn(server.dsn or "").host
    leads = network_card.interface_towards(host, root)
    if server.card is None:
        return (
            "shaping both directions needs the server's host. For an external server (dsn) the bandwidth is that of "
            f"this host's network card, set by ethtool where server.card names it (to {host} leads "
            f"{leads or 'no interface'}): --set server.card={leads or 'NAME'}; or leave bandwidth out and say "
            "network = {}, which measures the link as it is (docs/guides/network.md)"
        )
    if leads != server.card:
        return f"server.card is {server.card}, but to {host} leads {leads or 'no interface of this host'}"
    return network_card.obstacle(server.card, shape.mbit_per_s, root)


def host_changes(shape: Shape, card: str) -> list[str]:
    """What is changed on this host, for plan."""
    if shape.bits_per_s is None:
        return []
    return [
        f"{card} set to {shape.mbit_per_s} Mb/s by ethtool (its link goes down for seconds; restored after each run)"
    ]


class CardLink:
    """One arm's link to an external server."""

    def __init__(self, shape: Shape, instance: RunningServer) -> None:
        self._shape = shape
        self._instance = instance
        self._bare: Transfer | None = None
        self._speed: CardSpeed | None = None

    async def apply(self) -> None:
        """Measure the link as it is, journal the card's state, set its speed. Raises StudyError if it is refused."""
        if self._shape.bits_per_s is None or self._instance.card is None:
            return
        self._speed = CardSpeed(self._instance.card, self._shape.mbit_per_s, self._instance.undo)
        try:
            self._bare, _ = await timed_transfers(self._instance.address())
            await self._speed.set()
        except HostError as error:  # this run is lost, others may still be made
            raise StudyError(error.message, error.hint) from error

    async def evidence(self) -> Evidence:
        """The speed read back, and a timed transfer each way."""
        address = self._instance.address()
        facts: dict[str, Any] = {
            "side": "load",
            "load_end": self._instance.card or network_card.interface_towards(address.host),
        }
        try:
            down, up = await self._transfers()
            read = None if self._speed is None else await self._speed.read_back()
        except (HostError, ServerError) as error:
            return Evidence(treatment="network", holds=False, text=error.message, facts=facts)
        bare = self._bare.bits_per_s if self._bare else down.bits_per_s
        proof = judge(self._shape, bare, down, up)
        holds, text = proof.holds, proof.text
        facts |= transfer_facts(self._shape, bare, [down], [up], proof.reached)
        if read is not None:
            in_force, words, read_facts = read
            holds, text, facts = holds and in_force, f"{words}; {text}", facts | read_facts
        return Evidence(treatment="network", holds=holds, text=text, facts=facts)

    async def _transfers(self) -> tuple[Transfer, Transfer]:
        """The first pair that is as fast as asked, else the last. Raises ServerError."""
        failed, found = 0, None
        for _ in range(ATTEMPTS):
            try:
                found = await timed_transfers(self._instance.address())
            except ServerError:
                failed += 1
                if failed == TIMED_ATTEMPTS:
                    raise
                continue
            if all(is_as_fast_as_requested(self._shape, one) for one in found):
                break
        assert found is not None, "there are fewer failures than attempts"
        return found

    async def undo(self) -> None:
        """Restore the card's speed."""
        if self._speed is not None:
            await self._speed.restore()
