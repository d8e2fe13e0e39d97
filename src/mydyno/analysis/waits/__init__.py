"""What the server waits for: classes of waits, events, stages and statements of an arm and its control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.analysis.base import Analysis
from mydyno.analysis.waits.contrasts import analyse
from mydyno.document import counted
from mydyno.document.parts import Cell, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.stored.counted import ROW_LOCKS, AmountRecord, WaitRecord, WaitsContrast, WaitsRecord
from mydyno.wording.numbers import (
    count_interval,
    percent,
    signed_count,
    signed_time,
    significant,
    time_interval,
    time_text,
)
from mydyno.wording.verdicts import alarm_clause

MOST_ROWS = 12
MOST_LOCKS = 8
LOCK_CLASSES = ("mutexes", "read-write locks")
SAMPLE_US = 100_000.0
"""As of servers/wait_counting.py."""


def leading(contrast: WaitsContrast) -> WaitRecord | None:
    """The class of waits with the largest difference beyond noise; without one, the stage; or an event."""
    shown = [one for one in contrast.events if one.beyond_noise]
    classes = [one for one in shown if one.is_class]
    stages = [one for one in shown if one.kind == "stage"]
    events = [one for one in shown if one.of_class]
    return next(iter([*classes, *stages, *events]), None)


def sentence(contrast: WaitsContrast, record: WaitsRecord) -> str:
    """The answer for one contrast: which class of waits leads, or that none differs."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    first = leading(contrast)
    if first is None:
        words = "No wait differs beyond noise, and no stage of a statement."
        return counted.with_few_blocks(words, contrast.blocks)
    longer = "longer" if first.change_us > 0 else "shorter"
    interval = time_interval(first.low_us, first.high_us)
    change = f"{time_text(abs(first.change_us))} {longer} per transaction ({interval})."
    event = next((one for one in contrast.events if one.beyond_noise and one.of_class == first.name), None)
    if first.is_class:
        named = event is not None and event.name != ROW_LOCKS and _is_most(event, first)
        where = f" Most of it: {event.label}." if event is not None and named else ""
        return f"Waits for {first.label} are {change}{where}"
    name = first.label if first.of_class else f"the stage {first.label}"
    return f"No class of waits differs beyond noise, but {name} is {change}"


def _is_most(event: WaitRecord, of_class: WaitRecord) -> bool:
    return of_class.change_us != 0.0 and event.change_us / of_class.change_us >= 0.5


def class_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """The classes of waits: those that differ first."""
    return [one for one in contrast.events if one.is_class]


def event_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """Single events but locks, stages and statements: those that differ first, then the longest."""
    return [one for one in contrast.events if not one.is_class and one.of_class not in LOCK_CLASSES][:MOST_ROWS]


def lock_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """Mutexes and read-write locks: those that differ first, then the longest."""
    return [one for one in contrast.events if one.of_class in LOCK_CLASSES][:MOST_LOCKS]


def lock_name(one: WaitRecord) -> str:
    """A lock without its class, which the table's column has."""
    return one.name.split("/", 3)[-1]


def hottest_text(one: WaitRecord) -> str:
    """How the time is spread over the lock's instances, of the side where it is longer; empty if that is not known."""
    lock = one.arm_lock if one.arm_us >= one.control_us else one.control_lock
    if lock is None:
        return ""
    if lock.instances == 1:
        return "a single one"
    return f"{percent(lock.hottest)} in one of {lock.instances}"


def quality(record: WaitsRecord) -> list[str]:
    """How waits were counted, what that cost, and what is missing: a sentence each."""
    found = [
        agreed(
            f"Of the load's threads, by performance_schema, in {record.slices} slices of their own, which enter "
            "no effect. In the measured slices nothing was counted."
        )
    ]
    found += counted.cost_sentences(record, "the instruments")
    found.append("Stages contain the waits in them, and statements contain their stages.")
    if record.samples:
        found.append(
            agreed(
                f"Sessions were sampled {record.samples} times, every {time_text(SAMPLE_US)}. One that is active "
                "in no wait event runs, waits for a CPU, or waits for what has no instrument, such as row locks."
            )
        )
    for name, count in record.lost.items():
        found.append(
            f"Some objects are not counted because performance_schema has no room for them: {name} is {count}."
        )
    return found + [f"Not all runs were counted: {why}." for why in record.missing[:3]]


def lines(result: StudyResult) -> list[str]:
    """For a terminal: a sentence for each contrast in which something leads."""
    record = result.summary.waits
    if record is None:
        return []
    return counted.contrast_lines(
        result, record, record.contrasts, lambda one: leading(one) is not None, lambda one: sentence(one, record)
    )


CLASS = "class of waits"
LOCK = "lock"
SESSION_KINDS = {"active": "all", "state": "state", "wait": "wait"}
KINDS = {"wait": "wait", "stage": "stage", "statement": "statement"}


MOST_COMMENTED = 20
"""Rows of a table in a comment, which has room for 65,000 characters."""


