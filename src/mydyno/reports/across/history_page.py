"""A history as a document of HTML: the answer, each series as a chart with its levels, every study."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.document.charts.history import LevelLine, StudyPoint, history_chart
from mydyno.document.charts.sparkline import sparkline
from mydyno.document.section import Cell, Figure, FigureGroup, Section, render
from mydyno.language import agreed
from mydyno.model.stored.history import History, HistorySeries
from mydyno.reports.across import history_tables
from mydyno.reports.across.history_text import title
from mydyno.reports.across.pages import Document, section
from mydyno.reports.across.tables import step_heading, when
from mydyno.wording.across.history import date, series_name
from mydyno.wording.numbers import display_unit, metric_name

SIZES = (("", 560.0), (":narrow", 350.0))


def history_document(history: History) -> Document:
    """The document of a history."""
    table = [history_tables.series_table(history, _course)] if history.series else []
    sections: list[tuple[Section, bool]] = [
        (section("answer", "Answer", "Answer", lead=history.answer, verdicts=table), False)
    ]
    if history.series:
        sections.append((_charts(history), False))
        sections.append((_studies(history), False))
    if history.left_out:
        lines = [
            Markup("{}{}{}").format(", ".join(of), ": ", agreed(reason) if unreadable else reason)
            for (reason, unreadable), of in history_tables.left_out(history).items()
        ]
        sections.append((section("left-out", "Left out", "Left out", lists=[("", lines)]), False))
    points = [point for one in history.series for point in one.points]
    span = ""
    if points:
        times = [point.created_unix_ns for point in points]
        span = " · " + f"{when(min(times))} to {when(max(times))} UTC"
    return Document(title(history), "history", f"{history.question}{span}", sections)


def _course(series: HistorySeries) -> Cell:
    shift = 1.0 if series.kind == "effect" else 0.0
    values = [point.value - shift for point in series.points]
    return Cell("", "spark", mark=sparkline(values, f"{len(values)} studies", zero=series.kind == "effect"))


def _charts(history: History) -> Section:
    groups = []
    for step in dict.fromkeys(one.step for one in history.series):
        of_step = [one for one in history.series if one.step == step]
        heading = ", ".join((metric_name(of_step[0].metric), step_heading(history.steps, step)))
        groups.append(FigureGroup(heading, [_figure(history, one) for one in of_step]))
    html = render(
        "figures.html",
        intro="Each dot is one study with its own 95 % interval. The line is the level with its interval; a rule "
        "marks a change that is larger than the scatter of studies explains.",
        legend="",
        groups=groups,
        empty="",
    )
    return Section("series", "Over the studies", "Series", html)


def _figure(history: History, series: HistorySeries) -> Figure:
    effect = series.kind == "effect"
    shift = 1.0 if effect else 0.0
    studies = [point.study for point in series.points]
    points = [
        StudyPoint(
            point.value - shift,
            point.ci_low - shift,
            point.ci_high - shift,
            date(point),
            f"{point.study}, {point.server}: {history_tables.value_text(series, point.value)} "
            f"({history_tables.point_interval(series, point)})",
        )
        for point in series.points
    ]
    levels = [
        LevelLine(
            studies.index(one.first),
            studies.index(one.last),
            one.value - shift,
            one.ci_low - shift,
            one.ci_high - shift,
        )
        for one in series.levels
        if series.p is not None  # a level of so few studies is no more than their mean
    ]
    unit = None if effect else display_unit(series.metric, max(point.high for point in points))
    key = f"history:{series.kind}:{series.metric}:{series.step}:{series.arm}"
    charts = [
        Markup(
            history_chart(f"{key}{suffix}", series_name(history, series), series.sentence, points, levels, unit, width)
        )
        for suffix, width in SIZES
    ]
    return Figure(charts, history_tables.levels_table(series) if levels else None, series.sentence, "double")


def _studies(history: History) -> Section:
    details = [(series_name(history, one), [history_tables.points_table(history, one)]) for one in history.series]
    tables = details[0][1] if len(details) == 1 else []
    return section("studies", "Every study", "Studies", tables=tables, details=details if len(details) > 1 else [])
