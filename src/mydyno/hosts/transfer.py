"""A timed transfer over TCP between two namespaces: what a link really delivers, as payload, in one direction.

Measured at the receiver, after the sender's congestion window had time to open. Sender and receiver are threads of
this process; they sleep in the kernel nearly all the time. On CPUs that others keep busy it comes out too low, or, when
the receiver waited for a CPU just as its window began and then finds full buffers, some percent too high.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.namespace import inside

RAMP_S = 0.2
WINDOW_S = 0.5
TIMEOUT_S = 10.0
_BLOCK = bytes(256 << 10)


@dataclass(frozen=True)
class Transfer:
    """One direction's result."""

    bits_per_s: float
    cpu_busy: float
    """Share of this host's CPUs that was busy, whoever with, while it ran."""


def timed_transfer(source: Path | None, destination: Path | None, address: str, window_s: float = WINDOW_S) -> Transfer:
    """Send from a namespace to an address in another for RAMP_S + window_s. Raises OSError where no byte arrives."""
    listener = inside(destination, lambda: _listen(address))
    try:
        port = listener.getsockname()[1]
        sender = inside(source, lambda: socket.create_connection((address, port), TIMEOUT_S))
        receiver, _ = listener.accept()
    finally:
        listener.close()
    before = _cpu_ticks()
    thread = threading.Thread(target=_send, args=(sender, RAMP_S + window_s))
    thread.start()
    try:
        rate = _receive(receiver, window_s)
    finally:
        receiver.close()
        thread.join()
    busy, total = (after - then for after, then in zip(_cpu_ticks(), before, strict=True))
    return Transfer(rate, busy / total if total else 0.0)


def _listen(address: str) -> socket.socket:
    listener = socket.socket()
    listener.settimeout(TIMEOUT_S)
    listener.bind((address, 0))
    listener.listen(1)
    return listener


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
    began = time.monotonic()
    total = 0
    first: tuple[float, int] | None = None
    last = (began, 0)
    while count := receiver.recv_into(buffer):
        now = time.monotonic()
        total += count
        if now - began > RAMP_S + window_s:
            continue  # only emptied, so that the sender is not cut off
        if first is None and now - began >= RAMP_S:
            first = (now, total)
        last = (now, total)
    if first is None or last[0] <= first[0]:
        raise OSError(f"{total} bytes arrived in {time.monotonic() - began:.1f} s: too few to time")
    return (last[1] - first[1]) * 8 / (last[0] - first[0])


def _cpu_ticks() -> tuple[int, int]:
    """(busy, all) ticks of all CPUs since boot (proc(5), stat)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)
