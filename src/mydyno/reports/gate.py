"""The gate as a document of its own and as a section of the report: answer, comparisons, how they were tested."""

from __future__ import annotations

from mydyno.document.parts import Document, Listed, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table
from mydyno.verdicts.threshold import Comparison, Outcome
from mydyno.wording.gate import GateResult, answer, bounds_text, effect_text, gate_study, limit_text, notes
from mydyno.wording.numbers import metric_name

SIGNS = {Outcome.PASSED: "✅", Outcome.WORSE: "❌", Outcome.FAILED: "❌", Outcome.UNDECIDED: "❔"}


def gate_document(result: GateResult) -> Document:
    """All of it."""
    scope = [Note(result.scope), Note(f"Study {result.study}.")]
    return Document(
        title=f"{result.experiment}: {result.outcome}",
        over="gate",
        below=result.question,
        parts=[_part(result), Part(id="scope", heading="Scope", body=scope)],
        sign=SIGNS[result.outcome],
        outcome=result.outcome,
    )


def gate_part(result: StudyResult) -> Part | None:
    """None where the study declares no limit."""
    return _part(gate_study(result.folder, result.summary)) if result.study.experiment.thresholds else None


def _part(result: GateResult) -> Part:
    rows: list[list[str | Cell]] = []
    several = len({one.control for one in result.comparisons}) > 1
    for step in dict.fromkeys(one.step for one in result.comparisons):
        rows.append([step])
        rows += [_row(one, several) for one in result.comparisons if one.step == step]
    head = ("metric", "arm", "limit", "effect", "bounds", "result")
    return Part(
        id="gate",
        heading=f"Limits: {result.outcome}",
        short="Limits",
        lead=[*filter(None, (answer(result), result.next_step, result.builds))],
        body=[Table("Limits of the gate", head, rows), Listed(_reasons(result)), *map(Note, notes(result))],
    )


def _row(one: Comparison, several: bool) -> list[str | Cell]:
    return [
        metric_name(one.metric.name),
        f"{one.arm} against {one.control}" if several else one.arm,
        Cell(limit_text(one), "num"),
        Cell(effect_text(one) or "–", "num"),
        Cell(bounds_text(one) or "–", "num"),
        Cell(one.outcome, f"strong {one.outcome}", sign=SIGNS[one.outcome]),
    ]


def _reasons(result: GateResult) -> list[str]:
    """Reasons with the comparisons that they are of; without those that are in the answer."""
    found: dict[str, list[str]] = {}
    for one in result.comparisons:
        is_said = result.obstacle or one.reason in answer(result)
        if one.reason and not is_said:
            found.setdefault(one.reason, []).append(f"{metric_name(one.metric.name)} of {one.arm} at {one.step}")
    return [f"{', '.join(where)}: {reason}." for reason, where in found.items()]
