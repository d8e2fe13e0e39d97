"""The kernel's memory counters, for validity checks: /proc/vmstat (proc(5)).

Growth since boot; a missing counter is None."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


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
