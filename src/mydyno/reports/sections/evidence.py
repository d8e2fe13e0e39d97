"""Proof that each treatment was in force, run by run; and what was invalid, and why."""

from __future__ import annotations

import json
from collections import Counter

from mydyno.model.plan import PlannedRun
from mydyno.model.reasons import joined
from mydyno.model.records import Evidence
from mydyno.model.summary import RunSummary
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Section, Table, glyph, render, swatch

MAX_FACTS = 4000
"""Characters of one run's facts that the page repeats; run.json holds them all."""


def build(result: StudyResult) -> Section:
    """The plan as a grid with each run's validity, gates that closed, and the evidence per arm."""
    invalid = [run for run in result.runs if not run.valid]
    reasons = Counter(reason.label for run in invalid for reason in run.reasons)
    step_reasons = Counter(reason.label for _, _, reasons in result.unused_steps for reason in reasons)
    warnings = Counter(warning for run in result.runs for warning in run.warnings)
    return Section(
        "evidence",
        "Evidence and gates",
        "Evidence",
        render(
            "evidence.html",
            invalid=_invalid_table(invalid) if invalid else None,
            reasons=reasons.most_common(),
            steps=_steps_table(result) if result.unused_steps else None,
            step_reasons=step_reasons.most_common(),
            warnings=warnings.most_common(),
            run_count=len(result.runs),
            arms=[_arm(result, arm) for arm in result.styles],
            grid=_grid(result),
        ),
        _in_one_line(result, len(invalid)),
    )


def _in_one_line(result: StudyResult, invalid: int) -> str:
    """How many runs are valid, and whether every treatment was proved."""
    if not result.runs:
        return "no run has finished"
    unproved = sum(not run.evidence or not all(one.holds for one in run.evidence) for run in result.runs)
    valid = f"{len(result.runs) - invalid} of {len(result.runs)} runs valid"
    proved = (
        "every treatment proved in every run"
        if not unproved
        else f"treatment not proved in {unproved} run{'' if unproved == 1 else 's'}"
    )
    return f"{valid}, {proved}"


def _invalid_table(invalid: list[RunSummary]) -> Table:
    return Table(
        "Runs that are not valid: kept and shown, not used",
        ("run", "arm", "reasons"),
        [
            [run.folder, run.arm + (" (A/A)" if run.copy_number == 2 else ""), joined(run.reasons) or "not recorded"]
            for run in invalid
        ],
    )


def _steps_table(result: StudyResult) -> Table:
    return Table(
        "Steps of valid runs that are not valid: kept and shown, not used",
        ("run", "step", "reasons"),
        [[run.folder, step.id, joined(reasons) or "not recorded"] for run, step, reasons in result.unused_steps],
    )


def _arm(result: StudyResult, arm: str) -> dict[str, object]:
    """The evidence of one arm: how many runs it holds in, what it says in most of them, and every run's facts."""
    runs = [run for run in result.runs if run.arm == arm]
    evidence = [(run, one) for run in runs for one in run.evidence]
    holding = sum(bool(run.evidence) and all(one.holds for one in run.evidence) for run in runs)
    texts = Counter((one.treatment, one.holds, one.text) for _, one in evidence)
    return {
        "name": result.styles[arm].label,
        "swatch": swatch(result.styles[arm]),
        "holding": holding,
        "runs": len(runs),
        "unproved": sum(not run.evidence for run in runs),
        "texts": [
            {"treatment": treatment, "holds": holds, "text": text, "count": count}
            for (treatment, holds, text), count in texts.most_common()
        ],
        "each": [
            {"folder": run.folder, "holds": one.holds, "text": one.text, "facts": _facts(one)} for run, one in evidence
        ],
    }


def _facts(evidence: Evidence) -> str:
    if not evidence.facts:
        return ""
    text = json.dumps(evidence.facts, ensure_ascii=False, default=str, sort_keys=True)
    return text if len(text) <= MAX_FACTS else text[:MAX_FACTS] + " … (all of it is in run.json)"


def _grid(result: StudyResult) -> list[dict[str, object]]:
    """Every planned run by block and position: its arm, and whether it was run and is valid."""
    done = {(run.block, run.position): run for run in result.runs}

    def entry(planned: PlannedRun) -> dict[str, object]:
        run = done.get((planned.block, planned.position))
        state = "not run" if run is None else "valid" if run.valid else "not valid"
        style = result.styles.get(planned.arm)
        return {
            "arm": planned.arm + (" (A/A)" if planned.copy_number == 2 else ""),
            "swatch": glyph(style) if style else "",
            "state": state,
            "css": state.replace(" ", "-"),
            "reasons": joined(run.reasons) if run else "",
        }

    return [{"block": block.block, "runs": [entry(planned) for planned in block.runs]} for block in result.plan.blocks]
