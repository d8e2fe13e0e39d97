"""Whether a process makes headway with work of unknown length: a shutdown that writes dirty pages, a recovery.

Read every LOOK_S: its CPU time (clock_getcpuclockid(3)), the bytes that it read and wrote (proc_pid_io(5); not those
of other users) and the state of its first thread. An idle server uses less than 1 % of a CPU: that is no headway. A
process in an endless loop makes headway for ever; what it does is reported every SAY_S.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mydyno.hosts.quiet import process_cpu_s
from mydyno.model.definition.quantities import format_bytes, format_duration

LOOK_S = 2.0
SAY_S = 20.0
LEAST_CPUS = 0.05
LEAST_IO_BYTES_PER_S = 16 << 10

Result = TypeVar("Result")


@dataclass(frozen=True)
class Work:
    """What a process has done so far."""

    cpu_s: float = 0.0
    io_bytes: int = 0
    in_kernel: bool = False
    """Whether its first thread waits in the kernel for a device, as sync(1) does: it cannot be killed before."""

    @classmethod
    def of(cls, pid: int) -> Work:
        """Zeros of what cannot be read."""
        folder = Path("/proc") / str(pid)
        io_bytes, state = 0, ""
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            for line in (folder / "io").read_text().splitlines():
                name, _, value = line.partition(": ")
                io_bytes += int(value) if name in ("read_bytes", "write_bytes") else 0
        except (OSError, IndexError):
            pass  # it has ended, or is of another user
        return cls(process_cpu_s(pid) or 0.0, io_bytes, state == "D")

    def is_headway(self, before: Work, passed_s: float) -> bool:
        """Whether more was done since `before` than by an idle process."""
        return (
            self.in_kernel
            or self.cpu_s - before.cpu_s >= LEAST_CPUS * passed_s
            or self.io_bytes - before.io_bytes >= LEAST_IO_BYTES_PER_S * passed_s
        )


class Headway:
    """The headway of one process, from now on."""

    def __init__(
        self,
        pid: int,
        still_s: float,
        say: Callable[[str], None] = lambda _: None,
        doing: str = "",
        *,
        read: Callable[[int], Work] = Work.of,
        now: Callable[[], float] = time.monotonic,
        look_s: float = LOOK_S,
    ) -> None:
        """It may be without headway for `still_s`. `doing` names the work for `say`: "mysql-8.4 stops"."""
        self._pid, self._still_s, self._say, self._doing, self._read, self._now = pid, still_s, say, doing, read, now
        self._look_s = look_s
        self._began_s = self._moved_s = self._looked_s = self._said_s = now()
        self._work = read(pid)

    def ended(self, counts: bool = True) -> bool:
        """Whether it has made none for too long; to be called again and again. Not `counts`: what it does is none."""
        now_s = self._now()
        passed_s = now_s - self._looked_s
        if passed_s >= self._look_s:
            before, self._work, self._looked_s = self._work, self._read(self._pid), now_s
            if counts and self._work.is_headway(before, passed_s):
                self._moved_s = now_s
            if now_s - self._said_s >= SAY_S:
                self._said_s = now_s
                self._say(
                    f"{self._doing}: {format_duration(now_s - self._began_s)}, {self._work.cpu_s:.0f} s of CPU time, "
                    f"{format_bytes(self._work.io_bytes)} read and written"
                )
        return now_s - self._moved_s >= self._still_s

    async def wait(self, work: Awaitable[Result]) -> Result:
        """Await the process's end. Raises TimeoutError, and cancels the waiting, where it makes no headway."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self.ended():
                    raise TimeoutError
                await asyncio.wait({task}, timeout=min(self._look_s, self._still_s))
            return task.result()
        finally:
            task.cancel()
