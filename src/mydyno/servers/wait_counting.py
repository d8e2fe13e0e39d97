"""Counts what the load waits for, in a few servers, from begin() to end().

What the load's threads wait for is read from performance_schema: wait events, stages and statements. Its instruments
are on all the time in servers that have start_variables(), as what is created while they are off is never counted; the
consumer global_instrumentation decides whether anything is counted. Without it an event costs the test of a flag.
Summaries by user are read, as they keep the counts of threads that have ended; the load's user alone is counted, so
that background threads, which wait most of their time for work, are not in it. Sockets are summed up by the server as a
whole only.

Not counted, because servers have no instrument for it: the time of a row lock (taken from Innodb_row_lock_time
instead), MariaDB's waits for its redo log (its stage Commit has them), and waits in storage engines without
instruments. The instruments of table I/O are left off, since their times contain those of others.

Costs: while nothing is counted, memory (MariaDB 10.11: about 100 MB) and a test of a flag at each event; the experiment
performance-schema-cost measures it. While it counts, much more: that is why such slices are kept apart.

How the time of a lock is spread over its instances, one hot lock or many, is read as well. An instrument such as
wait/synch/mutex/innodb/buf_pool_mutex stands for all mutexes of this kind. Servers count waits by instance for all
threads together, background threads included, so only shares are taken from here; what the load's threads wait is in
the summaries by user. The table is emptied when counting begins. Reading it takes the server a pass over all its locks,
while it is not loaded.

Counters: those of information_schema.innodb_metrics that a server has enabled, which are its default ones. None is
enabled here, since some of them cost the measured slices too (server.variables.innodb_monitor_enable does it). Only
counters are read: values, and sets of counters with an owner, are nothing per operation. It takes one query.

What the load's sessions are doing is sampled: their state, and the wait event that they are in. It takes one query each
SAMPLE_S on a connection of its own, of performance_schema.threads and events_waits_current: neither takes a lock of the
server, unlike the process list. Sessions in the command Sleep wait for the client: not active. A session that is active
without a wait event runs, waits for a CPU, or waits for what has no instrument. It is wrong when the host is so busy
that samples come late: they are as many fewer, and their times are kept.
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
from mydyno.model.definition.experiment import Scalar
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.counted import ROW_LOCKS, SessionKind, WaitKind
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.sql import Control

_EMPTY_LOCKS = "TRUNCATE TABLE performance_schema.events_waits_summary_by_instance"
_READ_LOCKS = (
    "SELECT EVENT_NAME, COUNT(*), SUM(SUM_TIMER_WAIT), MAX(SUM_TIMER_WAIT) "
    "FROM performance_schema.events_waits_summary_by_instance WHERE SUM_TIMER_WAIT > 0 AND "
    "(EVENT_NAME LIKE 'wait/synch/mutex/%' OR EVENT_NAME LIKE 'wait/synch/rwlock/%' "
    "OR EVENT_NAME LIKE 'wait/synch/sxlock/%' OR EVENT_NAME LIKE 'wait/synch/prlock/%') GROUP BY EVENT_NAME"
)


@dataclass(frozen=True)
class LockUse:
    """The instances of one instrument on which any thread waited."""

    instances: int
    time_us: float
    hottest_us: float
    """Waiting time at the instance with the longest one."""

    def with_other(self, other: LockUse) -> LockUse:
        """Together with another slice, or another server, in which another instance may have been the hottest."""
        return LockUse(
            max(self.instances, other.instances), self.time_us + other.time_us, self.hottest_us + other.hottest_us
        )


async def forget_instances(control: Control) -> None:
    """Begin counting by instance from 0. Raises ServerError."""
    await control.rows(_EMPTY_LOCKS)


async def read_instances(control: Control) -> dict[str, LockUse]:
    """{instrument: its instances} since forget_instances(). Raises ServerError."""
    return {
        str(name): LockUse(int(instances), float(time) / PS_PER_US, float(hottest) / PS_PER_US)
        for name, instances, time, hottest in await control.rows(_READ_LOCKS)
    }


INSTRUMENT_OPTION = "performance_schema_instrument"
"""An option without a variable of this name: PATTERN=ON, PATTERN=OFF, PATTERN=COUNTED."""
_BY_USER = (
    "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_{of}_summary_by_user_by_event_name "
    "WHERE USER = %s AND COUNT_STAR > 0"
)
_SOCKETS = (
    "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name "
    "WHERE EVENT_NAME LIKE 'wait/io/socket/sql/client%' AND COUNT_STAR > 0"
)
_STATEMENTS = (
    "SELECT DIGEST_TEXT, SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT) FROM "
    "performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME IS NOT NULL AND DIGEST_TEXT IS NOT NULL "
    "AND DIGEST_TEXT NOT LIKE 'SHOW GLOBAL STATUS%' GROUP BY DIGEST_TEXT"
)
_EXECUTIONS = (
    "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM "
    "performance_schema.events_statements_summary_by_user_by_event_name "
    "WHERE USER = %s AND COUNT_STAR > 0 AND EVENT_NAME IN ('statement/com/Execute', 'statement/com/execute')"
)
"""Executions of prepared statements: all together are one event, as most servers keep no digest of them."""
_EXECUTION_DIGEST = "EXECUTE "
"""Beginning of the digest of such an execution where the server has one (MySQL 9)."""
_LEAST_REST = 0.01
"""Share of all executions below which those without a digest are left out: they ran between two readings."""
_ROW_LOCKS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_row_lock_waits', 'Innodb_row_lock_time')"
PS_PER_US = 1e6
_STATES = {("YES", "YES"): "ON", ("YES", "NO"): "COUNTED"}
"""(ENABLED, TIMED) of an instrument → the option's word."""

