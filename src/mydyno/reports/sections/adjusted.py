"""Effects adjusted for the host's speed beside the same effects before the adjustment. Only for interleaved studies."""

from __future__ import annotations

from math import log

from markupsafe import Markup

from mydyno.language import listing
from mydyno.model.stored.summary import EffectRecord, InterleavingRecord
from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, glyph, render
from mydyno.wording.numbers import change, ratio_interval, signed_percent, significant
from mydyno.wording.verdict_table import interval_text, is_adjusted, moved_by, step_heading

COVARIATES = {
    "driver_cpu_around": "the load program's CPU time per query in the slices of other arms around",
    "available_cpu_around": (
        "the share of CPU time not used by hypervisor and other programs in the slices of other arms around"
    ),
    "speed_around": "the speed meter in the slices of other arms around",
    "driver_cpu": "the load program's CPU time per query",
    "speed": "the speed meter",
    "unstolen_cpu": "the share of CPU time that the hypervisor left",
    "available_cpu": "the share of CPU time not used by hypervisor and other programs",
}


def build(result: StudyResult) -> Section | None:
    """The section, or None if no effect has both figures."""
    effects = [effect for effect in result.summary.effects if effect.verdict and is_adjusted(effect)]
    interleaving = result.summary.interleaving
    if not effects or interleaving is None:
        return None
    figures = [
        _figure(result, metric, [one for one in effects if one.metric == metric])
        for metric in dict.fromkeys(effect.metric for effect in effects)
    ]
    groups = [FigureGroup("With and without the adjustment", figures)]
    return Section(
        "adjusted",
        "Adjusted and unadjusted effects",
        "Adjusted",
        render("figures.html", intro=_intro(interleaving), legend="", groups=groups, empty=""),
    )


def _intro(interleaving: InterleavingRecord) -> str:
    names = [COVARIATES.get(one, one) for one in interleaving.covariates]
    of = listing(names) if names else "nothing"
    return (
        f"Values are adjusted for the host's speed, as shown by {of}. The coefficients are the same for all "
        "arms. The thin line below each effect is the one without it."
    )


def _figure(result: StudyResult, metric: str, effects: list[EffectRecord]) -> Figure:
    groups: list[ForestGroup] = []
    rows: list[list[str | Cell]] = []
    for step in result.steps:
        of_step = [effect for effect in effects if effect.step == step.id and effect.arm in result.styles]
        if not of_step:
            continue
        groups.append(ForestGroup(step_heading(result, step), tuple(_row(result, effect) for effect in of_step)))
        rows.append([step_heading(result, step)])
        rows += [_table_row(result, effect) for effect in of_step]
    charts = [
        Markup(
            forest_chart(
                f"adjusted:{metric}{suffix}",
                f"{result.metric_name(metric)}: effects with and without the adjustment",
                "Thick lines are adjusted, thin lines with hollow dots are not.",
                groups,
                result.margin_of(metric),
                width,
            )
        )
        for suffix, width in (("", 560.0), (":narrow", 350.0))
    ]
    head = ("arm", "adjusted", "unadjusted", "moved by", "narrower by")
    caption = f"{result.metric_name(metric)} relative to {result.relative_to}"
    return Figure(charts, Table(caption, head, rows), result.metric_name(metric), "double")


def _row(result: StudyResult, effect: EffectRecord) -> ForestRow:
    ratio, low, high = effect.unadjusted or (1.0, None, None)
    return ForestRow(
        result.styles[effect.arm],
        change(effect.ratio),
        change(effect.ci_low),
        change(effect.ci_high),
        before=(ratio - 1, change(low), change(high)),
    )


def _table_row(result: StudyResult, effect: EffectRecord) -> list[str | Cell]:
    ratio, low, high = effect.unadjusted or (1.0, None, None)
    gain = "–"
    if None not in (low, high, effect.ci_low, effect.ci_high):
        own, other = _width(effect.ci_low, effect.ci_high), _width(low, high)
        if own and other:
            gain = f"×{significant(other / own, 2)}"
    return [
        Cell(result.contrast_name(effect), "arm", glyph(result.styles[effect.arm])),
        Cell(signed_percent(effect.ratio - 1) if effect.ratio else "–", "num strong", below=interval_text(effect)),
        Cell(signed_percent(ratio - 1), "num", below=ratio_interval(low, high) or "–"),
        Cell(signed_percent(moved_by(effect)) if effect.ratio else "–", "num"),
        Cell(gain, "num"),
    ]


def _width(low: float | None, high: float | None) -> float | None:
    return log(high / low) if low and high and high > low > 0 else None
