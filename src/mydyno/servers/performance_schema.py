"""What the load's threads wait for, as performance_schema counts it: wait events, stages and statements.

servers/wait_counting.py switches it on and off in servers that have start_variables(). Summaries by user
are read, as they keep the counts of threads that have ended; the load's user alone is counted, so that background
threads, which wait most of their time for work, are not in it. Sockets are summed up by the server as a whole only.

Not counted, because servers have no instrument for it: the time of a row lock (taken from Innodb_row_lock_time
instead), MariaDB's waits for its redo log (its stage Commit has them), and waits in storage engines without
instruments. The instruments of table I/O are left off, since their times contain those of others.

Costs: while nothing is counted, memory (MariaDB 10.11: about 100 MB) and a test of a flag at each event; the experiment
performance-schema-cost measures it. While it counts, much more: that is why such slices are kept apart.
"""

from __future__ import annotations

from mydyno.model.definition.experiment import Scalar
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.waits import ROW_LOCKS, WaitKind
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.sql import Control

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
    digested = [found for (kind, name), found in counts.items() if kind == "statement" and _is_execution(name)]
    if not digested:
        return counts
    result = dict(counts)
    for event in [("statement", "statement/com/Execute"), ("statement", "statement/com/execute")]:
        count, time_us = result.pop(event, (0, 0.0))  # type: ignore[arg-type]
        rest = count - sum(one for one, _ in digested), time_us - sum(one for _, one in digested)
        if rest[0] > _LEAST_REST * count and rest[1] > 0.0:
            result[event] = rest  # type: ignore[index]
    return result


def _is_execution(name: str) -> bool:
    return name.startswith(_EXECUTION_DIGEST)
