"""A timed transfer each way between this host and a MySQL server, over the server's own port: nothing runs on its host.

Down: statements that answer with 256 KiB each are sent far ahead of their answers, and the answers' bytes are timed as
they come. Up: statements of 256 KiB each, and their answers are timed, so that only what the server has read counts.
Nothing is written to the server. It handles each byte in one thread, so some Gbit/s are the most that can be shown. In
plain text and uncompressed, whatever the load speaks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable

from mydyno.errors import ServerError
from mydyno.hosts.network.link import WINDOW_S, TimedWindow, Transfer, busy_since, cpu_ticks
from mydyno.servers.sql import Address, Control

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
    sender = threading.Thread(target=_send, args=(link, _packet(statement)))
    window = TimedWindow(window_s)
    sender.start()
    try:
        receive(link, window)
        return Transfer(window.bits_per_s(), busy_since(before))
    finally:
        link.shutdown(socket.SHUT_RDWR)  # the sender waits for room in it, and answers are outstanding
        sender.join()


def _packet(statement: bytes) -> bytes:
    return struct.pack("<I", len(statement) + 1)[:3] + b"\0" + QUERY + statement


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
