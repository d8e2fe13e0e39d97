"""A history as a document: the answer, a row for each series with its course, every study, what was left out."""

from __future__ import annotations

from math import expm1

from markupsafe import Markup

from mydyno.document.charts.forest import WIDE_AND_NARROW
from mydyno.document.charts.history import LevelLine, StudyPoint, history_chart, sparkline
from mydyno.document.parts import Document, Figures, Fold, Listed, Note, Part
from mydyno.document.section import Cell, Figure, FigureGroup, Table
from mydyno.language import agreed, listing
from mydyno.model.stored.comparison import History, HistoryPoint, HistorySeries, SeriesLevel
from mydyno.reports.comparison import Rows, metric_at
from mydyno.wording.across.history import date, series_name
from mydyno.wording.numbers import NONE, display_unit, noise_text, percent, ratio_interval, signed_percent, when

SPARKS = "▁▂▃▄▅▆▇█"
MOST_OPEN = 2
"""Series of which every study is shown at once."""
FLAT = 0.005
"""A series whose values differ by less than this share is drawn flat."""


def history_document(history: History) -> Document:
    """All of it."""
    times = [point.created_unix_ns for one in history.series for point in one.points]
    span = f" · {when(min(times))} to {when(max(times))} UTC" if times else ""
    return Document(
        title=agreed(f"{history.experiment} on {history.host}: {len(history.studies)} studies"),
        over="history",
        below=f"{history.question}{span}",
        parts=[
            Part(id="answer", heading="Answer", lead=history.answer, body=[_series_table(history)]),
            _charts(history),
            _studies(history),
            Part(id="left-out", heading="Left out", body=[Listed(_left_out(history))]),
        ],
    )


def _series_table(history: History) -> Table | None:
    """A row for each series: its course, its newest value, and whether it changed; no table without series."""
    rows: Rows = []
    for heading, several in _by_step(history).items():
        rows.append([heading])
        for one in several:
            newest = one.points[-1]
            rows.append([
                f"{one.kind} of {one.arm}",
                Cell(_spark(one), "spark", drawn=_drawn(one)),
                Cell(_value(one, newest.value), "num", below=_interval(one, newest)),
                Cell(NONE if one.p is None else percent(expm1(one.session_sd)), "num"),
                Cell(_change(one), "verdict neutral" if one.changes else "verdict none"),
            ])  # fmt: skip
    note = (
        "Scatter: standard deviation between sessions beyond what their own intervals explain, away from changes of "
        "level."
    )
    head = ("series", "course", "newest", "scatter", "change")
    return Table("Oldest study on the left, newest on the right", head, rows, note) if rows else None


def _by_step(history: History) -> dict[str, list[HistorySeries]]:
    """{metric and step in words: its series}."""
    found: dict[str, list[HistorySeries]] = {}
    for one in history.series:
        found.setdefault(metric_at(one.metric, history.steps, one.step), []).append(one)
    return found


def _spark(series: HistorySeries) -> str:
    """The values as characters of eight heights."""
    values = [point.value for point in series.points]
    low, high = min(values), max(values)
    if high - low < FLAT * abs(high):
        return SPARKS[3] * len(values)
    return "".join(SPARKS[min(7, int((value - low) / (high - low) * 8))] for value in values)


def _drawn(series: HistorySeries) -> Markup:
    values = [point.value - _shift(series) for point in series.points]
    return sparkline(values, f"{len(values)} studies", zero=series.kind == "effect")


def _shift(series: HistorySeries) -> float:
    return 1.0 if series.kind == "effect" else 0.0


def _drawn_at(series: HistorySeries, of: HistoryPoint | SeriesLevel) -> tuple[float, float, float]:
    """Value and interval as a chart has them: effects as shares of 1."""
    shift = _shift(series)
    return of.value - shift, of.ci_low - shift, of.ci_high - shift


def _described(series: HistorySeries, point: HistoryPoint) -> str:
    return f"{point.study}, {point.server}: {_value(series, point.value)} ({_interval(series, point)})"


def _charts(history: History) -> Part:
    groups = [
        FigureGroup(heading, [_figure(history, one) for one in several])
        for heading, several in _by_step(history).items()
    ]
    intro = (
        "Each dot is one study with its own 95 % interval. The line is the level with its interval; a rule marks a "
        "change that is larger than the scatter of studies explains."
    )
    return Part(id="series", heading="Over the studies", short="Series", body=[Figures(groups, intro=intro)])


