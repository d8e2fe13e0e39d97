"""Proof that each treatment was in force, run by run; and what was invalid, and why."""

from __future__ import annotations

from collections import Counter

from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Table, glyph, render, swatch
from mydyno.language import agreed
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.phrases import lane_name
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.summary import RunSummary
from mydyno.wording.reasons import unsampled

MOST_TEXTS = 6
"""Different texts of one arm's evidence; run.json has each run's, with its facts."""


def build(result: StudyResult) -> Part:
    """The plan as a grid with each run's validity, failed validity checks, and the evidence per arm."""
    invalid = [run for run in result.runs if not run.valid]
    reasons = Counter(reason.label for run in invalid for reason in run.reasons)
    step_reasons = Counter(reason.label for _, _, reasons in result.unused_steps for reason in reasons)
    warnings = Counter(warning for run in result.runs for warning in run.warnings)
    html = render(
        "evidence.html",
        invalid=_invalid_table(invalid) if invalid else None,
        invalid_words=agreed(f"{len(invalid)} of {len(result.runs)} runs are not valid{_counts(reasons)}."),
        steps=_steps_table(result) if result.unused_steps else None,
        step_words=agreed(
            f"{len(result.unused_steps)} load levels of valid runs are not valid{_counts(step_reasons)}."
        ),
        unsampled=unsampled(result.runs),
        unsteady=unsteady(result),
        warnings=warnings.most_common(),
        run_count=len(result.runs),
        arms=[_arm(result, arm) for arm in result.styles],
        grid=_grid(result),
        ordered=result.summary.design == "blocks",
    )
    heading, says = "Runs that count, and evidence for each treatment", _in_one_line(result, len(invalid))
    return Part(id="evidence", heading=heading, says=says, folded=True, body=[html])


def unsteady(result: StudyResult) -> str:
    """How many windows of the design blocks were not steady, with what is wrong with the first; empty if none was."""
    windows = [(run, step.id, step.steady) for run in result.records.values() for step in run.steps if step.steady]
    found = [one for one in windows if one[2].steadiness == "not steady"]
    if not found or result.study.experiment.validity.steady == "strict":
        return ""
    run, step, window = found[0]
    first = f"{run.arm} at {step} in block {run.block}: {'; '.join(window.reasons)}"
    return f'Measured windows that are not steady, and count (validity.steady = "report"): {len(found)}. {first}.'


def _in_one_line(result: StudyResult, invalid: int) -> str:
    """How many runs are valid, and whether every treatment was proved."""
    if not result.runs:
        return "no run has finished"
    unproved = sum(not _is_proved(result, run) for run in result.runs)
    which = next((one for run in result.runs for one in run.evidence if not one.holds), None)
    valid = agreed(f"{len(result.runs) - invalid} of {len(result.runs)} runs valid")
    proved = (
        "every treatment proved in every run" if not unproved else agreed(f"treatment not proved in {unproved} runs")
    )
    return f"{valid}, {proved}" + (f" ({which.treatment}: {agreed(which.text)})" if which is not None else "")


def _is_proved(result: StudyResult, run: RunSummary) -> bool:
    """Whether every treatment of a run holds; an arm that sets nothing has none to prove."""
    if not run.evidence:
        return _sets_nothing(result, run.arm)
    return all(one.holds for one in run.evidence)


def _sets_nothing(result: StudyResult, arm: str) -> bool:
    return any(one.name == arm and not one.treatments for one in result.study.experiment.arms)


def _counts(reasons: Counter[str]) -> str:
    counts = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
    return f": {counts}" if counts else ""


def _invalid_table(invalid: list[RunSummary]) -> Table:
    return Table(
        "Runs that are not valid: kept and shown, not used",
        ("run", "arm", "reasons"),
        [[run.folder, lane_name(run.arm, run.copy_number), joined(run.reasons) or "not recorded"] for run in invalid],
    )


def _steps_table(result: StudyResult) -> Table:
    return Table(
        "Load levels of valid runs that are not valid: kept and shown, not used",
        ("run", "load level", "reasons"),
        [[run.folder, step.id, joined(reasons) or "not recorded"] for run, step, reasons in result.unused_steps],
    )


def _arm(result: StudyResult, arm: str) -> dict[str, object]:
    """The evidence of one arm: how many runs it holds in, and what it says in most of them."""
    runs = [run for run in result.runs if run.arm == arm]
    holding = sum(_is_proved(result, run) for run in runs)
    texts = Counter((one.treatment, one.holds, one.text) for run in runs for one in run.evidence)
    return {
        "name": result.styles[arm].label,
        "swatch": swatch(result.styles[arm]),
        "holding": holding,
        "runs": len(runs),
        "sets": not _sets_nothing(result, arm),
        "unproved": sum(not run.evidence and not _is_proved(result, run) for run in runs),
        "texts": [
            {"treatment": treatment, "holds": holds, "text": text, "count": count}
            for (treatment, holds, text), count in texts.most_common(MOST_TEXTS)
        ],
        "more": max(0, len(texts) - MOST_TEXTS),
    }


def _grid(result: StudyResult) -> list[dict[str, object]]:
    """Every planned run by block and position: its arm, and whether it was run and is valid."""
    done = {(run.block, run.position): run for run in result.runs}

    def entry(planned: PlannedRun) -> dict[str, object]:
        run = done.get((planned.block, planned.position))
        state = "not run" if run is None else "valid" if run.valid else "not valid"
        style = result.styles.get(planned.arm)
        return {
            "arm": lane_name(planned.arm, planned.copy_number),
            "swatch": glyph(style) if style else "",
            "valid": state == "valid",
            "state": state,
            "css": state.replace(" ", "-"),
            "reasons": joined(run.reasons) if run else "",
        }

    return [{"block": block.block, "runs": [entry(planned) for planned in block.runs]} for block in result.plan.blocks]
