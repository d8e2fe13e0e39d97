"""Effects with their intervals: the primary metric's with verdicts, all others exploratory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp

from markupsafe import Markup

from mydyno.model.records import EffectRecord
from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.numbers import PERCENT, metric_name, p_value, percent, signed_percent
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.answer import SYMBOLS, WORDS
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, glyph, legend, render, within
from mydyno.reports.sections.sweep import FIRST

EXPLORATORY_CHARACTERS = 420_000
"""Room for the metrics that carry no verdict: the page is to stay below 2 MB whatever the experiment."""


def build(result: StudyResult) -> Section:
    """Forest plots per metric and workload, each with its table; the primary metric's open, the others folded."""
    primary = result.summary.primary
    others = [metric for metric in (*FIRST, *result.summary.metrics) if metric in result.summary.metrics]
    others = [metric for metric in dict.fromkeys(others) if metric != primary and result.effects(metric)]
    without = [metric for metric in others if all(effect.ratio is None for effect in result.effects(metric))]
    figures = {metric: _figures(result, metric) for metric in others if metric not in without}
    kept, left = within(figures, EXPLORATORY_CHARACTERS)
    groups = [FigureGroup(metric_name(primary), _figures(result, primary))]
    for metric in kept:
        above = (
            "Other metrics: exploratory, with unadjusted intervals and without verdicts" if metric == kept[0] else ""
        )
        groups.append(FigureGroup(metric_name(metric), figures[metric], folded=True, above=above))
    groups = [group for group in groups if group.figures]
    return Section(
        "effects",
        "Effects and their intervals",
        "Effects",
        render(
            "figures.html",
            intro=_intro(result, without, left),
            legend=legend(result, with_copy=False),
            groups=groups,
            empty="No effect could be computed." if not groups else "",
        ),
    )


def _intro(result: StudyResult, without: list[str], left: list[str]) -> str:
    note = (
        f"Ratio of each arm to {result.relative_to}, from runs of the same block. The shaded band is the declared "
        f"margin of ±{percent(result.summary.margin)}; the bracket beside each level's name is the A/A noise floor: "
        "how far the control differed from its own copy. Faint dots are the blocks' own ratios."
    )
    if without:
        note += f" No ratio can be formed for: {', '.join(map(metric_name, without))}."
    if left:
        note += f" Only in summary.json, for want of room: {', '.join(map(metric_name, left))}."
    return note


def _figures(result: StudyResult, metric: str) -> list[Figure]:
    """A forest plot with its table per workload, all on the same axis; small for metrics that carry no verdict."""
    primary = metric == result.summary.primary
    sizes = (("", 560.0), (":narrow", 350.0)) if primary else (("", 350.0),)
    by_workload = {workload: _groups(result, metric, workload) for workload in result.workloads}
    beside = [group for groups in by_workload.values() for group in groups]
    figures = []
    for workload, groups in by_workload.items():
        if not groups:
            continue
        title = f"{metric_name(metric)}, {workload}: effect of each arm relative to {result.relative_to}"
        count = sum(len(group.rows) for group in groups)
        description = f"{count} effects with intervals; the table that follows holds the same numbers."
        charts = [
            Markup(
                forest_chart(
                    f"forest:{metric}:{workload}{suffix}",
                    title,
                    description,
                    groups,
                    result.margin_of(metric),
                    width,
                    beside,
                )
            )
            for suffix, width in sizes
        ]
        figures.append(
            Figure(charts, _table(result, metric, workload, primary), workload, "double", numbers_open=primary)
        )
    return figures


def _groups(result: StudyResult, metric: str, workload: str) -> list[ForestGroup]:
    groups = []
    for step in result.steps_of_workload(workload):
        effects = [effect for effect in result.effects(metric, step.id) if effect.arm in result.styles]
        if effects:
            rows = tuple(_row(result, effect) for effect in effects)
            groups.append(ForestGroup(step.level, rows, _noise(result, metric, step.id)))
    return groups


def _noise(result: StudyResult, metric: str, step: str) -> float | None:
    floor = result.summary.noise_floor.get(metric, {}).get(step)
    return floor - 1 if floor is not None and floor > 1 else None


def _table(result: StudyResult, metric: str, workload: str, primary: bool) -> Table:
    """All numbers of a forest plot; the verdicts only where there are any."""
    head: tuple[str, ...] = ("arm", "effect", "95 % interval", "verdict", "p", "blocks", "noise floor")
    if not primary:
        head = (*head[:3], *head[4:6])
    rows: list[Sequence[str | Cell]] = []
    for step in result.steps_of_workload(workload):
        noise = _noise(result, metric, step.id)
        of_step = [effect for effect in result.effects(metric, step.id) if effect.arm in result.styles]
        rows += [[step.level]] if of_step else []
        for effect in of_step:
            row = _table_row(result, effect, noise)
            rows.append(row if primary else [*row[:3], *row[4:6]])
    return Table(f"{metric_name(metric)}, {workload}, by number of connections", head, rows)


def _row(result: StudyResult, effect: EffectRecord) -> ForestRow:
    def share(ratio: float | None) -> float | None:
        return None if ratio is None else ratio - 1

    return ForestRow(
        replace(result.styles[effect.arm], name=result.contrast_name(effect)),
        share(effect.ratio),
        share(effect.ci_low),
        share(effect.ci_high),
        block_shares(result, effect) if effect.primary else (),
        f"{SYMBOLS[effect.verdict]} {WORDS[effect.verdict]}" if effect.verdict else "",
    )


def block_shares(result: StudyResult, effect: EffectRecord) -> tuple[float, ...]:
    """Each block's own effect, from the summary's details, or else from the runs."""
    logs = effect.details.get("log_ratios")
    if isinstance(logs, Mapping):
        return tuple(exp(float(value)) - 1 for value in logs.values())
    return tuple(ratio - 1 for ratio in result.block_ratios(effect.metric, effect.step, effect.arm).values())


def _table_row(result: StudyResult, effect: EffectRecord, noise: float | None) -> list[str | Cell]:
    interval = "–"
    if effect.ci_low is not None and effect.ci_high is not None:
        low, high = signed_percent(effect.ci_low - 1), signed_percent(effect.ci_high - 1)
        interval = f"{low.removesuffix(PERCENT)} … {high}"
    verdict = Cell(f"{SYMBOLS[effect.verdict]} {WORDS[effect.verdict]}", "word") if effect.verdict else Cell("")
    return [
        Cell(result.contrast_name(effect), "arm", glyph(result.styles[effect.arm])),
        Cell(signed_percent(effect.ratio - 1) if effect.ratio is not None else "–", "num strong"),
        Cell(interval, "num"),
        verdict,
        Cell(p_value(effect.p), "num"),
        Cell(str(effect.n), "num"),
        Cell(f"±{percent(noise)}" if noise else "–", "num"),
    ]
