"""A timed transfer over TCP between two namespaces: the actual throughput of a link, as payload, in one direction.

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

from mydyno.hosts.network.namespace import inside

RAMP_S = 0.2
WINDOW_S = 0.5
TIMEOUT_S = 10.0
_BLOCK = bytes(256 << 10)


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


def send_timed(link: socket.socket, window_s: float = WINDOW_S) -> Transfer:
    """The sending half of a transfer to another host; its rate is known to the receiver alone. Closes the socket."""
    before = cpu_ticks()
    link.settimeout(TIMEOUT_S)
    _send(link, RAMP_S + window_s)
    return Transfer(0.0, busy_since(before))


def receive_timed(link: socket.socket, window_s: float = WINDOW_S) -> Transfer:
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
