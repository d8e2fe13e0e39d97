"""The question answered: short sentences, one picture or matrix, its scope, and what would improve it."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table, render
from mydyno.evaluation.answer import Answer
from mydyno.evaluation.full_sentences import full_sentences
from mydyno.language import agreed
from mydyno.reports.sections.picture import picture
from mydyno.reports.verdicts import ABSENT, Verdicts, verdicts_of
from mydyno.results.precision import finished_blocks
from mydyno.wording.numbers import blocks, percent
from mydyno.wording.reasons import arm_failures, counted_claims

FEWEST_LEVELS = 3
"""Load levels of a workload from which on the answer is a matrix."""


def build(result: StudyResult, found: Answer) -> Part:
    """The first section. Without effects it says why there is no answer."""
    verdicts = verdicts_of(result)
    matrix = by_level(result, verdicts) if verdicts else []
    shown = _picture(result, verdicts, found) if verdicts and not matrix else Markup("")
    steps = verdicts.steps if verdicts and not (shown or matrix) else None
    html = render(
        "answer.html",
        state=_state_words(result),
        answer=found.answer,
        further=found.further,
        verdicts=verdicts,
        grids=(*verdicts.grids, *matrix) if verdicts else (),
        steps=replace(steps, caption=verdicts.caption) if steps and verdicts else None,
        picture=shown,
        legend=verdicts.signs if verdicts and not shown else [],
        sharpen=found.sharpen,
        scope=found.scope,
        claims="" if result.before_first_look else counted_claims(result.summary),
        sentences=full_sentences(result),
        margin=percent(result.summary.margin),
    )
    return Part(id="answer", heading="Answer", body=[html])


def _picture(result: StudyResult, verdicts: Verdicts, found: Answer) -> Markup:
    """The contrasts that are not in a grid of factors."""
    summary = result.summary
    controls = dict.fromkeys((summary.control, *(one.control for one in summary.effects if one.verdict)))
    drawn = [one for one in controls if not (verdicts.grids and one == summary.control)]
    return picture(result, " ".join(found.answer), drawn)


def by_level(result: StudyResult, verdicts: Verdicts) -> list[Table]:
    """Of a sweep a matrix for each metric and workload: arms by load levels; empty for fewer than FEWEST_LEVELS."""
    most = max(len(result.steps_of_workload(workload)) for workload in result.workloads)
    if verdicts.grids or result.several_controls or most < FEWEST_LEVELS:
        return []
    rows, grids = verdicts.by_step, []
    for index, column in enumerate(verdicts.columns):
        for workload in result.workloads:
            steps = [one for one in result.steps_of_workload(workload) if result.step_heading(one) in rows]
            found = [rows[result.step_heading(one)] for one in steps]
            arms = dict.fromkeys(arm for of_step in found for arm in of_step)
            lines: list[list[str | Cell]] = [
                [arm, *(of_step[arm][index] if arm in of_step else ABSENT for of_step in found)] for arm in arms
            ]
            caption = f"{column}, {workload}" if len(result.workloads) > 1 else column
            grids.append(Table(caption, ("arm", *(one.short_level for one in steps)), lines))
    return [grid for grid in grids if grid.rows]


def _state_words(result: StudyResult) -> str:
    """What a study that is not complete means for its answer; empty for a complete one."""
    planned, finished = len(result.plan.runs), len(result.runs)
    if result.runs and not result.any_valid:
        return "No run of this study is valid, so there is no answer. The chapter Trust shows the reasons."
    if result.summary.state == "complete":
        return ""
    has = "failed" if result.summary.state == "failed" else "is not finished"
    made = f"{finished} of {planned} planned runs are finished"
    return agreed(f"This study {has}: {made}. The report covers these runs only.")


def chips(result: StudyResult) -> list[tuple[str, str]]:
    """(CSS class, text) of what must be known before anything else is read: state, runs, scale."""
    planned = len(result.plan.runs)
    valid = sum(run.valid for run in result.runs)
    state = result.summary.state
    states = {"complete": "complete", "partial": "partial study", "failed": "failed study"}
    failed = arm_failures(result.runs)
    found = [("state-failed" if failed else f"state-{state}", states[state])]
    of_planned = agreed(f"{valid} of {planned} planned runs valid")
    found.append(("state-partial" if valid < planned else "plain", of_planned))
    if len(result.runs) < planned:
        found.append(("state-partial", f"{planned - len(result.runs)} not run"))
    if failed:
        found.append(("state-failed", failed))
    unused = len(result.unused_steps)
    if unused:
        steps = valid * len(result.steps)
        found.append(("state-partial", agreed(f"{unused} of their {steps} load levels not valid")))
    found.append(("plain", blocks(finished_blocks(result.summary))))
    if result.group_of:
        found.append(("plain", agreed(f"{len(set(result.group_of.values()))} hosts")))
    if result.summary.design != "blocks":
        found.append(("plain", "switchback" if result.summary.design == "switchback" else "interleaved"))
    found.append(("plain", f"scale {result.study.experiment.scale}"))
    return found
