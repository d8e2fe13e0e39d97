"""The limits that a study declares ([thresholds]), and what it shows of each: as `mydyno gate` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Section, Table, render
from mydyno.verdicts.threshold import Outcome
from mydyno.wording.gate import TITLES, GateResult, answer, gate_study, notes, rows


def build(result: StudyResult) -> Section | None:
    """The section; None where the study declares no limit."""
    if not result.study.experiment.thresholds:
        return None
    found = gate_study(result.folder, result.summary)
    title = TITLES[found.outcome]
    return Section(
        "gate",
        "Limits: {outcome}".format(outcome=f"{title[:1].lower()}{title[1:]}"),
        "Limits",
        render("gate.html", answer=answer(found), step=found.next_step, table=_table(found), notes=notes(found)),
    )


def _table(found: GateResult) -> Table:
    lines: list[Sequence[str | Cell]] = []
    for one, row in zip(found.comparisons, rows(found), strict=True):
        strong = "strong" if one.outcome in (Outcome.WORSE, Outcome.FAILED) else ""
        reason = "" if found.obstacle else row.reason
        lines.append(
            [
                row.metric,
                Cell(row.arm, below=row.step),
                Cell(row.limit, "num"),
                Cell(row.effect or "–", "num"),
                Cell(row.bounds or "–", "num"),
                Cell(row.outcome, strong, below=reason),
            ]
        )
    return Table(
        "Limits of the gate",
        ("metric", "arm", "limit", "effect", "bounds", "result"),
        lines,
    )
