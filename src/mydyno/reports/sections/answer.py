"""The question answered: short sentences, one picture or matrix, its scope, and what would improve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp

from markupsafe import Markup

from mydyno.document.charts.forest import ForestGroup, ForestRow
from mydyno.document.charts.picture import Column, answer_picture
from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table, render
from mydyno.evaluation.answer import Answer
from mydyno.language import agreed
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.reports.verdicts import ABSENT, Verdicts, cell_of, verdicts_of
from mydyno.results.precision import answered_metrics, finished_blocks
from mydyno.wording.numbers import NONE, blocks, display_unit, percent
from mydyno.wording.reasons import arm_failures, counted_claims
from mydyno.wording.verdicts import absolute, column_name

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


MOST_COLUMNS, MOST_ROWS = 4, 24
SIZES = (("", 1120.0), (":narrow", 350.0))
COSTS = ("server_rss_bytes", "latency_p99_us")
"""Columns without verdicts, where there is room."""
PLAIN = "plain"
"""The class of what is not decided, or has no verdict."""
DIRECTIONS = {"higher": "more is better", "lower": "less is better"}


def picture(result: StudyResult, title: str, controls: Sequence[str]) -> Markup:
    """The picture of the contrasts with these controls; empty without any, or with too many rows for a picture."""
    judged = answered_metrics(result.summary)
    further = [one for one in COSTS if one not in judged and any(of.ratio for of in result.effects(one))]
    metrics = (*judged, *further[: max(0, MOST_COLUMNS - len(judged))])
    bands = [(step, control) for step in result.steps for control in controls if _arms(result, step, control)]
    if not bands or sum(len(_arms(result, *band)) for band in bands) > MOST_ROWS:
        return Markup("")
    columns = [_column(result, metric, bands) for metric in metrics]
    description = "; ".join(
        f"{group.label}, {row.style.name}, {column.heading}: {row.word}"
        for column in columns for group in column.groups for row in group.rows
    )  # fmt: skip
    control = bands[0][1] if len(controls) == 1 else "control"
    charts = [answer_picture(f"answer{name}", title, description, control, columns, width) for name, width in SIZES]
    return Markup("".join(charts))


def _block_shares(result: StudyResult, effect: EffectRecord) -> tuple[float, ...]:
    """Each block's own effect, from the summary's details, or else from the runs."""
    logs = effect.details.log_ratios
    if logs is not None:
        return tuple(exp(value) - 1 for value in logs.values())
    return tuple(ratio - 1 for ratio in result.block_ratios(effect.metric, effect.step, effect.arm).values())


def _arms(result: StudyResult, step: StepLevel, control: str) -> list[str]:
    """The arms with a verdict at a step against this control."""
    found = [
        effect.arm
        for metric in answered_metrics(result.summary)
        for effect in result.effects(metric, step.id)
        if effect.verdict and effect.control == control and effect.arm in result.styles
    ]
    return list(dict.fromkeys(found))


def _column(result: StudyResult, metric: str, bands: Sequence[tuple[StepLevel, str]]) -> Column:
    known = result.summary.metrics.get(metric)
    note = DIRECTIONS.get(known.better if known else "none", "")
    if not any(effect.verdict for effect in result.effects(metric)):
        note = ", ".join(filter(None, (note, "no verdict")))
    groups, values = [], []
    for step, control in bands:
        effects = {one.arm: one for one in result.effects(metric, step.id) if one.control == control}
        rows = tuple(_row(result, step, control, metric, arm, effects.get(arm)) for arm in _arms(result, step, control))
        floor = result.summary.noise_floor.get(metric, {}).get(step.id)
        noise = floor - 1 if floor and floor > 1 and control == result.summary.control else None
        heading = result.step_heading(step)
        groups.append(ForestGroup(f"{heading}, against {control}" if result.several_controls else heading, rows, noise))
        values.append(absolute(result, metric, step.id, control, digits=4))
    margin = result.margin_of(metric)
    return Column(column_name(metric, result.workloads), note, margin, tuple(values), tuple(groups))


def _row(
    result: StudyResult, step: StepLevel, control: str, metric: str, arm: str, effect: EffectRecord | None
) -> ForestRow:
    style = replace(result.styles[arm], name=arm)
    if effect is None:
        return ForestRow(style, None, None, None, word=NONE, css=PLAIN)
    cell = cell_of(result, effect)
    css = cell.css.removeprefix("verdict ").replace("none", PLAIN) if cell.symbol else PLAIN
    if effect.ratio is None or css == "failed":
        return ForestRow(style, None, None, None, word=f"{cell.symbol} {cell.text}".strip(), css=css)
    label = cell.text
    value, base = result.level_of(metric, step.id, arm), result.level_of(metric, step.id, control)
    if value is not None:
        known = result.summary.metrics.get(metric)
        label += f" → {display_unit(metric, base or value, known.unit if known else '').number(value, 4)}"
    shares, text = _block_shares(result, effect), f"{label} \u00a0{cell.symbol} {cell.word}" if cell.symbol else label
    return ForestRow.of(style, effect.ratio, effect.ci_low, effect.ci_high, blocks=shares, word=text, css=css)
