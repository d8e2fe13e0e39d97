"""One study at a time on a host: two would disturb each other.

The lock is a Unix socket in the abstract name space (unix(7)): it belongs to the host, needs no file, and the kernel
releases it when its holder dies. A process that finds it taken connects and reads the name of the holder.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError

ADDRESS = "\0mydyno-study"
CLEANING = "mydyno clean"
"""Holds the lock for a moment, as if it were a study; so does what removes servers."""


@contextmanager
def study_lock(study: str, address: str = ADDRESS) -> Iterator[None]:
    """Hold the host's lock. Raises HostError naming the study that holds it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    answering: threading.Thread | None = None
    try:
        try:
            listener.bind(address)
        except OSError:
            raise another_study(lock_holder(address) or Holder(), study) from None
        listener.listen(8)
        answer = json.dumps({"study": study, "pid": os.getpid()}).encode()
        answering = threading.Thread(target=_answer, args=(listener, answer), daemon=True)
        answering.start()
        yield
    finally:
        # accept() in the other thread would keep the socket, and so the lock, alive beyond close().
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        if answering is not None:
            answering.join(timeout=5)
        listener.close()
        if answering is not None:
            answering.join(timeout=10)


async def turn_of(
    stack: ExitStack, study: str, address: str, say: Callable[[str], None] | None, step_s: float = 1.0
) -> None:
    """Hold the lock until the stack ends. With `say`, which receives whom it waits for, after the studies that hold it
    now; without, raises HostError as study_lock does.
    """
    waiting_for = ""
    while True:
        try:
            stack.enter_context(study_lock(study, address))
        except HostError:
            if say is None:
                raise
        else:
            return
        holder = str(lock_holder(address) or Holder())
        if holder != waiting_for:
            say(f"waiting for another study on this host: {holder}")
            waiting_for = holder
        await asyncio.sleep(step_s)


def another_study(holder: Holder, refused: str = "") -> HostError:
    """The refusal of a second study on this host, or of what would remove files that a study uses."""
    hint = "two studies on one host disturb each other; with --wait this one begins when that has ended"
    if refused == CLEANING:
        hint = "remove what it may use when it has ended"
    return HostError(f"another study is running on this host: {holder}", hint)


def _answer(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # the lock was let go
        with connection:
            try:
                connection.sendall(answer)
            except OSError:
                continue


@dataclass(frozen=True)
class Holder:
    """The study that runs on this host; empty and 0 where the process that holds the lock did not answer."""

    study: str = ""
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.study} (pid {self.pid})" if self.pid else "unknown"


def lock_holder(address: str = ADDRESS) -> Holder | None:
    """The process that holds the host's lock; None: it is free."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            asker.settimeout(2)
            asker.connect(address)
            reported = json.loads(asker.recv(4096))
    except ConnectionRefusedError:
        return None
    except (OSError, ValueError):
        return Holder()
    return Holder(str(reported["study"]), int(reported["pid"]))


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """One controller at a time for a study's folder, also from several containers that share it (flock(2)).

    Raises HostError naming the process that holds it.
    """
    path = folder / ".controller.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise HostError(
                f"another mydyno controls {folder.name}: {file.read().strip() or 'unknown'}", "wait for it to end"
            ) from None
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {platform.node()}")
        file.flush()
        yield
