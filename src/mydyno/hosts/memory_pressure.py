"""Which processes the kernel ended for lack of memory: from its log, /dev/kmsg (Documentation/ABI/testing/dev-kmsg).

Ids are used again: only what was killed since a study's own beginning is its own. The log's clock is the kernel's own,
which NTP does not slew as it does CLOCK_MONOTONIC, by at most 500 parts in a million. The log has process ids of the
initial PID namespace, and a container may not read it: then it is not known.

The kernel's memory counters, for validity checks: /proc/vmstat (proc(5)).

Growth since boot; a missing counter is None.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Set
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

INITIAL_NAMESPACE = "pid:[4026531836]"
"""Its inode is fixed (PROC_PID_INIT_INO of the kernel's proc_ns.h)."""
RECORD_BYTES = 8192
"""One read returns one record; none is longer."""
SLEWED = 0.001
"""By which part of the time since the boot the two clocks may differ."""
_KILLED = re.compile(r"^\d+,\d+,(\d+)[^;]*;.*Killed process (\d+)\b")


def killed_processes(since_s: float) -> Set[int] | None:
    """The ids of all that were killed since a time of CLOCK_MONOTONIC; None where the log cannot be read."""
    since_us = round((since_s - SLEWED * time.monotonic()) * 1e6)
    try:
        if Path("/proc/self/ns/pid").readlink().name != INITIAL_NAMESPACE:
            return None
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found: set[int] = set()
    with closing(os.fdopen(log, "rb", buffering=0)):
        while True:
            with suppress(BrokenPipeError):  # a record was overwritten before it was read
                try:
                    record = os.read(log, RECORD_BYTES)
                except BlockingIOError:
                    return found
                found |= killed_in(record.decode(errors="replace"), since_us)


def killed_in(record: str, since_us: int) -> Set[int]:
    """The process that a record of the log names as killed for lack of memory, if it does and is not older."""
    match = _KILLED.match(record)
    return {int(match[2])} if match and int(match[1]) >= since_us else set()


@dataclass(frozen=True)
class MemoryCounters:
    """Counters since boot."""

    swapped_bytes: int | None
    out_of_memory_kills: int | None

    @classmethod
    def read(cls, path: Path = Path("/proc/vmstat")) -> MemoryCounters:
        """Now."""
        try:
            pairs = dict(line.split() for line in path.read_text().splitlines() if line.count(" ") == 1)
        except OSError:
            pairs = {}
        pages = [int(pairs[name]) for name in ("pswpin", "pswpout") if name in pairs]
        kills = pairs.get("oom_kill")
        return cls(
            swapped_bytes=sum(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None,
            out_of_memory_kills=None if kills is None else int(kills),
        )

    def since(self, before: MemoryCounters) -> MemoryCounters:
        """The growth from `before` to this."""

        def difference(now: int | None, then: int | None) -> int | None:
            return None if now is None or then is None else now - then

        return MemoryCounters(
            difference(self.swapped_bytes, before.swapped_bytes),
            difference(self.out_of_memory_kills, before.out_of_memory_kills),
        )
