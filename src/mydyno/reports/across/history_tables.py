"""The tables of a history, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import expm1

from mydyno.document.section import Cell, Table
from mydyno.model.stored.history import History, HistoryPoint, HistorySeries
from mydyno.reports.across.tables import NONE, step_heading, when
from mydyno.wording.across.history import series_name
from mydyno.wording.numbers import display_unit, metric_name, noise_text, percent, ratio_interval, signed_percent

SPARKS = "▁▂▃▄▅▆▇█"
DIGITS = "12345678"
SCATTER = (
    "Scatter: standard deviation between sessions beyond what their own intervals explain, away from changes of level."
)
FLAT = 0.005
"""A series whose values differ by less than this share is drawn flat."""


def series_table(history: History, course: Callable[[HistorySeries], str | Cell]) -> Table:
    """A row for each series: its course, its newest value, and whether it changed."""
    rows: list[Sequence[str | Cell]] = []
    for step in dict.fromkeys(one.step for one in history.series):
        of_step = [one for one in history.series if one.step == step]
        rows.append([", ".join((metric_name(of_step[0].metric), step_heading(history.steps, step)))])
        for one in of_step:
            newest = one.points[-1]
            name = f"effect of {one.arm}" if one.kind == "effect" else f"level of {one.arm}"
            rows.append(
                [
                    name,
                    course(one),
                    Cell(value_text(one, newest.value), "num", below=point_interval(one, newest)),
                    Cell(NONE if one.p is None else percent(expm1(one.session_sd)), "num"),
                    Cell(change_text(one), change_css(one)),
                ]
            )
    head = ("series", "course", "newest", "scatter", "change")
    return Table("Oldest study on the left, newest on the right", head, rows, SCATTER)


def points_table(history: History, series: HistorySeries, with_changed: bool = True) -> Table:
    """Every study of a series, oldest first; with what changed since the one before, or without."""
    starts = {change.study for change in series.changes}
    rows: list[Sequence[str | Cell]] = []
    for point in series.points:
        row: list[str | Cell] = [
            point.study,
            Cell(when(point.created_unix_ns)),
            Cell(point.server),
            Cell(value_text(series, point.value), "num", below=point_interval(series, point)),
            Cell(str(point.n), "num"),
        ]
        if starts:
            row.append(Cell("new level" if point.study in starts else ""))
        rows.append([*row, Cell("; ".join(point.changed) or NONE, "prose")] if with_changed else row)
    head = ["study", "date (UTC)", "server", "value", "blocks", *(["level"] if starts else [])]
    missing = ", ".join(series.missing)
    note = f"No value in {missing}: the arm failed, is not there, or is defined differently." if missing else ""
    return Table(series_name(history, series), [*head, "what changed"] if with_changed else head, rows, note)


def changed_lines(series: HistorySeries) -> list[str]:
    """What changed from study to study."""
    return [point.study + ": " + "; ".join(point.changed) for point in series.points if point.changed]


def left_out_lines(history: History) -> list[str]:
    """The studies that were left out, by reason."""
    return [", ".join(of) + ": " + reason for (reason, _), of in left_out(history).items()]


def left_out(history: History) -> dict[tuple[str, bool], list[str]]:
    """{(reason, whether it is the message of an error): studies}."""
    found: dict[tuple[str, bool], list[str]] = {}
    for one in history.left_out:
        found.setdefault((one.reason, one.unreadable), []).append(one.study)
    return found


def levels_table(series: HistorySeries) -> Table:
    """The levels between changes."""
    rows: list[Sequence[str | Cell]] = [
        [
            f"{one.first} to {one.last}" if one.studies > 1 else one.first,
            Cell(str(one.studies), "num"),
            Cell(value_text(series, one.value), "num", below=_interval(series, one.ci_low, one.ci_high)),
        ]
        for one in series.levels
    ]
    return Table(
        "Levels with 95 % intervals",
        ("studies", "number", "level"),
        rows,
    )


def spark(sparks: str, series: HistorySeries) -> str:
    """The values as characters of eight heights."""
    values = [point.value for point in series.points]
    low, high = min(values), max(values)
    if high - low < FLAT * abs(high):
        return sparks[3] * len(values)
    return "".join(sparks[min(7, int((value - low) / (high - low) * 8))] for value in values)


def value_text(series: HistorySeries, value: float) -> str:
    """An effect as a percentage, a level in the metric's unit."""
    if series.kind == "effect":
        return signed_percent(value - 1)
    return display_unit(series.metric, value).text(value)


def point_interval(series: HistorySeries, point: HistoryPoint) -> str:
    """The interval of one study."""
    return _interval(series, point.ci_low, point.ci_high)


def change_text(series: HistorySeries) -> str:
    """The newest change, or that none is shown."""
    if series.p is None:
        return "too few studies"
    if not series.changes:
        if series.detectable and series.detectable < 1:
            return f"none shown (detectable: {noise_text(series.detectable)})"
        return "none shown"
    last = series.changes[-1]
    return f"{signed_percent(last.ratio - 1)} since {last.study}"


def change_css(series: HistorySeries) -> str:
    """The CSS class of a change."""
    return "verdict neutral" if series.changes else "verdict none"


def _interval(series: HistorySeries, low: float, high: float) -> str:
    if series.kind == "effect":
        return ratio_interval(low, high)
    unit = display_unit(series.metric, high)
    return f"{unit.number(low)} … {unit.text(high)}"
