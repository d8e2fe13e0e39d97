"""A series of studies: with intervals, levels between changes as lines with bands, and a rule at each change; and as a
line of the size of a word.

Studies stand at equal distances in order of time, as many may fall on one day; the dates are below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from mydyno.document.charts.drawing import Linear, Svg, coordinate, nice_ticks, polyline, tick_decimals
from mydyno.wording.numbers import DisplayUnit, signed_percent

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
    for place, date in enumerate(dates):
        middle = min(max(x(place), LEFT + DATE_WIDTH / 2 - 20), svg.width - DATE_WIDTH / 2)
        svg.line(x(place), HEIGHT - BOTTOM, x(place), HEIGHT - BOTTOM + 4, "axis")
        if middle - last > DATE_WIDTH:
            svg.text(middle, HEIGHT - BOTTOM + 17, date, "t num", "middle")
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
