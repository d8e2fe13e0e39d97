"""How busy this host is, and what a process has used of its CPUs; read around the slices of an interleaved study.

Source: /proc/stat (proc_stat(5)), in ticks of 10 ms, and the CPU clock of a process (clock_getcpuclockid(3)), in ns.
A read of either costs some microseconds. Steal is what the hypervisor reports; a hypervisor that reports none reads 0.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from pathlib import Path

_STAT = Path("/proc/stat")


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
