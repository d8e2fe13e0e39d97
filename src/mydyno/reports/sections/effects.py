"""Effects with their intervals: the declared ones with verdicts, all others exploratory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.metrics import split_instance
from mydyno.model.stored.summary import EffectRecord
from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections import moved
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, glyph, legend, render, within
from mydyno.reports.sections.sweep import FIRST
from mydyno.wording.numbers import change, level_percent, p_value, percent, ratio_interval, signed_percent
from mydyno.wording.verdict_table import SYMBOLS, verdict_text, verdict_word

EXPLORATORY_CHARACTERS = 420_000
"""Room for the metrics that carry no verdict: the page is to stay below 2 MB whatever the experiment."""

NOT_YET = (
    "Effects are shown from the first look on. Looking earlier and stopping at a favourable "
    "result finds differences that do not exist."
)


def build(result: StudyResult) -> Section:
    """Forest plots per metric and workload, each with its table; the primary metric's open, the others folded."""
    primary = result.summary.primary
    if result.before_first_look:
        html = render("figures.html", intro=NOT_YET, legend="", groups=[], empty="No look is due yet.")
        return Section("effects", "Effects and their intervals", "Effects", html)
    others = [metric for metric in (*FIRST, *result.summary.metrics) if metric in result.summary.metrics]
    others = [metric for metric in dict.fromkeys(others) if metric != primary and result.effects(metric)]
    without = [metric for metric in others if all(effect.ratio is None for effect in result.effects(metric))]
    judged = [metric for metric in others if metric not in without and _is_judged(result, metric)]
    figures = {metric: _figures(result, metric) for metric in others if metric not in without}
    kept, left = within({metric: figures[metric] for metric in figures if metric not in judged}, EXPLORATORY_CHARACTERS)
    groups = [FigureGroup(result.metric_name(primary), _figures(result, primary))]
    groups += [FigureGroup(name, found) for name, found in _by_metric(result, judged, figures).items()]
    above = "Other metrics: exploratory, with unadjusted intervals and without verdicts"
    explored = moved.build(result, [metric for metric in figures if metric not in judged], above)
    if explored is not None:
        groups.append(explored)
        above = ""
    for name, found in _by_metric(result, kept, figures).items():
        groups.append(FigureGroup(name, found, folded=True, above=above))
        above = ""
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


def _is_judged(result: StudyResult, metric: str) -> bool:
    """Whether verdicts were declared on it: the primary metric, or one of [[verdict.compare]]."""
    return metric == result.summary.primary or any(effect.verdict for effect in result.effects(metric))


def _by_metric(
    result: StudyResult, metrics: Sequence[str], figures: Mapping[str, list[Figure]]
) -> dict[str, list[Figure]]:
    """Heading → figures: those of a run and those of its instances under one heading."""
    groups: dict[str, list[Figure]] = {}
    for metric in metrics:
        base, instance = split_instance(metric)
        known = base in metrics or instance is None
        name = result.metric_name(base)
        heading = name if known else f"{name}, each instance"
        groups.setdefault(heading, []).extend(figures[metric])
    return groups


def _intro(result: StudyResult, without: list[str], left: list[str]) -> str:
    note = (
        f"Ratio of each arm to {result.relative_to}, from runs of the same block. The shaded band is the "
        f"declared margin of ±{percent(result.summary.margin)}; the bracket beside each level's name is the A/A "
        "noise floor: how far the control differed from its own copy. Faint dots are the blocks' own ratios."
    )
    if without:
        note += f" No ratio can be formed for: {_names(result, without)}."
    if left:
        note += f" Only in summary.json, to limit the size of the page: {_names(result, left)}."
    return note


def _names(result: StudyResult, metrics: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(result.metric_name(split_instance(metric)[0]) for metric in metrics))


