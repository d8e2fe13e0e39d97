"""The question answered: short sentences, one picture or matrix, its scope, and what would improve it."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.document.result import StudyResult
from mydyno.document.section import Section, render
from mydyno.evaluation.answer import Answer
from mydyno.evaluation.full_sentences import full_sentences
from mydyno.language import agreed
from mydyno.reports.sections.picture import picture
from mydyno.results.precision import finished_blocks
from mydyno.wording.claims import counted_claims
from mydyno.wording.numbers import blocks, percent
from mydyno.wording.reasons import arm_failures
from mydyno.wording.verdict_table import SYMBOLS, WORDS, Grid, VerdictCell, VerdictTable, step_heading, verdict_table

FEWEST_LEVELS = 3
"""Load levels of a workload from which on the answer is a matrix."""


def build(result: StudyResult, found: Answer) -> Section:
    """The first section. Without effects it says why there is no answer."""
    table = verdict_table(result)
    matrix = by_level(result, table) if table else ()
    shown = _picture(result, table, found) if table and not matrix else Markup("")
    return Section(
        "answer",
        "Answer",
        "Answer",
        render(
            "answer.html",
            state=_state_words(result),
            answer=found.answer,
            further=found.further,
            table=table,
            grids=(*table.grids, *matrix) if table else (),
            steps=table.steps if table and not (shown or matrix) else (),
            picture=shown,
            legend=[(SYMBOLS[word], WORDS[word], css) for word, css in table.words()] if table and not shown else [],
            sharpen=found.sharpen,
            scope=found.scope,
            claims="" if result.before_first_look else counted_claims(result.summary),
            sentences=full_sentences(result),
            margin=percent(result.summary.margin),
        ),
    )


def _picture(result: StudyResult, table: VerdictTable, found: Answer) -> Markup:
    """The contrasts that are not in a grid of factors."""
    controls = dict.fromkeys((result.summary.control, *(one.control for one in result.summary.effects if one.verdict)))
    return picture(
        result, " ".join(found.answer), [one for one in controls if not (table.grids and one == result.summary.control)]
    )


def by_level(result: StudyResult, table: VerdictTable) -> tuple[Grid, ...]:
    """Of a sweep a matrix for each metric and workload: arms by load levels; empty for fewer than FEWEST_LEVELS."""
    most = max(len(result.steps_of_workload(workload)) for workload in result.workloads)
    if table.grids or result.several_controls or most < FEWEST_LEVELS:
        return ()
    rows = {step.heading: dict(step.rows) for step in table.steps}
    grids = []
    for index, column in enumerate(table.columns):
        for workload in result.workloads:
            steps = [one for one in result.steps_of_workload(workload) if step_heading(result, one) in rows]
            found = [rows[step_heading(result, one)] for one in steps]
            arms = dict.fromkeys(arm for of_step in found for arm in of_step)
            lines = tuple(
                ((arm,), tuple(of_step[arm][index] if arm in of_step else VerdictCell() for of_step in found))
                for arm in arms
            )
            caption = f"{column}, {workload}" if len(result.workloads) > 1 else column
            grids.append(Grid(caption, "", ("arm",), tuple(one.short_level for one in steps), lines))
    return tuple(grid for grid in grids if grid.rows)


def _state_words(result: StudyResult) -> str:
    """What a study that is not complete means for its answer; empty for a complete one."""
    planned, finished = len(result.plan.runs), len(result.runs)
    if result.runs and not result.any_valid:
        return "No run of this study is valid, so there is no answer. The chapter Trust shows the reasons."
    if result.summary.state == "complete":
        return ""
    if result.summary.state == "failed":
        return agreed(
            f"This study failed: {finished} of {planned} planned runs are finished. The report covers these runs only."
        )
    return agreed(
        f"This study is not finished: {finished} of {planned} planned runs are finished. The report covers these "
        "runs only."
    )


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