Event = tuple[WaitKind, str]
"""An instrument's name; of a statement its text without values, where it has one."""
Counts = dict[Event, tuple[int, float]]
"""event → (how often, µs altogether)"""


def start_variables(version: ServerVersion) -> dict[str, Scalar]:
    """Variables for a server in which counting can be switched on and off (servers/wait_counting.py).

    What is created while its instrument is off is never counted: files in all versions, up to MySQL 5.6 and MariaDB
    10.4 also mutexes, read-write locks and sockets. So the instruments of waits are on from the start.
    """
    old = not version.is_mysql_from(5, 7) and not version.is_mariadb_from(10, 5)
    return {"performance_schema": True, INSTRUMENT_OPTION: "%=ON" if old else "wait/%=ON"}


def version_obstacle(version: ServerVersion) -> str | None:
    """Why a server of this version cannot count waits; None if it can."""
    if version.flavour == "memcached":
        return "memcached has no performance_schema"
    if version.is_mysql_from(5, 6) or version.is_mariadb_from(10):
        return None
    return f"performance_schema of {version.name} has no summaries by user; MySQL 5.6 or MariaDB 10.0 is needed"


async def instrument_setting(control: Control, setting: str) -> str:
    """What a server made of a value of INSTRUMENT_OPTION, in the same form; "3 of 40 on" where only some took it.

    Only for waits, stages and statements: instruments of memory cannot all be switched. Raises ServerError.
    """
    pattern = setting.rpartition("=")[0].strip()
    rows = await control.rows(
        "SELECT ENABLED, TIMED, COUNT(*) FROM performance_schema.setup_instruments WHERE NAME LIKE %s "
        "AND (NAME LIKE 'wait/%%' OR NAME LIKE 'stage/%%' OR NAME LIKE 'statement/%%') GROUP BY ENABLED, TIMED",
        pattern,
    )
    states = {_STATES.get((str(enabled), str(timed)), "OFF"): int(count) for enabled, timed, count in rows}
    if len(states) == 1:
        return f"{pattern}={next(iter(states))}"
    return f"{states.get('ON', 0)} of {sum(states.values())} on" if states else f"no instrument {pattern}"


async def read_counts(control: Control) -> Counts:
    """All counts so far. Raises ServerError."""
    found: Counts = {}

    def add(kind: WaitKind, name: object, count: object, picoseconds: object) -> None:
        before = found.get((kind, str(name)), (0, 0.0))
        found[kind, str(name)] = (before[0] + int(str(count)), before[1] + float(str(picoseconds)) / PS_PER_US)

    kinds: tuple[tuple[WaitKind, str], ...] = (("wait", "waits"), ("stage", "stages"))
    for kind, of in kinds:
        for row in await control.rows(_BY_USER.format(of=of), LOAD_USER):
            add(kind, *row)
    for row in await control.rows(_SOCKETS):
        add("wait", *row)
    for row in await control.rows(_STATEMENTS):
        add("statement", *row)
    for row in await control.rows(_EXECUTIONS, LOAD_USER):
        add("statement", *row)
    locks = {str(name): float(value) for name, value in await control.rows(_ROW_LOCKS)}
    waits, milliseconds = locks.get("Innodb_row_lock_waits"), locks.get("Innodb_row_lock_time")
    if waits is not None and milliseconds is not None:
        found["wait", ROW_LOCKS] = (int(waits), 1000.0 * milliseconds)
    return found


def grown(before: Counts, after: Counts) -> Counts:
    """What was added; a count that went down (a statement that was closed) added nothing."""
    found: Counts = {}
    for event, (count, time_us) in after.items():
        count_before, time_before_us = before.get(event, (0, 0.0))
        if count > count_before:
            found[event] = (count - count_before, max(0.0, time_us - time_before_us))
    return found


def without_digested_executions(counts: Counts) -> Counts:
    """Without the executions that have digests of their own in the event of all executions."""
    digested = [
        found for (kind, name), found in counts.items() if kind == "statement" and name.startswith(_EXECUTION_DIGEST)
    ]
    if not digested:
        return counts
    result = dict(counts)
    for event in [("statement", "statement/com/Execute"), ("statement", "statement/com/execute")]:
        count, time_us = result.pop(event, (0, 0.0))  # type: ignore[arg-type]
        rest = count - sum(one for one, _ in digested), time_us - sum(one for _, one in digested)
        if rest[0] > _LEAST_REST * count and rest[1] > 0.0:
            result[event] = rest  # type: ignore[index]
    return result


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
            await self.abandon()
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
            await self.abandon()
        return Counted(events, locks, dict(metrics), samples, dict(lost))

    async def abandon(self) -> None:
        """Switch counting off, without what was counted."""
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