def part(result: StudyResult, most: int | None = None) -> Part | None:
    """The section, its tables with at most so many rows; None where waits were not counted."""
    record = result.summary.waits
    if record is None:
        return None
    found = [
        (one, sentence(one, record), [*(_cut(made(one), most) for made in TABLES), _no_metrics(one)])
        for one in record.contrasts
    ]
    body = counted.body(result, found, "waits", None, quality(record))
    says = counted.finding(result, record, found, [leading(one) is not None for one in record.contrasts])
    return Part(id="waits", heading="What the server waits for", says=says, body=body)


def comment(result: StudyResult) -> Part | None:
    """The same with the first rows of long tables."""
    return part(result, MOST_COMMENTED)


def _cut(table: Table | None, most: int | None) -> Table | None:
    if table is None or most is None or len(table.rows) <= most:
        return table
    more = agreed(f"{len(table.rows) - most} more rows are in the report.")
    return replace(table, rows=table.rows[:most], note=f"{table.note} {more}".strip())


def _classes(contrast: WaitsContrast) -> Table | None:
    note = counted.connection_note(contrast)
    return _table(contrast, CLASS, "Waits per transaction", class_rows(contrast), note)


def _events(contrast: WaitsContrast) -> Table | None:
    shown = any(one.beyond_noise and not one.is_class for one in contrast.events)
    which = "those that differ beyond noise first, then the longest" if shown else "the longest; none differs"
    caption = "Events, stages and statements" + ": " + which
    return _table(contrast, "event", caption, event_rows(contrast))


def _locks(contrast: WaitsContrast) -> Table | None:
    shown = any(one.beyond_noise for one in lock_rows(contrast))
    which = "those that differ beyond noise first, then the longest" if shown else "the longest; none differs"
    caption = "Mutexes and read-write locks" + ": " + which
    return _table(contrast, LOCK, caption, lock_rows(contrast))


def _sessions(contrast: WaitsContrast) -> Table | None:
    return _amounts(contrast, "What sessions do: mean number of active ones", "sessions", contrast.sessions)


def _metrics(contrast: WaitsContrast) -> Table | None:
    caption = f"Counters of InnoDB per transaction that differ beyond noise, of {contrast.metrics_compared} compared"
    return _amounts(contrast, caption, "counter", contrast.metrics)


def _no_metrics(contrast: WaitsContrast) -> str:
    if contrast.metrics or not contrast.metrics_compared:
        return ""
    return agreed(
        f"Of {contrast.metrics_compared} counters of InnoDB (information_schema.innodb_metrics), none differs "
        "beyond noise per transaction."
    )


def _amount_name(one: AmountRecord) -> str:
    unknown = {"wait": "in no wait event", "state": "in no state"}
    return "active sessions" if one.kind == "active" else one.name or unknown.get(one.kind, "")


def _number(value: float) -> str:
    """A mean number of sessions, or a count per transaction."""
    return "0" if value == 0.0 else significant(value, 3)


def _amounts(contrast: WaitsContrast, caption: str, first: str, records: Sequence[AmountRecord]) -> Table | None:
    """None without rows."""
    if not records:
        return None
    of_sessions = records[0].kind != "metric"
    rows: list[Sequence[str | Cell]] = [
        [
            _amount_name(one),
            *([SESSION_KINDS[one.kind]] if of_sessions else []),
            Cell(_number(one.control), "num"),
            Cell(_number(one.arm), "num"),
            Cell(signed_count(one.arm - one.control), "num strong" if one.beyond_noise else "num"),
            Cell(count_interval(one.low, one.high), "num"),
        ]
        for one in records
    ]
    kind = ["kind"] if of_sessions else []
    head = (first, *kind, contrast.control, contrast.arm, "difference", "interval")
    return Table(caption, head, rows)


def _table(
    contrast: WaitsContrast, first: str, caption: str, records: Sequence[WaitRecord], note: str = ""
) -> Table | None:
    """None without rows."""
    if not records:
        return None
    rows: list[Sequence[str | Cell]] = [
        [
            lock_name(one) if first == LOCK else one.label,
            *([] if one.is_class else [Cell((one.of_class or KINDS[one.kind]), below=hottest_text(one))]),
            Cell(time_text(one.control_us), "num", below=counted.count_text(one.control_count)),
            Cell(time_text(one.arm_us), "num", below=counted.count_text(one.arm_count)),
            Cell(signed_time(one.change_us), "num strong" if one.beyond_noise else "num"),
            Cell(time_interval(one.low_us, one.high_us), "num"),
        ]
        for one in records
    ]
    kind = [] if first == CLASS else ["kind"]
    head = (first, *kind, contrast.control, contrast.arm, "difference", "interval")
    return Table(caption, head, rows, note)


TABLES = (_classes, _locks, _events, _sessions, _metrics)
"""In the order of the page."""


ANALYSIS = Analysis(chapter="why", part=part, comment=comment, stored="waits", analyse=analyse, lines=lines)
