"""Which process is which: a pid is reused, a pid with its start time is not (proc(5), field 22 of stat)."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from mydyno.hosts.root import HERE, HostRoot, text_of

COOKIE = "MYDYNO_STUDY"
"""The environment variable by which every process of a study is found again after kill -9."""
KILLED_S = 30.0
"""What a process that was killed may take to go: the kernel gives back its memory first, on a busy host slowly."""
STARTING_TRIES = 100
STARTING_STEP_S = 0.001
"""How often and how long apart a process is looked at that is just starting."""


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that is never confused with another: pid and start time in clock ticks since boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a live process; None if there is none (a zombie counts as none)."""
        fields = text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        return None if not fields or fields[0] in "ZX" else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return ProcessIdentity.of(self.pid) == self

    def send(self, signal_number: int) -> bool:
        """Send a signal to this very process, by pidfd so that no other can be hit; False if it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(descriptor, signal_number)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


def words_of(process: Path, kind: Literal["cmdline", "environ"], root: HostRoot = HERE) -> list[bytes]:
    """The arguments or environment variables of the process with this folder of /proc.

    A kernel thread has none, nor has a process that is gone or another user's. execve(2) empties both for a moment,
    which its caller may see; such a process is waited for.
    """
    try:
        words = (process / kind).read_bytes()
        for _ in range(STARTING_TRIES):
            if words:
                break
            was_starting = _is_starting(process)
            words = (process / kind).read_bytes()
            if not was_starting:
                break  # it has none; or it was starting when they were first read, and is not any more
            root.sleep(STARTING_STEP_S)
    except OSError:
        return []
    return words.rstrip(b"\0").split(b"\0")


def _is_starting(process: Path) -> bool:
    """Whether it has a program, but neither arguments nor environment yet. Raises OSError: no program, or gone."""
    (process / "exe").readlink()
    return not (process / "cmdline").read_bytes() and not (process / "environ").read_bytes()


def processes_with_cookie(value: str) -> list[ProcessIdentity]:
    """Every live process, other than this one, whose environment carries the study's cookie."""
    wanted = f"{COOKIE}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        if wanted in words_of(entry, "environ"):
            identity = ProcessIdentity.of(int(entry.name))
            if identity is not None:
                found.append(identity)
    return found


def end_all(processes: list[ProcessIdentity], grace_s: float = 10.0) -> list[ProcessIdentity]:
    """SIGTERM, then SIGKILL after the grace time; returns those still running."""
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLED_S)):
        for process in processes:
            process.send(number)
        deadline = time.monotonic() + patience_s
        while any(process.alive() for process in processes) and time.monotonic() < deadline:
            time.sleep(0.05)
    return [process for process in processes if process.alive()]


@cache
def boot_id() -> str:
    """A name of this boot of this host: random, by the kernel (random(4)); empty where it cannot be read."""
    return text_of(Path("/proc/sys/kernel/random/boot_id")).strip()


@cache
def pid_namespace() -> str:
    """The pid namespace of this process, e.g. pid:[4026531836]: a pid is known only in its own (pid_namespaces(7))."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
