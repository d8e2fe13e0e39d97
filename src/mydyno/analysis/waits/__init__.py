"""What the server waits for: classes of waits, events, stages and statements of an arm and its control."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.analysis.base import Analysis
from mydyno.analysis.waits import sessions, words
from mydyno.analysis.waits.contrasts import analyse
from mydyno.document.markdown_text import escape
from mydyno.document.markdown_text import table as markdown_table
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Section, Table, render
from mydyno.language import agreed
from mydyno.model.stored.waits import AmountRecord, WaitRecord, WaitsContrast
from mydyno.wording import counted
from mydyno.wording.counted import heading
from mydyno.wording.numbers import time_text

HEADING = "What the server waits for"
MOST_EVENTS = 6
"""Single events and sessions that differ, in Markdown; classes of waits are all there."""
CLASS = "class of waits"
LOCK = "lock"
KINDS = {"wait": "wait", "stage": "stage", "statement": "statement"}


def part(result: StudyResult) -> Section | None:
    """The section; None where waits were not counted."""
    record = result.summary.waits
    if record is None:
        return None
    return Section(
        "waits",
        HEADING,
        "Waits",
        render(
            "counted.html",
            found=[
                (
                    heading(result, one),
                    f"{heading(result, one)}: waits",
                    words.sentence(one, record),
                    [table for made in TABLES if (table := made(one)) is not None],
                    _no_metrics(one),
                )
                for one in record.contrasts
            ],
            nothing=counted.why_nothing(result, record.contrasts),
            quality=[*words.quality(record), counted.together(result)],
        ),
        says="waits, locks, stages and statements with their time per transaction; what sessions do",
    )


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


def _amounts(contrast: WaitsContrast, caption: str, first: str, records: Sequence[AmountRecord]) -> Table | None:
    """None without rows."""
    if not records:
        return None
    of_sessions = records[0].kind != "metric"
    rows: list[Sequence[str | Cell]] = [
        [
            sessions.name_text(one),
            *([sessions.KINDS[one.kind]] if of_sessions else []),
            Cell(sessions.number_text(one.control), "num"),
            Cell(sessions.number_text(one.arm), "num"),
            Cell(sessions.difference_text(one), "num strong" if one.beyond_noise else "num"),
            Cell(sessions.interval_text(one), "num"),
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
            Cell(words.difference_text(one), "num strong" if one.beyond_noise else "num"),
            Cell(words.interval_text(one), "num"),
        ]
        for one in records
    ]
    kind = [] if first == CLASS else ["kind"]
    head = (first, *kind, contrast.control, contrast.arm, "difference", "interval")
    return Table(caption, head, rows, note)


TABLES = (_classes, _locks, _events, _sessions, _metrics)
"""In the order of the page."""


def markdown(result: StudyResult) -> str:
    """For each contrast a sentence, its classes of waits, and what differs."""
    record = result.summary.waits
    if record is None:
        return ""
    parts = []
    if result.before_first_look:
        parts.append("No look is due yet, so no difference is claimed.")
    for one in record.contrasts:
        named = f"{escape(heading(result, one))}: " if len(record.contrasts) > 1 else ""
        parts.append(f"{named}{escape(words.sentence(one, record))}")
        parts.append(_compared(one))
    parts.append("\n".join(f"- {escape(line)}" for line in words.quality(record)))
    return "\n\n".join(part for part in parts if part)


def _compared(contrast: WaitsContrast) -> str:
    shown = [one for one in contrast.events if not one.is_class and one.beyond_noise][:MOST_EVENTS]
    active = [one for one in contrast.sessions if one.kind == "active" or one.beyond_noise][:MOST_EVENTS]
    rows = [_markdown_event(one) for one in (*words.class_rows(contrast), *shown)]
    rows += [_markdown_sessions(one) for one in active]
    if not rows:
        return ""
    heads = (
        "per transaction", escape(contrast.control), escape(contrast.arm), "difference", "interval"
    )  # fmt: skip
    return markdown_table(heads, rows)


def _markdown_event(one: WaitRecord) -> Sequence[str]:
    amounts = (time_text(one.control_us), time_text(one.arm_us))
    return _markdown_row(one, one.label, amounts, words.difference_text(one), words.interval_text(one))


def _markdown_sessions(one: AmountRecord) -> Sequence[str]:
    amounts = (sessions.number_text(one.control), sessions.number_text(one.arm))
    return _markdown_row(
        one, sessions.long_name(one), amounts, sessions.difference_text(one), sessions.interval_text(one)
    )


def _markdown_row(
    one: WaitRecord | AmountRecord, name: str, amounts: tuple[str, str], difference: str, interval: str
) -> Sequence[str]:
    return (escape(name), *amounts, f"**{difference}**" if one.beyond_noise else difference, interval)


ANALYSIS = Analysis(
    chapter="why", part=part, stored="waits", analyse=analyse, lines=words.lines, heading=HEADING, markdown=markdown
)
