"""How busy this host is, and what a process does.

The use of CPUs is read around the slices of an interleaved study: /proc/stat (proc_stat(5)), in ticks of 10 ms, and the
CPU clock of a process (clock_getcpuclockid(3)), in ns. A read of either costs some microseconds. Steal is what the
hypervisor reports; a hypervisor that reports none reads 0. The kernel's memory counters, for validity checks, are those
of /proc/vmstat (proc(5)): growth since boot; a missing counter is None.

Whether a process makes headway with work of unknown length (a shutdown that writes dirty pages, a recovery) is read
every LOOK_S: its CPU time, the bytes that it read and wrote (proc_pid_io(5); not those of other users) and the state of
its first thread. An idle server uses less than 1 % of a CPU: that is no headway. A process in an endless loop makes
headway for ever; what it does is reported every SAY_S.

Which processes the kernel ended for lack of memory is known from its log, /dev/kmsg
(Documentation/ABI/testing/dev-kmsg). Ids are used again: only what was killed since a study's own beginning is its own.
The log's clock is the kernel's own, which NTP does not slew as it does CLOCK_MONOTONIC, by at most 500 parts in a
million. The log has process ids of the initial PID namespace, and a container may not read it: then it is not known.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Set
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from mydyno.hosts.root import text_of
from mydyno.model.definition.quantities import format_bytes, format_duration

_STAT = Path("/proc/stat")
LOOK_S = 2.0
"""Between two looks at the headway of a process."""
SAY_S = 20.0
LEAST_CPUS = 0.05
LEAST_IO_BYTES_PER_S = 16 << 10

Result = TypeVar("Result")
INITIAL_NAMESPACE = "pid:[4026531836]"
"""Its inode is fixed (PROC_PID_INIT_INO of the kernel's proc_ns.h)."""
RECORD_BYTES = 8192
"""One read returns one record; none is longer."""
SLEWED = 0.001
"""By which part of the time since the boot the two clocks may differ."""
_KILLED = re.compile(r"^\d+,\d+,(\d+)[^;]*;.*Killed process (\d+)\b")


@dataclass(frozen=True)
class HostCpu:
    """Seconds of all CPUs together since boot, each in one class; the sum of them is cpus × elapsed seconds."""

    user_s: float
    """User code, niced or not; the time of virtual machines that run on this host included."""
    system_s: float
    """Kernel code outside of interrupts."""
    irq_s: float
    """Interrupts and soft interrupts."""
    idle_s: float
    iowait_s: float
    """Idle while a task of that CPU waited for I/O."""
    steal_s: float
    """Time in which this host was ready to run and the hypervisor ran others."""
    cpus: int
    """CPUs that are online."""

    @classmethod
    def read(cls, path: Path = _STAT) -> HostCpu:
        """Now. Raises OSError if /proc/stat cannot be read, ValueError if it has no line for all CPUs."""
        lines = path.read_text().splitlines()
        total = next((line.split() for line in lines if line.startswith("cpu ")), None)
        if total is None:
            raise ValueError(f"{path} has no line cpu")
        # user nice system idle iowait irq softirq steal; guest times are contained in user and nice.
        ticks = [int(field) for field in total[1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
        per_s = os.sysconf("SC_CLK_TCK")
        return cls(
            user_s=(user + nice) / per_s,
            system_s=system / per_s,
            irq_s=(irq + softirq) / per_s,
            idle_s=idle / per_s,
            iowait_s=iowait / per_s,
            steal_s=steal / per_s,
            cpus=sum(line.startswith("cpu") for line in lines) - 1,
        )

    @property
    def busy_s(self) -> float:
        """CPU seconds that this host's own work used: user, system and interrupts."""
        return self.user_s + self.system_s + self.irq_s

    @property
    def total_s(self) -> float:
        """All classes together."""
        return self.busy_s + self.idle_s + self.iowait_s + self.steal_s

    def since(self, before: HostCpu) -> HostCpu:
        """What was added from `before` to this; `cpus` is of this one.

        A class that went backwards (iowait can, proc_stat(5)) counts 0.
        """
        names = [field.name for field in fields(self) if field.name != "cpus"]
        grown = {name: max(0.0, getattr(self, name) - getattr(before, name)) for name in names}
        return HostCpu(**grown, cpus=self.cpus)


def process_cpu_s(pid: int) -> float | None:
    """CPU seconds of user and kernel code of all threads of a process, ended ones included; None if it has ended.

    The clock counts in ns, while /proc/PID/stat counts in ticks of 10 ms.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9  # CPUCLOCK_SCHED of that process
    except OSError:
        return None


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
        pairs = dict(line.split() for line in text_of(path).splitlines() if line.count(" ") == 1)
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
