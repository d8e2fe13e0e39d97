"""Which statements of a capture get slower or faster, fail, or return other rows."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.analysis.base import Analysis
from mydyno.analysis.statements.effects import analyse
from mydyno.document.parts import Cell, Note, Part, Table, render
from mydyno.document.result import StudyResult
from mydyno.language import agreed, listing
from mydyno.model.metrics import COST_METRIC
from mydyno.model.stored.analyses import (
    StatementInterval,
    StatementRecord,
    StatementsOfArm,
    StatementsRecord,
    StatementVerdict,
)
from mydyno.model.stored.summary import Summary
from mydyno.wording.numbers import NONE, latency_text, percent, ratio_interval, signed_percent

MOST_ROWS = 300
"""Of the report's table; summary.json has all."""
MOST_CHANGED = 60
"""Statements whose plans and counters the report shows; summary.json has those of all."""
MOST_FOLDS = 5
"""Of them that have a fold of their own, with an execution as the server states it."""
MOST_LINES = 5
"""At a terminal."""
WORDS: dict[StatementVerdict, str] = {
    "fails": "fails",
    "other_rows": "other rows",
    "slower": "slower",
    "faster": "faster",
    "open": "open",
    "equivalent": "equivalent",
    "not_compared": "not compared",
}
CHANGED: tuple[StatementVerdict, ...] = ("fails", "other_rows", "slower", "faster")


def sentences(record: StatementsRecord, open_words: str = "too rare or too noisy to tell") -> list[str]:
    """The answer, one sentence for each arm; `open_words`: what is said of those whose times are not decided."""
    found = []
    for of in record.arms:
        all_of = len(of.statements)
        slower, faster = of.having("slower"), of.having("faster")
        parts = [
            _compared(slower, "slower", of.arm),
            _compared(faster, "faster", of.arm),
            _count(of.having("fails"), "fails", "fail"),
            _count(of.having("other_rows"), "returns other rows", "return other rows"),
        ]
        parts = [part for part in parts if part] or [f"none is shown to be slower on {of.arm}, none fails"]
        same, still_open, out = of.having("equivalent"), of.having("open"), of.having("not_compared")
        parts += [f"{_are(len(same))} equivalent within {percent(record.margin)}"] if same else []
        parts += [f"{_are(len(still_open))} {open_words}"] if still_open else []
        parts += [f"{len(out)} could not be compared"] if out else []
        noted = sum(bool(one.notes) for one in of.statements)
        parts += [f"{noted} with other warnings or types of columns"] if noted else []
        found.append(f"Of {agreed(f'{all_of} statements')} {'; '.join(parts)}.")
    return found


def _are(count: int) -> str:
    return f"{count} is" if count == 1 else f"{count} are"


def _compared(statements: Sequence[StatementRecord], word: str, arm: str) -> str:
    if not statements:
        return ""
    plans = sum(one.plan_changed for one in statements)
    by = ""
    if plans:
        whole = plans == len(statements)
        by = ", by another plan" if whole and plans == 1 else f", {'all' if whole else plans} of them by another plan"
    return f"{_are(len(statements))} {word} on {arm}{by}"


def _count(statements: Sequence[StatementRecord], one: str, several: str) -> str:
    return f"{len(statements)} {one if len(statements) == 1 else several}" if statements else ""


def always(summary: Summary) -> list[str]:
    """Results and plans are exact; of times nothing is decided then."""
    return [] if summary.statements is None else sentences(summary.statements, "not decided")


def say(summary: Summary, metric: str) -> list[str]:
    """On the primary metric: the statements. On it and the CPU time: what the capture as a whole costs."""
    record = summary.statements
    words = {summary.primary: "response time", COST_METRIC: "CPU time"}.get(metric)
    if record is None or words is None:
        return []
    found = sentences(record) if metric == summary.primary else []
    for effect in summary.effects:
        if effect.metric == metric and effect.ratio is not None and effect.verdict:
            change = f"{signed_percent(effect.ratio - 1)} ({ratio_interval(effect.ci_low, effect.ci_high)})"
            found.append(f"All that are compared, as often as captured: {words} {change} with {effect.arm}.")
    return found


def lines(result: StudyResult) -> list[str]:
    """For a terminal: the statements that changed, the costliest first."""
    record = result.summary.statements
    if record is None:
        return []
    found = []
    for of in record.arms:
        changed = of.having(*CHANGED)
        found += [_line(one) for one in changed[:MOST_LINES]]
        if len(changed) > MOST_LINES:
            found.append(agreed(f"{len(changed) - MOST_LINES} more statements are in the report"))
        noted = dict.fromkeys(note for one in of.statements if one not in changed for note in one.notes)
        found += [f"with {of.arm}: {note}" for note in list(noted)[:MOST_LINES]]
    return found


