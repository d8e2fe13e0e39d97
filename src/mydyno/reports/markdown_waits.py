"""What the server waits for, in Markdown: for each contrast a sentence, its classes of waits, and what differs."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.document.result import StudyResult
from mydyno.model.stored.waits import AmountRecord, WaitRecord, WaitsContrast
from mydyno.reports.markdown_text import escape, rule
from mydyno.wording import sessions, waits
from mydyno.wording.numbers import time_text
from mydyno.wording.profiles import heading

MOST_EVENTS = 6
"""Single events and sessions that differ; classes of waits are all there."""


def waits_part(result: StudyResult) -> str:
    """The part of the report; empty where waits were not counted."""
    record = result.summary.waits
    if record is None:
        return ""
    parts = ["### What the server waits for"]
    if result.before_first_look:
        parts.append("No look is due yet, so no difference is claimed.")
    for one in record.contrasts:
        named = f"{escape(heading(result, one))}: " if len(record.contrasts) > 1 else ""
        parts.append(f"{named}{escape(waits.sentence(one, record))}")
        parts.append(_table(one))
    parts.append("\n".join(f"- {escape(line)}" for line in waits.quality(record)))
    return "\n\n".join(part for part in parts if part)


def _table(contrast: WaitsContrast) -> str:
    shown = [one for one in contrast.events if not one.is_class and one.beyond_noise][:MOST_EVENTS]
    active = [one for one in contrast.sessions if one.kind == "active" or one.beyond_noise][:MOST_EVENTS]
    rows = [_event(one) for one in (*waits.class_rows(contrast), *shown)]
    rows += [_sessions(one) for one in active]
    if not rows:
        return ""
    heads = (
        "per transaction", escape(contrast.control), escape(contrast.arm), "difference", "interval"
    )  # fmt: skip
    head = f"| {' | '.join(heads)} |"
    return "\n".join([head, rule(head, 1), *(f"| {' | '.join(row)} |" for row in rows)])


def _event(one: WaitRecord) -> Sequence[str]:
    amounts = (time_text(one.control_us), time_text(one.arm_us))
    return _row(one, waits.name_text(one), amounts, waits.difference_text(one), waits.interval_text(one))


def _sessions(one: AmountRecord) -> Sequence[str]:
    amounts = (sessions.number_text(one.control), sessions.number_text(one.arm))
    return _row(one, sessions.long_name(one), amounts, sessions.difference_text(one), sessions.interval_text(one))


def _row(
    one: WaitRecord | AmountRecord, name: str, amounts: tuple[str, str], difference: str, interval: str
) -> Sequence[str]:
    return (escape(name), *amounts, f"**{difference}**" if one.beyond_noise else difference, interval)
