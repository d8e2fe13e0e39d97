"""The main effects of a screening study: a table, a half-normal plot, and what is mixed into them."""

from __future__ import annotations

from math import log

from markupsafe import Markup

from mydyno.document.charts.half_normal import SizedEffect, half_normal_chart
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, render
from mydyno.language import agreed
from mydyno.model.stored.screening import ScreenedFactor, ScreenRecord
from mydyno.stats.screening import half_normal_quantiles
from mydyno.wording.numbers import metric_name, p_value, percent_range, signed_percent
from mydyno.wording.screening import design_words, mixed_words

LENTH = "With one block the standard error is Lenth's, which takes the small effects for noise."
BLOCKS = "The standard error comes from the differences between blocks, of all variables together."


def build(result: StudyResult) -> Section | None:
    """None if the study screens nothing."""
    records = result.summary.screening
    if not records:
        return None
    groups = [FigureGroup(record.step, [_figure(record)], text=_words(result, record)) for record in records]
    return Section(
        "screening",
        "Main effects of the variables",
        "Variables",
        render(
            "figures.html",
            intro="The main effect of a variable is the change from its first to its last value, over all runs of "
            "the design. In the plot, effects that are noise lie near the line; the dashed line is the "
            "margin beyond which an effect counts.",
            legend="",
            groups=groups,
            empty="",
        ),
    )


def _words(result: StudyResult, record: ScreenRecord) -> str:
    spec = result.study.experiment.screen
    assert spec is not None
    blocks = agreed(f"{record.blocks} blocks")
    lost = f" {record.lost_blocks} lack a run and are not used." if record.lost_blocks else ""
    method = LENTH if record.method == "lenth" else BLOCKS
    first = f"{', '.join((design_words(record, spec), blocks))}."
    return " ".join((first + lost, method, mixed_words(record)))


def _figure(record: ScreenRecord) -> Figure:
    ordered = sorted(record.factors, key=_size)
    effects = [
        SizedEffect(one.name, _size(one), float(quantile), one.active, f"{one.name}: {signed_percent(one.ratio - 1)}")
        for one, quantile in zip(ordered, half_normal_quantiles(len(ordered)), strict=True)
    ]
    heading = f"{metric_name(record.metric)}: half-normal plot"
    charts = [
        Markup(
            half_normal_chart(
                f"half-normal:{record.metric}:{record.step}{suffix}",
                heading,
                agreed(f"Sizes of the main effects of {len(effects)} variables; the table has them all."),
                effects,
                100 * record.standard_error,
                _margin(record),
                (width, css),
            )
        )
        for suffix, width, css in (("", 640.0, "wide"), (":narrow", 350.0, "narrow"))
    ]
    return Figure(charts, _table(record), "", "full", numbers_open=True)


def _size(one: ScreenedFactor) -> float:
    return 100 * abs(log(one.ratio))


def _margin(record: ScreenRecord) -> float | None:
    one = record.factors[0]
    if one.ci_low is None or one.ci_high is None:
        return None
    return 50 * log(one.ci_high / one.ci_low)


def _table(record: ScreenRecord) -> Table:
    rows: list[list[str | Cell]] = []
    for one in sorted(record.factors, key=_size, reverse=True):
        interval = ""
        if one.ci_low is not None and one.ci_high is not None:
            interval = percent_range(one.ci_low - 1, one.ci_high - 1)
        rows.append([
            one.name,
            Cell(f"{one.first} → {one.last}"),
            Cell(signed_percent(one.ratio - 1), "num", below=interval),
            Cell("–" if one.p is None else p_value(one.p), "num"),
            Cell("matters" if one.active else "not shown"),
            Cell(_mixed(one)),
        ])  # fmt: skip
    return Table(
        f"Main effects on {metric_name(record.metric)}, largest first, with simultaneous intervals",
        ["variable", "change", "effect", "p", "", "mixed with"],
        rows,
    )


def _mixed(one: ScreenedFactor) -> str:
    """The interactions aliased with an effect, or how many are partially aliased."""
    if one.aliases:
        more = f" and {len(one.aliases) - 2} more" if len(one.aliases) > 2 else ""
        return "; ".join(one.aliases[:2]) + more
    if one.partial_aliases:
        return f"up to {one.largest_part:.0%} of each of {one.partial_aliases} interactions".replace("%", " %")
    return "no interaction of two"
