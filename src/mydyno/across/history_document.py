"""What a history says: its answer, a sentence for each series, the document with the course of each and every study.

In charts, studies stand at equal distances in order of time, as many may fall on one day; the dates are below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import expm1

from markupsafe import Markup

from mydyno.across.comparison import Rows, by_step, effect_words, metric_at
from mydyno.document.drawing import Linear, Svg, coordinate, nice_ticks, polyline, tick_decimals
from mydyno.document.forest import WIDE_AND_NARROW
from mydyno.document.parts import Cell, Document, Figure, FigureGroup, Figures, Fold, Listed, Note, Part, Table
from mydyno.language import agreed, listing
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import History, HistoryPoint, HistorySeries, LevelChange, SeriesLevel
from mydyno.model.stored.summary import StepLevel, at_step
from mydyno.stats.level_changes import FEWEST_SESSIONS
from mydyno.wording.numbers import (
    NONE,
    DisplayUnit,
    display_unit,
    half_width_text,
    noise_text,
    percent,
    ratio_interval,
    signed,
    signed_percent,
    when,
)

MOST_SENTENCES = 3
HOPELESS = 1.0
"""Sizes of a change from this share on are not worth a sentence."""


def answer(history: History) -> tuple[str, ...]:
    """One to three sentences: the changes first."""
    if not history.series:
        return (f"No study of {history.experiment} on {history.host} has a value with an interval.",)
    changed = [one for one in history.series if one.changes]
    if changed:
        found = [one.sentence for one in sorted(changed, key=_newest_first)[: MOST_SENTENCES - 1]]
        rest = len(history.series) - len(found)
        if len(changed) > len(found):
            found.append(f"{len(changed)} of {len(history.series)} series changed.")
        elif rest:
            several = "series shows" if rest == 1 else f"{rest} series show"
            found.append(f"The other {several} no change.")
        return tuple(found)
    if len(history.series) == 1:
        return (history.series[0].sentence,)
    studies = len(history.studies)
    if studies < FEWEST_SESSIONS:
        return (_too_few(studies),)
    first = min((one.points[0] for one in history.series), key=lambda point: point.created_unix_ns)
    shown = agreed(f"No change is shown since {date(first)} ({studies} studies, {len(history.series)} series).")
    widest = max((one.detectable or 0.0 for one in history.series), default=0.0)
    if widest >= HOPELESS:
        return (shown, "These studies are too few, or differ too much, to show anything but very large changes.")
    found_in = f"A change of {half_width_text(widest)} in the middle of this time would have been found in any of them"
    return (f"{shown} {found_in} in about 80 % of cases.",)


def series_sentence(steps: Sequence[StepLevel], series: HistorySeries) -> str:
    """What one series shows."""
    subject = series_name(steps, series)
    count = len(series.points)
    if count < FEWEST_SESSIONS:
        return subject + ": " + _too_few(count)
    if series.changes:
        more = len(series.changes) - 1
        earlier = " " + agreed(f"{more} earlier changes.") if more else ""
        return _change_sentence(subject, series, series.changes[-1]) + earlier
    shown = agreed(f"{subject}: no change is shown since {date(series.points[0])} ({count} studies)")
    if series.detectable is None or series.detectable >= HOPELESS:
        return f"{shown}."
    return f"{shown}; one of {half_width_text(series.detectable)} would probably have been found."


def series_name(steps: Sequence[StepLevel], series: HistorySeries) -> str:
    """E.g. "The effect of jemalloc on queries per second at 64 connections"."""
    at = at_step(steps, series.step)
    if series.kind == "effect":
        return effect_words(series.arm, series.metric, at)
    return f"The level of {phrase_of(series.metric).short_noun} of {series.arm}{at}"


def date(point: HistoryPoint) -> str:
    """The day of a point, ISO 8601."""
    return datetime.fromtimestamp(point.created_unix_ns / 1e9, UTC).date().isoformat()


def _change_sentence(subject: str, series: HistorySeries, change: LevelChange) -> str:
    point = next(one for one in series.points if one.study == change.study)
    low, high = sorted((change.ci_low - 1, change.ci_high - 1))
    version = "version: "
    with_version = (" package", " packages")  # they come with a server of another version
    servers = next((text.removeprefix(version) for text in change.changed if text.startswith(version)), "")
    others = [text for text in change.changed if not text.startswith(version) and not text.endswith(with_version)]
    causes = [f"server {servers}"] if servers else others[:2]
    if servers and others:
        causes.append("other settings changed too")
    size = signed(abs(change.ratio - 1)).lstrip("+")
    why = "; ".join(causes) or "no recorded setting changed"
    how = f"{'higher' if change.ratio > 1 else 'lower'} by {size} (between {signed(low)} and {signed(high)})"
    return f"{subject} is {how} since {change.study}, {date(point)} ({why})."


def _too_few(count: int) -> str:
    beside = "; `mydyno compare` compares two" if count == 2 else ""
    return agreed(
        f"{count} studies cannot show a change: {FEWEST_SESSIONS} are needed to distinguish it from the scatter "
        f"between sessions{beside}."
    )


def _newest_first(series: HistorySeries) -> int:
    change = series.changes[-1]
    return -next(point.created_unix_ns for point in series.points if point.study == change.study)


HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 230.0, 58.0, 12.0, 14.0, 40.0
DATE_WIDTH = 76.0
"""Room for a date."""


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """One study: its value with the interval, the day, and what a pointer over it shows."""

    value: float
    low: float
    high: float
    date: str
    title: str


@dataclass(frozen=True, slots=True)
class LevelLine:
    """The level of the studies `first` to `last` (places from 0), with its interval."""

    first: int
    last: int
    value: float
    low: float
    high: float


def history_chart(
    key: str,
    title: str,
    description: str,
    points: Sequence[StudyPoint],
    levels: Sequence[LevelLine],
    unit: DisplayUnit | None,
    width: float = 560,
) -> str:
    """The chart; values are shares (0.05 is +5 %) where `unit` is None, else stored values of that unit."""
    svg = Svg(key, width, HEIGHT, title, description)
    divisor = unit.divisor if unit else 1.0
    ends = [end / divisor for point in points for end in (point.low, point.high)]
    ticks = nice_ticks(min(ends), max(ends), 5)
    y = Linear(ticks[0] * divisor, ticks[-1] * divisor, HEIGHT - BOTTOM, TOP)
    x = Linear(-0.5, len(points) - 0.5, LEFT, width - RIGHT)
    decimals = tick_decimals(ticks)
    for tick in ticks:
        at = y(tick * divisor)
        svg.line(LEFT, at, width - RIGHT, at, "zero" if tick == 0 else "grid")
        text = f"{tick:,.{decimals}f}" if unit else signed_percent(tick, max(0, decimals - 2)) if tick else "0"
        svg.text(LEFT - 6, at + 4, text, "t num", "end")
    if unit and unit.label:
        svg.text(0, 10, unit.label, "t soft")
    svg.open_group("a1")
    for level in levels:
        left, right = x(level.first - 0.5), x(level.last + 0.5)
        top, bottom = y.clamp(level.high), y.clamp(level.low)
        svg.rect(left, top, right - left, bottom - top, "band")
        svg.line(left, y(level.value), right, y(level.value), "line thin")
    svg.close_group()
    for level in levels[1:]:
        svg.line(x(level.first - 0.5), TOP, x(level.first - 0.5), HEIGHT - BOTTOM, "event-rule")
    svg.open_group("a0")
    for place, point in enumerate(points):
        svg.line(x(place), y(point.low), x(place), y(point.high), "interval")
        svg.titled_mark("circle", x(place), y(point.value), 4, "mark", point.title)
    svg.close_group()
    _dates(svg, x, [point.date for point in points])
    return svg.render("narrow" if key.endswith(":narrow") else "wide" if width >= 480 else "")


def _dates(svg: Svg, x: Linear, dates: Sequence[str]) -> None:
    """Dates below the axis; where two would touch, the later one is left out."""
    last = -1e9
    for place, day in enumerate(dates):
        middle = min(max(x(place), LEFT + DATE_WIDTH / 2 - 20), svg.width - DATE_WIDTH / 2)
        svg.line(x(place), HEIGHT - BOTTOM, x(place), HEIGHT - BOTTOM + 4, "axis")
        if middle - last > DATE_WIDTH:
            svg.text(middle, HEIGHT - BOTTOM + 17, day, "t num", "middle")
            last = middle
    svg.text((LEFT + svg.width - RIGHT) / 2, HEIGHT - 5, "studies in order of time", "t soft", "middle")


SPARK_WIDTH, SPARK_HEIGHT, EDGE = 96.0, 18.0, 2.0
FLAT = 0.005
"""Values that differ by less than this share of the largest, or effects than this, are drawn flat."""


def sparkline(values: Sequence[float], words: str, zero: bool) -> Markup:
    """The line with a dot at the newest value; nothing of fewer than two. `zero`: with a line at 0, for effects.

    `words`: what readers of a screen hear, and a pointer over it shows.
    """
    if len(values) < 2:
        return Markup()
    low, high = (min(0.0, *values), max(0.0, *values)) if zero else (min(values), max(values))
    least = FLAT * (1.0 if zero else max(map(abs, values)) or 1.0)
    if high - low < least:
        low, high = (low + high - 2 * least) / 2, (low + high + 2 * least) / 2

    def y(value: float) -> float:
        return EDGE + (SPARK_HEIGHT - 2 * EDGE) * (high - value) / (high - low)

    step = (SPARK_WIDTH - 2 * EDGE) / (len(values) - 1)
    points = [(EDGE + place * step, y(value)) for place, value in enumerate(values)]
    axis = Markup('<path class="zero" d="M0 {}H{}"/>').format(coordinate(y(0.0)), coordinate(SPARK_WIDTH))
    return Markup(
        '<svg class="spark" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{words}">'
        "<title>{words}</title>{zero}"
        '<path class="line" d="{line}"/><path class="last" d="M{x} {y}h0"/></svg>'
    ).format(
        w=coordinate(SPARK_WIDTH), h=coordinate(SPARK_HEIGHT), words=words, line=polyline(points),
        zero=axis if zero else "", x=coordinate(points[-1][0]), y=coordinate(points[-1][1]),
    )  # fmt: skip


SPARKS = "▁▂▃▄▅▆▇█"
MOST_OPEN = 2
"""Series of which every study is shown at once."""


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
    for (metric, step), several in by_step(history.series).items():
        rows.append([metric_at(metric, history.steps, step)])
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
        FigureGroup(metric_at(metric, history.steps, step), [_figure(history, one) for one in of])
        for (metric, step), of in by_step(history.series).items()
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
    name = series_name(history.steps, series)
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
            of_study.setdefault("; ".join(point.changed), []).append(series_name(history.steps, one))
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
    return Table(series_name(history.steps, series), head, rows, note)


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