def _line(one: StatementRecord) -> str:
    return f"{WORDS[one.verdict]}: {one.label} · {_details(one)}"


def _details(one: StatementRecord) -> str:
    if one.verdict in ("fails", "other_rows", "not_compared"):
        return _beside(one)
    parts = []
    known = [(of, name) for of, name in ((one.service, "response time"), (one.cpu, "CPU")) if of is not None]
    for interval, name in sorted(known, key=lambda of: not of[0].is_beyond):  # what decides comes first
        ends = ratio_interval(interval.ci_low, interval.ci_high)
        parts.append(f"{signed_percent(interval.ratio - 1)} {name} ({ends})")
    if one.plan_changed:
        parts.append("another plan")
    if one.rows_examined and one.rows_examined[0] != one.rows_examined[1]:
        parts.append(f"{one.rows_examined[0]:,} → {one.rows_examined[1]:,} rows read")
    return ", ".join(filter(None, (*parts, _beside(one))))


def part(result: StudyResult) -> Part | None:
    """The section; None where no statements are compared."""
    record = result.summary.statements
    if record is None:
        return None
    changed = [
        (one, of, WORDS[one.verdict], _details(one), _pairs(one)) for of in record.arms for one in of.having(*CHANGED)
    ]
    details = render("statements.html", first=changed[:MOST_FOLDS], further=changed[MOST_FOLDS:MOST_CHANGED],
                     beyond=len(changed) - MOST_CHANGED)  # fmt: skip
    tables = [_table(of, of.statements) for of in record.arms]
    is_broken = any(of.having("fails", "other_rows") for of in record.arms)
    says = "" if is_broken or len(record.arms) > 1 else sentences(record)[0].partition(";")[0]
    return Part(
        id="statements", heading="Statements", says=says, body=[Note(_intro(record), "intro"), *tables, details]
    )


def comment(result: StudyResult) -> Part | None:
    """The sentences, and a row for each statement that changed."""
    record = result.summary.statements
    if record is None:
        return None
    changed = [_table(of, found) for of in record.arms if (found := of.having(*CHANGED))]
    return Part(id="statements", heading="Statements", body=[*sentences(record), *changed])


def _intro(record: StatementsRecord) -> str:
    parts = [
        f"Each statement alone on its server, on all servers within milliseconds, {record.executions:,} times in "
        + agreed(f"{record.blocks} blocks")
        + "; what writes is rolled back, so that no commit is measured. Intervals hold for all statements together."
    ]
    if record.left_out:
        reasons = [f"{statements:,} ({why})" for why, (_, statements) in record.left_out.items()]
        parts.append(f"Statements of the capture that are not compared: {listing(reasons)}.")
    if record.unlike_controls:
        parts.append(agreed(f"The control's two copies differ in {record.unlike_controls} statements."))
    return " ".join(parts)


def _table(of: StatementsOfArm, statements: Sequence[StatementRecord]) -> Table:
    head = ("statement", "verdict", "response time", "CPU time", "share of time", of.control, "rows read", "plan")
    rows: list[Sequence[str | Cell]] = [
        [
            Cell(one.label),
            Cell(WORDS[one.verdict], "strong" if one.verdict in CHANGED else "", below=_beside(one)),
            _change(one.service),
            _change(one.cpu),
            Cell(NONE if one.control_share is None else percent(one.control_share), "num"),
            Cell(
                NONE if one.service is None else latency_text(one.service.control_us), "num", below=f"{one.count:,} ×"
            ),
            Cell(NONE if one.rows_examined is None else _arrow(one.rows_examined), "num"),
            Cell("another" if one.plan_changed else ""),
        ]
        for one in statements[:MOST_ROWS]
    ]
    note = "Sorted by verdict, then by what the statement adds to the capture."
    if len(statements) > MOST_ROWS:
        note += f" {len(statements) - MOST_ROWS} more are in summary.json."
    return Table(f"{of.arm} against {of.control}", head, rows, note, sortable=True)


def _beside(one: StatementRecord) -> str:
    return "; ".join(filter(None, (one.why, *one.notes)))


def _arrow(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,}" if pair[0] == pair[1] else f"{pair[0]:,} → {pair[1]:,}"


def _change(one: StatementInterval | None) -> Cell:
    if one is None:
        return Cell(NONE, "num")
    return Cell(
        signed_percent(one.ratio - 1),
        "num strong" if one.is_beyond else "num",
        below=ratio_interval(one.ci_low, one.ci_high),
    )


def _pairs(one: StatementRecord) -> list[tuple[str, str, str]]:
    """(counter, control, arm) of one execution."""
    return [(name, f"{old:,}", f"{new:,}") for name, (old, new) in one.counters.items()]


ANALYSIS = Analysis(
    chapter="answer", part=part, comment=comment, stored="statements", analyse=analyse, say=say, always=always,
    lines=lines,
)  # fmt: skip
