"""What the set-up shows where nothing was changed: the control against its own copy."""

from __future__ import annotations

from mydyno.document.parts import Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table
from mydyno.model.stored.summary import StepLevel
from mydyno.reports.verdicts import verdicts_of
from mydyno.wording.interference import adjustment_sentence
from mydyno.wording.numbers import noise_text, ratio_interval


def build(result: StudyResult) -> Part:
    """Noise floor of the primary metric at every step."""
    metric = result.summary.primary
    found = _noise(result, metric)
    intro = "Every block runs the control twice. The difference between the copies is the noise of this set-up."
    empty = "" if found else "No block has two valid runs of the control, so there is no noise floor."
    return Part(
        id="noise", heading="Noise floor", says=noise_in_one_line(result), folded=True,
        body=[Note(intro, "intro"), Note(empty, "empty"), found, Note(_adjustment(result))],
    )  # fmt: skip


def _adjustment(result: StudyResult) -> str:
    """What values are adjusted for, and the effects without it; empty where nothing is adjusted."""
    verdicts = verdicts_of(result)
    if result.summary.interleaving is None or verdicts is None or not verdicts.unadjusted:
        return ""
    return " ".join((adjustment_sentence(result.summary.interleaving), verdicts.unadjusted))


def noise_in_one_line(result: StudyResult) -> str:
    """The range of the noise floors; empty if there are none."""
    floors = [floor - 1 for floor in result.summary.noise_floor.get(result.summary.primary, {}).values() if floor > 1]
    if not floors:
        return ""
    low, high = (noise_text(pick(floors)).removeprefix("±") for pick in (min, max))
    return f"the control differs from its own copy by up to {high}" + ("" if low == high else f" ({low} at best)")


def _noise(result: StudyResult, metric: str) -> Table | None:
    control = result.summary.control
    rows: list[list[str | Cell]] = []
    several = len(result.workloads) > 1
    for step in result.steps:
        ratios = result.block_ratios(metric, step.id, control, copy_number=2)
        floor = result.summary.noise_floor.get(metric, {}).get(step.id)
        if not ratios and floor is None:
            continue
        share = floor - 1 if floor is not None else None
        name = _short(step) if several else step.short_level
        spread = ratio_interval(min(ratios.values()), max(ratios.values())) if ratios else "–"
        rows.append(
            [name, Cell(str(len(ratios)), "num"), Cell(spread, "num"), Cell(noise_text(share) if share else "–", "num")]
        )
    if not rows:
        return None
    head = ("level", "blocks", "copy relative to control", "noise floor")
    return Table(f"A/A differences of {result.metric_name(metric)}", head, rows)


def _short(step: StepLevel) -> str:
    return f"{step.workload.removeprefix('oltp_').replace('_', '-')}, {step.amount_text}"
