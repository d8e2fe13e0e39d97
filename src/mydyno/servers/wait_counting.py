"""Counts what the load waits for, in a few servers, from begin() to end().

Instruments are on all the time, as what is created while they are off is never counted; the consumer
global_instrumentation decides whether anything is counted. Without it an event costs the test of a flag.

The counters of information_schema.innodb_metrics that a server has enabled: its default ones.

None is enabled here, since some of them cost the measured slices too (server.variables.innodb_monitor_enable does it).
Only counters are read: values, and sets of counters with an owner, are nothing per operation. It takes one query.

What the load's sessions are doing, sampled: their state, and the wait event that they are in.

One query each SAMPLE_S on a connection of its own, of performance_schema.threads and events_waits_current: neither
takes a lock of the server, unlike the process list. Sessions in the command Sleep wait for the client: not active.
A session that is active without a wait event runs, waits for a CPU, or waits for what has no instrument.

Wrong when the host is so busy that samples come late: they are as many fewer, and their times are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from mydyno import clock
from mydyno.errors import ServerError
from mydyno.model.stored.waits import SessionKind
from mydyno.servers.lock_instances import LockUse, forget_instances, read_instances
from mydyno.servers.performance_schema import Counts, grown, read_counts, without_digested_executions
from mydyno.servers.running.base import LOAD_USER, RunningServer
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
_COLUMN = (
    "SELECT COLUMN_NAME FROM information_schema.columns WHERE LOWER(TABLE_SCHEMA) = 'information_schema' "
    "AND UPPER(TABLE_NAME) = 'INNODB_METRICS' AND UPPER(COLUMN_NAME) IN ('STATUS', 'ENABLED')"
)
"""MariaDB 10.5 and later has ENABLED = 1 in place of STATUS = 'enabled'."""
_READ = "SELECT NAME, `COUNT` FROM information_schema.innodb_metrics WHERE {enabled} AND TYPE IN ({types})"
_TYPES = "'counter', 'status_counter'"
_LEVELS = ("_current_waits", "_reserved", "_free_space")
"""Ends of the names of levels that some versions call counters."""
SAMPLE_S = 0.1
CURRENT_WAITS = "events_waits_current"
"""The consumer that keeps the wait event of each thread."""
_QUERY = (
    "SELECT THREAD_ID, PROCESSLIST_STATE, NULL, 0 FROM performance_schema.threads "
    "WHERE PROCESSLIST_USER = %s AND PROCESSLIST_COMMAND <> 'Sleep' UNION ALL "
    "SELECT THREAD_ID, NULL, EVENT_NAME, EVENT_ID FROM performance_schema.events_waits_current "
    "WHERE END_EVENT_ID IS NULL"
)
Activity = Mapping[tuple[SessionKind, str], int]
"""How many sessions are active ("active", ""), in a state ("state", name) or in a wait event ("wait", name)."""


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


async def read_metrics(control: Control) -> dict[str, float]:
    """{counter: its value}; empty where the server has no such table. Raises ServerError."""
    columns = [str(name).upper() for (name,) in await control.rows(_COLUMN)]
    if not columns:
        return {}
    enabled = "ENABLED = 1" if "ENABLED" in columns else "STATUS = 'enabled'"
    rows = await control.rows(_READ.format(enabled=enabled, types=_TYPES))
    return {str(name): float(count) for name, count in rows if not str(name).endswith(_LEVELS)}


def metrics_grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What was added; a counter that was reset added nothing."""
    return {
        name: value - before[name] for name, value in after.items() if name in before and value > before[name]
    }  # fmt: skip


@dataclass(frozen=True)
class SessionSample:
    """The load's sessions at one moment, of all servers of a run."""

    unix_s: float
    activity: Activity


def activity_of(rows: Sequence[tuple[Any, ...]]) -> Activity:
    """From the rows of one query: a session in nested wait events counts in the innermost."""
    states = {thread: str(state or "") for thread, state, event, _ in rows if event is None}
    waits: dict[Any, tuple[int, str]] = {}
    for thread, _, event, number in rows:
        if event is not None and thread in states:
            waits[thread] = max(waits.get(thread, (-1, "")), (int(number), str(event)))
    found: Counter[tuple[SessionKind, str]] = Counter()
    for thread, state in states.items():
        found["active", ""] += 1
        found["state", state] += 1
        found["wait", waits.get(thread, (0, ""))[1]] += 1
    return found


class SessionSampler:
    """Samples a few servers from start() to stop()."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._servers = servers
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._samples: list[SessionSample] = []

    async def start(self) -> None:
        """Connect and sample from now on. Raises ServerError."""
        try:
            controls = [await self._stack.enter_async_context(server.control()) for server in self._servers]
        except BaseException:
            await self._stack.aclose()
            raise
        self._task = asyncio.create_task(self._sample(controls))

    async def stop(self) -> tuple[SessionSample, ...]:
        """All samples. Raises ServerError if sampling failed. Safe to call again."""
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        finally:
            await self._stack.aclose()
        return tuple(self._samples)

    async def _sample(self, controls: Sequence[Control]) -> None:
        due = time.monotonic()
        while True:
            found: Counter[tuple[SessionKind, str]] = Counter()
            for control in controls:
                found.update(activity_of(await control.rows(_QUERY, LOAD_USER)))
            self._samples.append(SessionSample(clock.unix_ns() / 1e9, found))
            due = max(due + SAMPLE_S, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
