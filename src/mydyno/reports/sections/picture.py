"""The picture of the answer: each arm's change and value in the metrics of the question and the usual costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp

from markupsafe import Markup

from mydyno.document.charts.forest import ForestGroup, ForestRow
from mydyno.document.charts.picture import Column, answer_picture
from mydyno.document.result import StudyResult
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.reports.verdicts import cell_of
from mydyno.results.precision import answered_metrics
from mydyno.wording.numbers import NONE, display_unit
from mydyno.wording.verdicts import absolute, column_name

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
