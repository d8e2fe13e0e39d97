"""What each factor does: lines over a quantitative factor, main effects and interactions with their intervals."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from mydyno.analysis.base import Analysis
from mydyno.analysis.factors.effects import analyse
from mydyno.analysis.factors.words import crossing_words, level_name, say
from mydyno.document.charts.palette import ArmStyle
from mydyno.document.charts.sweep import SweepSeries, sweep_chart
from mydyno.document.parts import Figures, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Table, render, swatch
from mydyno.model.definition.factors import Factors, factors_of
from mydyno.model.stored.factors import FactorEffect, FactorLevels, FactorsRecord
from mydyno.model.stored.summary import StepLevel
from mydyno.wording.numbers import display_unit, level_percent, ratio_interval, signed_percent


def part(result: StudyResult) -> Part | None:
    """The section; None for a study without factors."""
    record, factors = result.summary.factors, factors_of(result.study.experiment.arms)
    if record is None or factors is None or result.before_first_look:
        return None
    groups = []
    for step in result.steps:
        figures = []
        for metric in dict.fromkeys(one.metric for one in record.effects if one.step == step.id):
            effects = [one for one in record.effects if (one.metric, one.step) == (metric, step.id)]
            charts = [_lines(result, factors, over, metric, step) for over in record.factors if over.values]
            caption, css = ("", "") if charts else (result.metric_name(metric), "full")
            figures.append(Figure(charts, _table(result, record, effects), caption, css, not charts))
        groups.append(FigureGroup(result.step_heading(step), figures))
    drawn = Figures(groups, _legend(result, record, factors))
    return Part(id="factors", heading="What each factor does", body=[Note(_intro(result), "intro"), drawn])


def _intro(result: StudyResult) -> str:
    note = (
        "A main effect is the mean over all combinations of the other factors, as a ratio; an effect at another "
        "factor's level is the mean over the combinations with that level; an interaction is how much the "
        f"second differs from the one at the control's level. Intervals of {level_percent(result.summary.alpha)} "
        "are simultaneous over all of these effects."
    )
    record = result.summary.factors
    if record is not None and record.crossings:
        note += (
            " A change of sign is interpolated over the logarithm of the level between two measured ones; its "
            "interval is of the noise alone."
        )
    return note


def _looks(result: StudyResult, factors: Factors, over: FactorLevels) -> list[tuple[ArmStyle, list[tuple[float, str]]]]:
    """(style, [(number of the level, arm)]) of each combination of the other factors: that of its arm at the base."""
    index = [factor.name for factor in factors.factors].index(over.name)
    found: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for arm, levels in factors.levels_of.items():
        rest = (*levels[:index], *levels[index + 1 :])
        found.setdefault(rest, []).append((over.values[over.levels.index(levels[index])], arm))
    looks = []
    for rest, points in found.items():
        base = next(arm for _, arm in points if factors.levels_of[arm][index] == over.base)
        name = ", ".join(rest)
        looks.append((replace(result.styles[base], name=name, label=name), points))
    return looks


def _legend(result: StudyResult, record: FactorsRecord, factors: Factors) -> Markup:
    styles = [style for over in record.factors if over.values for style, _ in _looks(result, factors, over)]
    if not styles:
        return Markup("")
    return render("legend.html", entries=[(style.css, swatch(style), style.label) for style in styles])


def _lines(result: StudyResult, factors: Factors, over: FactorLevels, metric: str, step: StepLevel) -> str:
    """A line over the levels of a quantitative factor for each combination of the others."""
    series = [
        SweepSeries(
            style,
            tuple(
                (level, value, used)
                for level, arm in points
                for run, value, used in result.values(metric, step.id)
                if run.arm == arm
            ),
        )
        for style, points in _looks(result, factors, over)
    ]
    values = [abs(value) for one in series for _, value, _ in one.points]
    known = result.summary.metrics.get(metric)
    return sweep_chart(
        f"factors:{over.name}:{metric}:{step.id}",
        result.metric_name(metric),
        f"{result.metric_name(metric)} over {over.name}, a line for each combination of the other "
        "factors; dots are runs.",
        display_unit(metric, max(values, default=1.0), known.unit if known else ""),
        series,
        over.values,
        over.name,
        {value: level_name(over, level) for value, level in zip(over.values, over.levels, strict=True)},
    )


def _table(result: StudyResult, record: FactorsRecord, effects: list[FactorEffect]) -> Table:
    """Main effects with what another factor's levels make of them, then interactions, and changes of sign."""
    rows: list[list[str | Cell]] = []
    kinds = (
        ("Main effects", "main"),
        ("Effects at the levels of another factor", "at"),
        ("Interactions", "interaction"),
    )
    for heading, kind in kinds:
        of_kind = [one for one in effects if one.kind == kind]
        rows += [[heading]] if of_kind else []
        rows += [_row(record, one) for one in of_kind]
    first = effects[0]
    crossings = [one for one in record.crossings if (one.metric, one.step) == (first.metric, first.step)]
    rows += [["Changes of sign"]] if crossings else []
    for one in crossings:
        factor, other = record.factor(one.factor), record.factor(one.other)
        where = crossing_words(other, one)
        rows.append([_contrast(factor, one.level), one.other, Cell("0", "num strong"), Cell(where), ""])
    head = ("level", "where", "effect", f"{level_percent(result.summary.alpha)} interval", "decided")
    return Table(f"Effects of the factors on {result.metric_name(first.metric)}", head, rows)


def _row(record: FactorsRecord, effect: FactorEffect) -> list[str | Cell]:
    factor = record.factor(effect.factor)
    where = "mean of all"
    if effect.other:
        other = record.factor(effect.other)
        where = level_name(other, effect.at)
        if effect.kind == "interaction":
            where = _contrast(other, effect.at)
    share = None if effect.ratio is None else effect.ratio - 1
    size = "–" if share is None else signed_percent(share)
    decided = "yes" if effect.decided else "no"
    return [
        _contrast(factor, effect.level),
        where,
        Cell(size, "num strong"),
        Cell(ratio_interval(effect.ci_low, effect.ci_high), "num"),
        decided,
    ]


def _contrast(factor: FactorLevels, level: str) -> str:
    return f"{factor.name}: {level_name(factor, factor.base)} → {level_name(factor, level)}"


ANALYSIS = Analysis(chapter="answer", part=part, stored="factors", analyse=analyse, say=say, says_all=False)