def _figures(result: StudyResult, metric: str) -> list[Figure]:
    """A forest plot with its table per workload, all on the same axis; small for metrics that carry no verdict."""
    judged = _is_judged(result, metric)
    sizes = (("", 560.0), (":narrow", 350.0)) if judged else (("", 350.0),)
    instance = split_instance(metric)[1]
    by_workload = {workload: _groups(result, metric, workload) for workload in result.workloads}
    beside = [group for groups in by_workload.values() for group in groups]
    figures = []
    for workload, groups in by_workload.items():
        if not groups:
            continue
        title = f"{result.metric_name(metric)}, {workload}: effect of each arm relative to {result.relative_to}"
        count = sum(len(group.rows) for group in groups)
        description = agreed(f"{count} effects with intervals; the table that follows has the same numbers.")
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
        caption = workload if instance is None else f"{workload}, instance {instance}"
        figures.append(Figure(charts, _table(result, metric, workload, judged), caption, "double"))
    return figures


def _groups(result: StudyResult, metric: str, workload: str) -> list[ForestGroup]:
    groups = []
    for step in result.steps_of_workload(workload):
        effects = _shown(result, metric, step.id)
        if effects:
            rows = tuple(_row(result, effect) for effect in effects)
            groups.append(ForestGroup(step.short_level, rows, _noise(result, metric, step.id)))
    return groups


def _shown(result: StudyResult, metric: str, step: str) -> list[EffectRecord]:
    """The effects of a step; an instance that an arm does not have is no gap in what was measured, and left out."""
    of_instance = split_instance(metric)[1] is not None
    found = [effect for effect in result.effects(metric, step) if effect.arm in result.styles]
    return [effect for effect in found if not (of_instance and effect.ratio is None)]


def _noise(result: StudyResult, metric: str, step: str) -> float | None:
    floor = result.summary.noise_floor.get(metric, {}).get(step)
    return floor - 1 if floor is not None and floor > 1 else None


def _table(result: StudyResult, metric: str, workload: str, judged: bool) -> Table:
    """All numbers of a forest plot; the verdicts only where there are any."""
    interval = f"{level_percent(result.summary.alpha if judged else 0.05)} interval"
    head: tuple[str, ...] = ("arm", "effect", interval, "verdict", "p", "blocks", "noise floor")
    if not judged:
        head = (*head[:3], *head[4:6])
    rows: list[Sequence[str | Cell]] = []
    levels = next((step.amount_name for step in result.steps_of_workload(workload)), "connections")
    for step in result.steps_of_workload(workload):
        noise = _noise(result, metric, step.id)
        of_step = _shown(result, metric, step.id)
        rows += [[step.level]] if of_step else []
        for effect in of_step:
            row = _table_row(result, effect, noise)
            rows.append(row if judged else [*row[:3], *row[4:6]])
    return Table(
        f"{result.metric_name(metric)}, {workload}, by {levels}",
        head,
        rows,
    )


def _row(result: StudyResult, effect: EffectRecord) -> ForestRow:
    return ForestRow(
        replace(result.styles[effect.arm], name=result.contrast_name(effect)),
        change(effect.ratio),
        change(effect.ci_low),
        change(effect.ci_high),
        block_shares(result, effect) if effect.verdict else (),
        f"{SYMBOLS[word]} {verdict_text(result, effect)}" if (word := verdict_word(result, effect)) else "",
    )


def block_shares(result: StudyResult, effect: EffectRecord) -> tuple[float, ...]:
    """Each block's own effect, from the summary's details, or else from the runs."""
    logs = effect.details.log_ratios
    if logs is not None:
        return tuple(exp(value) - 1 for value in logs.values())
    return tuple(ratio - 1 for ratio in result.block_ratios(effect.metric, effect.step, effect.arm).values())


def _table_row(result: StudyResult, effect: EffectRecord, noise: float | None) -> list[str | Cell]:
    word = verdict_word(result, effect)
    verdict = Cell(f"{SYMBOLS[word]} {verdict_text(result, effect)}", "word") if word else Cell("")
    return [
        Cell(result.contrast_name(effect), "arm", glyph(result.styles[effect.arm])),
        Cell(signed_percent(effect.ratio - 1) if effect.ratio is not None else "–", "num strong"),
        Cell(ratio_interval(effect.ci_low, effect.ci_high) or "–", "num"),
        verdict,
        Cell(p_value(effect.p), "num"),
        Cell(str(effect.n), "num"),
        Cell(f"±{percent(noise)}" if noise else "–", "num"),
    ]
