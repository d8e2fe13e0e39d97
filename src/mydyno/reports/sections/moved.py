"""What moved: the exploratory effects that are largest against their noise, in one chart.

Size over noise is |log effect| divided by half of its interval on the log scale: above 1 the interval excludes "no
effect". These intervals are not adjusted: of those on metrics that did not move, one in twenty excludes it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import inf, log

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.stored.summary import EffectRecord
from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Table, glyph
from mydyno.wording.numbers import signed_percent, significant
from mydyno.wording.verdict_table import interval_text

MOST_ROWS = 20
NO_NOISE = 1e-12
"""Half of an interval of log ratios that is rounding alone."""


def build(result: StudyResult, metrics: Sequence[str], above: str) -> FigureGroup | None:
    """The chart with its table, of these metrics; None if none of them has an interval."""
    found = strongest([effect for metric in metrics for effect in result.effects(metric)])
    if not found:
        return None
    shown, left = found[:MOST_ROWS], len(found) - MOST_ROWS
    groups = [
        ForestGroup(label, tuple(_row(result, effect) for effect in effects))
        for label, effects in groupby(shown, lambda effect: _label(result, effect))
    ]
    description = agreed(f"{len(shown)} effects with intervals; the table that follows has the same numbers.")
    title = "Other metrics: the effects that are largest against their noise"
    charts = [
        Markup(forest_chart(f"moved{suffix}", title, description, groups, None, width, ratios=True))
        for suffix, width in (("", 560.0), (":narrow", 350.0))
    ]
    text = (
        "Sorted by size over noise: the effect divided by half of its interval, both of the log ratio; above 1 "
        "the interval excludes 0. About one interval in twenty excludes it although nothing moved. The axis is "
        "logarithmic."
    )
    if left > 0:
        text += agreed(f" {left} more effects are smaller against their noise: see below.")
    heading = (
        f"What moved: the {len(shown)} effect that is largest against its noise (exploratory)"
        if len(shown) == 1
        else agreed(f"What moved: the {len(shown)} effects that are largest against their noise (exploratory)")
    )
    return FigureGroup(heading, [Figure(charts, _table(result, shown), "", "double")], text=text, above=above)


def strongest(effects: Sequence[EffectRecord]) -> list[EffectRecord]:
    """The effects that have no verdict and an interval, the largest against its noise first; of each contrast in each
    metric the step that shows most.
    """
    having = [one for one in effects if not one.verdict and one.ratio and one.ci_low and one.ci_high]
    having.sort(key=lambda one: (size_over_noise(one), abs(log(one.ratio or 1.0))), reverse=True)
    found: dict[tuple[str, str, str], EffectRecord] = {}
    for one in having:
        found.setdefault((one.metric, one.arm, one.control), one)
    return list(found.values())


def size_over_noise(effect: EffectRecord) -> float:
    """|log effect| / half of its interval; infinite for an effect that is the same in every block."""
    assert effect.ratio and effect.ci_low and effect.ci_high
    size, half = abs(log(effect.ratio)), log(effect.ci_high / effect.ci_low) / 2
    if half > NO_NOISE:
        return size / half
    return inf if size > NO_NOISE else 0.0


def _label(result: StudyResult, effect: EffectRecord) -> str:
    """The metric, with workload and load level where there are several of them."""
    step = next((one for one in result.steps if one.id == effect.step), None)
    parts = [result.metric_name(effect.metric)]
    if step is not None and len(result.workloads) > 1:
        parts.append(step.workload)
    if step is not None and len({one.level for one in result.steps}) > 1:
        parts.append(step.short_level)
    return ", ".join(parts)


def _contrast(result: StudyResult, effect: EffectRecord) -> str:
    """The arm, and what it is compared with unless that is the study's control."""
    return effect.arm if effect.control == result.summary.control else result.contrast_name(effect)


def _row(result: StudyResult, effect: EffectRecord) -> ForestRow:
    style = replace(result.styles[effect.arm], name=_contrast(result, effect))
    ratio, low, high = (None if value is None else value - 1 for value in (effect.ratio, effect.ci_low, effect.ci_high))
    return ForestRow(style, ratio, low, high)


def _table(result: StudyResult, effects: Sequence[EffectRecord]) -> Table:
    rows: list[list[str | Cell]] = []
    for effect in effects:
        over = size_over_noise(effect)
        rows.append(
            [
                _label(result, effect),
                Cell(_contrast(result, effect), "arm", glyph(result.styles[effect.arm])),
                Cell(signed_percent((effect.ratio or 1.0) - 1), "num strong"),
                Cell(interval_text(effect), "num"),
                Cell("∞" if over == inf else significant(over, 2), "num"),
            ]
        )
    head = ("metric", "arm", "effect", "95 % interval", "size over noise")
    caption = f"Exploratory effects, relative to {result.summary.control}"
    return Table(caption, head, rows)
