"""What the server waits for: classes of waits, events, stages and statements of an arm and its control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.analysis.base import Analysis
from mydyno.analysis.waits import words
from mydyno.analysis.waits.contrasts import analyse
from mydyno.document import counted
from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table
from mydyno.language import agreed
from mydyno.model.stored.waits import AmountRecord, WaitRecord, WaitsContrast
from mydyno.wording.numbers import count_interval, signed_count, signed_time, significant, time_interval, time_text

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
        (one, words.sentence(one, record), [*(_cut(made(one), most) for made in TABLES), _no_metrics(one)])
        for one in record.contrasts
    ]
    body = counted.body(result, found, "waits", None, words.quality(record))
    return Part(id="waits", heading="What the server waits for", body=body)


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
    return _table(contrast, CLASS, "Waits per transaction", words.class_rows(contrast), note)


def _events(contrast: WaitsContrast) -> Table | None:
    shown = any(one.beyond_noise and not one.is_class for one in contrast.events)
    which = "those that differ beyond noise first, then the longest" if shown else "the longest; none differs"
    caption = "Events, stages and statements" + ": " + which
    return _table(contrast, "event", caption, words.event_rows(contrast))


def _locks(contrast: WaitsContrast) -> Table | None:
    shown = any(one.beyond_noise for one in words.lock_rows(contrast))
    which = "those that differ beyond noise first, then the longest" if shown else "the longest; none differs"
    caption = "Mutexes and read-write locks" + ": " + which
    return _table(contrast, LOCK, caption, words.lock_rows(contrast))


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
            words.lock_name(one) if first == LOCK else one.label,
            *([] if one.is_class else [Cell((one.of_class or KINDS[one.kind]), below=words.hottest_text(one))]),
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


ANALYSIS = Analysis(chapter="why", part=part, comment=comment, stored="waits", analyse=analyse, lines=words.lines)