def _figure(history: History, series: HistorySeries) -> Figure:
    studies = [point.study for point in series.points]
    points = [StudyPoint(*_drawn_at(series, point), date(point), _described(series, point)) for point in series.points]
    levels = [
        LevelLine(studies.index(one.first), studies.index(one.last), *_drawn_at(series, one))
        for one in series.levels
        if series.p is not None  # a level of so few studies is no more than their mean
    ]
    unit = None if _shift(series) else display_unit(series.metric, max(point.high for point in points))
    key = f"history:{series.kind}:{series.metric}:{series.step}:{series.arm}"
    name = series_name(history, series)
    charts = [
        history_chart(f"{key}{suffix}", name, series.sentence, points, levels, unit, width)
        for suffix, width in WIDE_AND_NARROW
    ]
    return Figure(charts, _levels_table(series) if levels else None, series.sentence, "double")


def _studies(history: History) -> Part:
    """Every study of each series, and what changed from one to the next."""
    tables = [_points_table(history, one) for one in history.series]
    changes = Listed(_changed(history), "What changed from study to study")
    if len(tables) <= MOST_OPEN:
        return Part(id="studies", heading="Every study", short="Studies", body=[*tables, changes])
    hint = Note("--arm, --step and --metric select a series and print each study of it.")
    folds = [Fold(table.caption, [table]) for table in tables]
    return Part(id="studies", heading="Every study", short="Studies", body=[changes, hint, *folds])


def _changed(history: History) -> list[str]:
    """What changed at each study; where its series differ in that, as in the study before, with those that it is of."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in history.series:
        for point in one.points[1:]:
            of_study = found.setdefault(point.study, {})
            of_study.setdefault("; ".join(point.changed), []).append(series_name(history, one))
    return [
        f"{study}: {text}" if len(of_study) == 1 else f"{study}: {text} ({listing(names)})"
        for study, of_study in found.items()
        for text, names in of_study.items()
        if text
    ]


def _points_table(history: History, series: HistorySeries) -> Table:
    """Every study of a series, oldest first."""
    starts = {change.study for change in series.changes}
    rows: Rows = [
        [
            point.study,
            when(point.created_unix_ns),
            point.server,
            Cell(_value(series, point.value), "num", below=_interval(series, point)),
            Cell(str(point.n), "num"),
            *(["new level" if point.study in starts else ""] if starts else []),
        ]
        for point in series.points
    ]
    head = ["study", "date (UTC)", "server", "value", "blocks", *(["level"] if starts else [])]
    missing = ", ".join(series.missing)
    note = f"No value in {missing}: the arm failed, is not there, or is defined differently." if missing else ""
    return Table(series_name(history, series), head, rows, note)


def _levels_table(series: HistorySeries) -> Table:
    """The levels between changes."""
    rows: Rows = [
        [
            f"{one.first} to {one.last}" if one.studies > 1 else one.first,
            Cell(str(one.studies), "num"),
            Cell(_value(series, one.value), "num", below=_interval(series, one)),
        ]
        for one in series.levels
    ]
    return Table("Levels with 95 % intervals", ("studies", "number", "level"), rows)


def _left_out(history: History) -> list[str]:
    """The studies that were left out, by reason."""
    found: dict[str, list[str]] = {}
    for one in history.left_out:
        found.setdefault(one.reason, []).append(one.study)
    return [f"{', '.join(of)}: {reason}" for reason, of in found.items()]


def _value(series: HistorySeries, value: float) -> str:
    """An effect as a percentage, a level in the metric's unit."""
    if series.kind == "effect":
        return signed_percent(value - 1)
    return display_unit(series.metric, value).text(value)


def _change(series: HistorySeries) -> str:
    """The newest change, or that none is shown."""
    if series.p is None:
        return "too few studies"
    if not series.changes:
        if series.detectable and series.detectable < 1:
            return f"none shown (detectable: {noise_text(series.detectable)})"
        return "none shown"
    last = series.changes[-1]
    return f"{signed_percent(last.ratio - 1)} since {last.study}"


def _interval(series: HistorySeries, of: HistoryPoint | SeriesLevel) -> str:
    if series.kind == "effect":
        return ratio_interval(of.ci_low, of.ci_high)
    unit = display_unit(series.metric, of.ci_high)
    return f"{unit.number(of.ci_low)} … {unit.text(of.ci_high)}"
