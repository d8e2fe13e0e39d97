"""How busy this host is, and what a process does.

The use of CPUs is read around the slices of an interleaved study: /proc/stat (proc_stat(5)), in ticks of 10 ms, and the
CPU clock of a process (clock_getcpuclockid(3)), in ns. A read of either costs some microseconds. Steal is what the
hypervisor reports; a hypervisor that reports none reads 0.

Whether a process makes headway with work of unknown length (a shutdown that writes dirty pages, a recovery) is read
every LOOK_S: its CPU time, the bytes that it read and wrote (proc_pid_io(5); not those of other users) and the state of
its first thread. An idle server uses less than 1 % of a CPU: that is no headway. A process in an endless loop makes
headway for ever; what it does is reported every SAY_S.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from mydyno.model.definition.quantities import format_bytes, format_duration

_STAT = Path("/proc/stat")
LOOK_S = 2.0
SAY_S = 20.0
LEAST_CPUS = 0.05
LEAST_IO_BYTES_PER_S = 16 << 10

Result = TypeVar("Result")


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

    @property
    def steal_share(self) -> float:
        """Steal over all CPU time, 0 to 1; of a difference made by since(). 0 where no time has passed."""
        return self.steal_s / self.total_s if self.total_s else 0.0


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
