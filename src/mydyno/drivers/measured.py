"""A load program from its start to its end, with the CPU time that it took. Every driver's run() uses it.

CPU time is that of all children that ended meanwhile, as the kernel counts it (getrusage(2), RUSAGE_CHILDREN): with
several drivers at the same time it is known for all together, not for each.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mydyno import clock
from mydyno.drivers.base import StepContext
from mydyno.errors import DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.stored.records import DriverResult


@dataclass(frozen=True)
class ChildCpu:
    """CPU time of the children that have ended."""

    user_s: float
    system_s: float

    @classmethod
    def so_far(cls) -> ChildCpu:
        """Since mydyno began."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(usage.ru_utime, usage.ru_stime)

    def since(self, before: ChildCpu) -> ChildCpu:
        """Between two readings, in milliseconds."""
        return ChildCpu(round(self.user_s - before.user_s, 3), round(self.system_s - before.system_s, 3))


@dataclass(frozen=True)
class CompletedProgram:
    """A load program that ran to its end."""

    exit_code: int
    started_unix_ns: int
    cpu: ChildCpu

    def with_cpu(self, result: DriverResult) -> DriverResult:
        """The result with the program's CPU time."""
        return result.model_copy(update={"cpu_user_s": self.cpu.user_s, "cpu_system_s": self.cpu.system_s})


async def run_measured(
    host: LocalHost,
    command: list[str],
    context: StepContext,
    read: Callable[[Process], Awaitable[None]],
    *,
    grace_s: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CompletedProgram:
    """Start the program where the load comes from, and let `read` read its standard output until it ends.

    Raises DriverError, and kills it, where it still runs `grace_s` after the step's time.
    """
    before = ChildCpu.so_far()
    started_unix_ns = clock.unix_ns()
    process = await host.start(
        command,
        environment=environment,
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        entering=context.address.entering,
    )
    context.on_start(process.pid)
    try:
        await asyncio.wait_for(read(process), context.step.warmup_s + context.step.measure_s + grace_s)
    except TimeoutError:
        raise DriverError(
            f"{Path(command[0]).name} still ran {grace_s:.0f} s after its time was over and was killed "
            "(a hanging server?)"
        ) from None
    finally:
        await process.end(0.0)
    return CompletedProgram(process.exit_code or 0, started_unix_ns, ChildCpu.so_far().since(before))
