"""Counts what the load waits for, in a few servers, from begin() to end().

Instruments are on all the time, as what is created while they are off is never counted; the consumer
global_instrumentation decides whether anything is counted. Without it an event costs the test of a flag.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from mydyno.errors import ServerError
from mydyno.servers.active_sessions import CURRENT_WAITS, SessionSample, SessionSampler
from mydyno.servers.innodb_metrics import metrics_grown, read_metrics
from mydyno.servers.lock_instances import LockUse, forget_instances, read_instances
from mydyno.servers.performance_schema import (
    Counts,
    grown,
    read_counts,
    without_digested_executions,
)
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Control

_INSTRUMENTS = (
    "(NAME LIKE 'wait/%' AND NAME NOT LIKE 'wait/io/table/%') OR NAME LIKE 'stage/%' OR NAME LIKE 'statement/%'"
)
_LEFT_OUT = "NAME LIKE 'wait/io/table/%' OR NAME = 'idle'"
_ALL = "'global_instrumentation'"
"""The consumer without which nothing is counted, whichever instruments are on."""
_SUMMARIES = "'thread_instrumentation', 'statements_digest'"
"""Summaries need these consumers as well."""
_LOST = "SHOW GLOBAL STATUS LIKE 'Performance\\_schema\\_%\\_lost'"


@dataclass(frozen=True)
class Counted:
    """What was counted between begin() and end(), of all servers together."""

    events: Counts = field(default_factory=dict)
    locks: dict[str, LockUse] = field(default_factory=dict)
    """{instrument: its instances} for mutexes and read-write locks, over all threads."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Growth of InnoDB's counters."""
    samples: tuple[SessionSample, ...] = ()
    lost: dict[str, int] = field(default_factory=dict)
    """Performance_schema_…_lost since the server's start, as far as it is not 0: objects that it could not count."""


@dataclass
class _Server:
    control: Control
    events: Counts = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    async def begin(self) -> None:
        await self._instruments(_LEFT_OUT, "NO")
        await self._instruments(_INSTRUMENTS, "YES")
        await self._consumers(f"{_ALL}, {_SUMMARIES}, '{CURRENT_WAITS}'", "YES")
        await forget_instances(self.control)
        self.metrics = await read_metrics(self.control)
        self.events = await read_counts(self.control)

    async def end(self) -> None:
        await self._consumers(f"{_ALL}, '{CURRENT_WAITS}'", "NO")

    async def lost(self) -> dict[str, int]:
        return {str(name): int(value) for name, value in await self.control.rows(_LOST) if int(value)}

    async def _consumers(self, names: str, on: str) -> None:
        await self.control.rows(
            f"UPDATE performance_schema.setup_consumers SET ENABLED = '{on}' WHERE NAME IN ({names})"
        )

    async def _instruments(self, which: str, on: str) -> None:
        await self.control.rows(
            f"UPDATE performance_schema.setup_instruments SET ENABLED = '{on}', TIMED = '{on}' WHERE {which}"
        )


async def stop_counting(server: RunningServer) -> None:
    """Count nothing until begin(): after the start, when all files of the data are open. Raises ServerError."""
    async with server.control() as control:
        await _Server(control).end()


class WaitCounting:
    """A few servers count from begin() to end()."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._running = servers
        self._stack = AsyncExitStack()
        self._servers: list[_Server] = []
        self._sampler = SessionSampler(servers)

    async def begin(self) -> None:
        """Switch counting on and read what was counted before. Raises ServerError; counting is off then."""
        try:
            for running in self._running:
                control = await self._stack.enter_async_context(running.control())
                await _check_available(control)
                server = _Server(control)
                self._servers.append(server)
                await server.begin()
            await self._sampler.start()
        except BaseException:
            await self._end()
            raise

    async def end(self) -> Counted:
        """Switch counting off; what was counted, of all servers together. Raises ServerError."""
        events: Counts = {}
        locks: dict[str, LockUse] = {}
        metrics: defaultdict[str, float] = defaultdict(float)
        lost: Counter[str] = Counter()
        try:
            samples = await self._sampler.stop()
            for server in self._servers:
                found = without_digested_executions(grown(server.events, await read_counts(server.control)))
                for event, (count, time_us) in found.items():
                    before = events.get(event, (0, 0.0))
                    events[event] = (before[0] + count, before[1] + time_us)
                for name, use in (await read_instances(server.control)).items():
                    locks[name] = use if name not in locks else locks[name].with_other(use)
                for metric, growth in metrics_grown(server.metrics, await read_metrics(server.control)).items():
                    metrics[metric] += growth
                lost.update(await server.lost())
        finally:
            await self._end()
        return Counted(events, locks, dict(metrics), samples, dict(lost))

    async def _end(self) -> None:
        with suppress(ServerError):
            await self._sampler.stop()
        for server in self._servers:
            with suppress(ServerError):  # the server has ended: its slice reports that
                await server.end()
        self._servers = []
        await self._stack.aclose()


async def _check_available(control: Control) -> None:
    if str(await control.scalar("SELECT @@performance_schema")) not in ("1", "ON"):
        raise ServerError("the server runs with performance_schema off")
