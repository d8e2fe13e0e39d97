"""The question answered: short sentences, one picture or matrix, its scope, and what would improve it.

The picture has arms and the control's copy as rows, metrics as columns, absolute values at every mark. In each cell:
the interval of the effect, the margin as a band, the blocks' own effects as faint dots, and a label with the change,
the arm's value and the verdict. Only what is decided has a colour. A narrow picture has one metric below the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

from markupsafe import Markup

from mydyno.document.drawing import Linear, Svg, tick_decimals
from mydyno.document.forest import ForestGroup, ForestRow, draw_interval, effect_scale, shortened
from mydyno.document.parts import Cell, Part, Table, render
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import Answer
from mydyno.language import agreed
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.reports.verdicts import ABSENT, Verdicts, cell_of, verdicts_of
from mydyno.results.precision import answered_metrics, finished_blocks
from mydyno.wording.numbers import NONE, blocks, display_unit, noise_text, percent, signed_percent
from mydyno.wording.verdicts import absolute, arm_failures, column_name, counted_claims

LETTER, BOLD_LETTER = 6.9, 7.7
"""The average width of a letter, in pixels."""
NARROW = 480.0
ROW, VALUE_ROW, NOISE_ROW, HEADING, HEAD, AXIS, GAP = 46.0, 26.0, 38.0, 26.0, 44.0, 42.0, 28.0
LEAST_NAMES, MOST_NAMES = 84.0, 200.0
MOST_TICKS = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One metric: a group of rows for each band, and the control's value there."""

    heading: str
    note: str
    """Which direction is good."""
    margin: float | None
    values: tuple[str, ...]
    groups: tuple[ForestGroup, ...]


def answer_picture(
    key: str, title: str, description: str, control: str, columns: Sequence[Column], width: float
) -> str:
    """The picture; all columns have the same bands with the same rows. One band has no heading."""
    wide = width >= NARROW
    longest = max(
        len(name) for name in (f"{control} again", *(r.style.name for g in columns[0].groups for r in g.rows))
    )
    names = min(max(LEAST_NAMES, longest * BOLD_LETTER + 8), MOST_NAMES if wide else width / 3)
    parts = [columns] if wide else [[column] for column in columns]
    copied = [any(column.groups[place].noise for column in columns) for place in range(len(columns[0].groups))]
    headed = len(copied) > 1
    heights = [_band_height(group, headed, one) for group, one in zip(columns[0].groups, copied, strict=True)]
    tall = HEAD + sum(heights) + AXIS
    svg = Svg(key, width, tall * len(parts) + GAP * (len(parts) - 1), title, description)
    for index, part in enumerate(parts):
        _part(svg, control, part, names, index * (tall + GAP), copied)
    return svg.render("picture " + ("wide" if wide else "narrow"))


def _band_height(group: ForestGroup, headed: bool, copied: bool) -> float:
    return (HEADING if headed else 0) + VALUE_ROW + ROW * len(group.rows) + NOISE_ROW * copied


def _part(svg: Svg, control: str, columns: Sequence[Column], names: float, top: float, copied: Sequence[bool]) -> None:
    """Some of the columns, and the rows' names. `copied`: whether a band has a row for the control's copy."""
    room = (svg.width - names) / len(columns)
    for index, column in enumerate(columns):
        left = names + index * room
        _draw_column(svg, column, left, left + room - (GAP if index < len(columns) - 1 else 10), top, copied)
    y = top + HEAD
    for group, has_copy in zip(columns[0].groups, copied, strict=True):
        y = _names(svg, control, group, int((names - 6) / BOLD_LETTER), y, len(copied) > 1, has_copy)


def _names(svg: Svg, control: str, group: ForestGroup, letters: int, y: float, headed: bool, has_copy: bool) -> float:
    """The names of a band's rows with a rule above each; gives the band's end."""
    if headed:
        svg.text(0, y + 18, group.label, "t strong")
        y += HEADING
    for name, height in [(control, VALUE_ROW), *((row.style.name, ROW) for row in group.rows)]:
        svg.line(0, y, svg.width, y, "grid")
        svg.text(0, y + (18 if height < ROW else 22), shortened(name, letters), "t strong")
        y += height
    if not has_copy:
        return y
    svg.line(0, y, svg.width, y, "grid")
    svg.text(0, y + 18, shortened(f"{control} again", letters), "t soft")
    svg.text(0, y + 34, "A/A noise", "t soft")
    return y + NOISE_ROW


def _draw_column(svg: Svg, column: Column, left: float, right: float, top: float, copied: Sequence[bool]) -> None:
    ticks, scale = effect_scale(column.groups, column.margin, left + 8, right - 8, MOST_TICKS)
    svg.text(left, top + 14, column.heading, "t strong")
    svg.text(left, top + 32, column.note, "t soft")
    svg.line(left, top + HEAD, right, top + HEAD, "axis")
    y = top + HEAD
    for value, group, has_copy in zip(column.values, column.groups, copied, strict=True):
        y += HEADING if len(column.groups) > 1 else 0
        end = y + _band_height(group, False, has_copy)
        if column.margin:
            start, width = scale.clamp(-column.margin), scale.clamp(column.margin) - scale.clamp(-column.margin)
            svg.rect(start, y, width, end - y, "margin")
        for tick in ticks:
            svg.line(scale(tick), y, scale(tick), end, "zero" if tick == 0 else "grid")
        svg.text(_inside(scale(0), value, left, right), y + 18, value, "t value", "middle")
        y += VALUE_ROW
        for row in group.rows:
            _cell(svg, scale, row, y, (left, right))
            y += ROW
        _noise(svg, scale, group.noise, y, (left, right))
        y = end
    _axis(svg, scale, ticks, (left, right), y)
    if column.margin:
        words = f"shaded: within ±{percent(column.margin)}"
        svg.text(_inside(scale(0), words, left, right), y + 34, words, "t soft", "middle")


def _axis(svg: Svg, scale: Linear, ticks: Sequence[float], ends: tuple[float, float], y: float) -> None:
    """The ticks' labels, from 0 on every one that has room."""
    decimals = max(0, tick_decimals(ticks) - 2)
    texts = {tick: signed_percent(tick, decimals) if tick else "0" for tick in ticks}
    wide = max(map(len, texts.values())) * LETTER
    every = math.ceil((wide + 8) / max(1.0, scale(ticks[1]) - scale(ticks[0])))
    zero = min(range(len(ticks)), key=lambda index: abs(ticks[index]))
    for index, (tick, text) in enumerate(texts.items()):
        half = len(text) * LETTER / 2
        fits = ends[0] - 5 <= scale(tick) - half and scale(tick) + half <= ends[1] + 5
        if (index - zero) % every == 0 and fits:
            svg.text(scale(tick), y + 16, text, "t soft", "middle")


def _cell(svg: Svg, scale: Linear, row: ForestRow, y: float, ends: tuple[float, float]) -> None:
    svg.open_group(f"v-{row.css}")
    line = y + 17
    draw_interval(svg, scale, row, line)
    at = scale.clamp(row.effect) if row.effect is not None else scale(0)
    if row.effect is not None:
        svg.marks("circle", [(at, line)], 4.6, "mark")
    svg.text(_inside(at, row.word, *ends), y + 38, row.word, "t label", "middle")
    svg.close_group()


def _noise(svg: Svg, scale: Linear, noise: float | None, y: float, ends: tuple[float, float]) -> None:
    if not noise:
        return
    left, right = scale.clamp(-noise), scale.clamp(noise)
    svg.path(f"M{left:.1f} {y + 9:.1f}v8M{left:.1f} {y + 13:.1f}H{right:.1f}M{right:.1f} {y + 9:.1f}v8", "noise")
    text = noise_text(noise)
    svg.text(_inside(scale(0), text, *ends), y + 32, text, "t soft", "middle")


def _inside(x: float, text: str, left: float, right: float) -> float:
    """The middle of a text near x that does not leave its column."""
    half = len(text) * LETTER / 2
    return min(max(x, left + half), max(right - half, left + half))


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
        found.append(("plain", result.summary.design))
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
