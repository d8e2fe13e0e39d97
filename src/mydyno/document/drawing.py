"""What charts are drawn with: a writer of SVG, scales, the look of arms, the frame of charts with a value axis, and a
metric against the level of load.

SVG is escaped, has coordinates of one decimal, a title and a description, and no style of its own. Ticks are at round
numbers (after Heckbert, "Nice Numbers for Graph Labels", 1990). Arms are distinguished by colour, by marker and by line
style, so that no single one of them is needed; the colours (in report.css, `--arm0` …) are Okabe and Ito's, darkened or
lightened until each has a contrast of at least 3:1 on its background; the control is neutral ink.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from mydyno.model.metrics import lane_name
from mydyno.stats.percentiles import absolute_mean
from mydyno.wording.numbers import MINUS, NARROW_SPACE, DisplayUnit

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def coordinate(value: float) -> str:
    """A pixel with one decimal, without needless zeros."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def clean(text: object) -> str:
    """Text escaped for XML, without characters that XML forbids."""
    return escape(_CONTROL_CHARACTERS.sub("\ufffd", str(text)))


class Svg:
    """One chart being drawn; `render` gives the element."""

    def __init__(self, key: str, width: float, height: float, title: str, description: str) -> None:
        self.key = key
        self.width, self.height = width, height
        self.title, self.description = title, description
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        """Append ready markup."""
        self._parts.append(part)

    def open_group(self, css: str) -> None:
        """Begin a group of a CSS class."""
        self.add(f'<g class="{clean(css)}">')

    def close_group(self) -> None:
        """End the last group."""
        self.add("</g>")

    def rect(self, x: float, y: float, width: float, height: float, css: str) -> None:
        """A rectangle; negative sizes are drawn as nothing."""
        if width <= 0 or height <= 0:
            return
        sizes = f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(width)}" height="{coordinate(height)}"'
        self.add(f'<rect class="{css}" {sizes}/>')

    def path(self, data: str, css: str, dash: str = "") -> None:
        """A path from ready path data; empty data is left out."""
        if data:
            self.add(f'<path class="{css}"' + (f' stroke-dasharray="{dash}"' if dash else "") + f' d="{data}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A straight line."""
        self.path(f"M{coordinate(x1)} {coordinate(y1)}L{coordinate(x2)} {coordinate(y2)}", css)

    def text(self, x: float, y: float, text: str, css: str = "t", anchor: str = "start") -> None:
        """One line of text, anchored at start, middle or end."""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.add(f'<text class="{css}" x="{coordinate(x)}" y="{coordinate(y)}"{where}>{clean(text)}</text>')

    def marks(self, shape: str, points: Iterable[tuple[float, float]], radius: float, css: str) -> None:
        """All points of a series as one path of markers."""
        self.path("".join(marker(shape, x, y, radius) for x, y in points), css)

    def titled_mark(self, shape: str, x: float, y: float, radius: float, css: str, title: str) -> None:
        """One marker with its own tooltip."""
        self.add(f'<path class="{css}" d="{marker(shape, x, y, radius)}"><title>{clean(title)}</title></path>')

    def render(self, css: str = "") -> str:
        """The whole element. It scales down with its container and never up beyond its own size."""
        label = re.sub(r"[^A-Za-z0-9_-]", "-", self.key)
        size = f"{coordinate(self.width)} {coordinate(self.height)}"
        return (
            f'<svg class="chart {css}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{coordinate(self.width)}" role="img" aria-labelledby="{label}-t {label}-d" '
            f'data-chart="{clean(self.key)}">'
            f'<title id="{label}-t">{clean(self.title)}</title><desc id="{label}-d">{clean(self.description)}</desc>'
            f"{''.join(self._parts)}</svg>"
        ).replace('class="chart "', 'class="chart"')


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """Path data of one marker, centred; all shapes have about the same area."""
    r = radius
    at = f"M{coordinate(x)} {coordinate(y)}"
    if shape == "dot":  # a line of no length with round ends: its class gives it width, and it costs 12 characters
        return f"{at}h0"
    if shape == "square":
        return f"{at}m{_pair(-r * 0.9, -r * 0.9)}h{coordinate(r * 1.8)}v{coordinate(r * 1.8)}h{coordinate(-r * 1.8)}z"
    if shape in ("triangle", "down"):
        up = 1 if shape == "triangle" else -1
        return f"{at}m{_pair(0, -r * 1.25 * up)}l{_pair(r * 1.2, r * 2.1 * up)}h{coordinate(-r * 2.4)}z"
    if shape == "diamond":
        s = r * 1.3
        return f"{at}m{_pair(0, -s)}l{_pair(s, s)}l{_pair(-s, s)}l{_pair(-s, -s)}z"
    if shape == "plus":
        return f"{at}m{_pair(-r * 1.2, 0)}h{coordinate(r * 2.4)}m{_pair(-r * 1.2, -r * 1.2)}v{coordinate(r * 2.4)}"
    if shape == "cross":
        return f"{at}m{_pair(-r, -r)}l{_pair(2 * r, 2 * r)}m{_pair(0, -2 * r)}l{_pair(-2 * r, 2 * r)}"
    if shape == "bar":
        return f"{at}m{_pair(-r * 1.3, -r * 0.5)}h{coordinate(r * 2.6)}v{coordinate(r)}h{coordinate(-r * 2.6)}z"
    arc = f"{coordinate(r)} {coordinate(r)} 0 1 0"
    return f"{at}m{_pair(-r, 0)}a{arc} {_pair(2 * r, 0)}a{arc} {_pair(-2 * r, 0)}z"


def _pair(x: float, y: float) -> str:
    return f"{coordinate(x)} {coordinate(y)}"


def polyline(points: Sequence[tuple[float, float] | None]) -> str:
    """Path data through the points with relative steps; None breaks the line, a lone point becomes a dot."""
    data: list[str] = []
    last: tuple[float, float] | None = None
    for point in points:
        if point is None:
            last = None
            continue
        here = (round(point[0], 1), round(point[1], 1))
        if last is None:
            data.append(f"M{_pair(*here)}h0")
        else:
            data.append(f"l{_pair(here[0] - last[0], here[1] - last[1])}")
        last = here
    return "".join(data)


def area(upper: Sequence[tuple[float, float] | None], lower: Sequence[tuple[float, float] | None]) -> str:
    """Path data of the area between two lines over the same abscissae; gaps in either split it."""
    pieces: list[list[tuple[tuple[float, float], tuple[float, float]]]] = [[]]
    for above, below in zip(upper, lower, strict=True):
        if above is None or below is None:
            pieces.append([])
        else:
            pieces[-1].append((above, below))
    data = []
    for piece in pieces:
        if len(piece) > 1:
            outline = [above for above, _ in piece] + [below for _, below in reversed(piece)]
            data.append(polyline(outline).replace("h0", "") + "z")
    return "".join(data)


@dataclass(frozen=True, slots=True)
class Linear:
    """Values low..high to pixels start..end; equal bounds are drawn in the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the bounds fall outside the pixels."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """As calling it, but never outside the pixels."""
        return self(min(max(value, self.low), self.high))


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers that enclose low..high (the first is <= low, the last >= high)."""
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    raw = (high - low) / max(1, count - 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10, 20) if factor * magnitude >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def value_ticks(values: Sequence[float], count: int = 5, from_zero: bool = False) -> list[float]:
    """Ticks for measured values >= 0: from zero where that costs less than half of the height, or if asked."""
    low, high = min(values), max(values)
    if low == high == 0:
        return [0.0, 1.0]
    if from_zero or 0 <= low < 0.55 * high:
        low = min(0.0, low)
    elif high - low < abs(high) * 0.02:  # a flat line must not look like an adventure
        middle = (high + low) / 2
        low, high = middle - abs(high) * 0.01, middle + abs(high) * 0.01
    return nice_ticks(low, high, count)


def level_positions(levels: Sequence[float], start: float, end: float) -> dict[float, float]:
    """Pixels of connection counts, or rates, on a logarithmic scale; a single one stands in the middle."""
    logs = {level: math.log2(max(level, 1)) for level in sorted(set(levels))}
    scale = Linear(min(logs.values()), max(logs.values()), start, end)
    return {level: scale(log) for level, log in logs.items()}


def tick_decimals(ticks: Sequence[float]) -> int:
    """The number of decimals that distinguishes the ticks."""
    steps = [abs(b - a) for a, b in pairwise(ticks)] or [abs(ticks[0]) or 1.0]
    step = min(steps)
    for decimals in range(7):
        if abs(round(step, decimals) - step) < step * 1e-6:
            return decimals
    return 6


SHAPES = ("circle", "square", "triangle", "diamond", "down", "plus", "cross", "bar")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2 1 2")
GLYPHS = dict(zip(SHAPES, "●■▲◆▼✚✖▬", strict=True))
COLOURS = 8


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """The look of one arm in every chart. `colour` is the number of a CSS class a0 … a7."""

    name: str
    label: str
    colour: int
    shape: str
    dash: str
    copy: bool = False
    """An arm's second copy: its colour, hollow and thin."""

    @property
    def css(self) -> str:
        """The CSS classes of everything drawn for this arm."""
        return f"a{self.colour}" + (" copy" if self.copy else "")


def arm_styles(arms: tuple[str, ...]) -> dict[str, ArmStyle]:
    """A style per arm, the control first. Beyond eight arms the colours come again, with other markers and dashes."""
    return {
        arm: ArmStyle(
            arm,
            f"{arm} (control)" if index == 0 else arm,
            index % COLOURS,
            SHAPES[(index + index // COLOURS) % len(SHAPES)],
            DASHES[(index + index // COLOURS) % len(DASHES)],
        )
        for index, arm in enumerate(arms)
    }


def copy_style(arm: ArmStyle) -> ArmStyle:
    """The style of its second copy."""
    return ArmStyle(arm.name, lane_name(arm.name, 2), arm.colour, arm.shape, "2 2", copy=True)


LEFT, RIGHT, TOP, BOTTOM = 52.0, 10.0, 42.0, 40.0
HEADING_EM, TEXT_EM = 7.8, 7.1
"""The average width of a letter, in pixels: as wide as in the widest of the fonts that report.css names."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a chart's plotting area lies, and its value scale."""

    left: float
    right: float
    top: float
    bottom: float
    y: Linear


def value_frame(
    svg: Svg, unit: DisplayUnit, values: Sequence[float], heading: str, from_zero: bool = False, count: int = 5
) -> Frame:
    """Draw heading, unit, horizontal grid and tick labels for stored values; gives the plotting area."""
    ticks = value_ticks([value / unit.divisor for value in values] or [0.0, 1.0], count, from_zero)
    scale = Linear(ticks[0] * unit.divisor, ticks[-1] * unit.divisor, svg.height - BOTTOM, TOP)
    frame = Frame(LEFT, svg.width - RIGHT, TOP, svg.height - BOTTOM, scale)
    _headline(svg, heading, unit.label, ticks[0] != 0)
    decimals = tick_decimals(ticks)
    for tick in ticks:
        y = scale(tick * unit.divisor)
        svg.line(frame.left, y, frame.right, y, "zero" if tick == 0 else "grid")
        svg.text(frame.left - 6, y + 4, tick_text(tick, decimals), "t num", "end")
    return frame


def _headline(svg: Svg, heading: str, unit: str, cut: bool) -> None:
    """The chart's heading, and below it its unit and whether the axis is cut."""
    longest = int((svg.width - RIGHT) / HEADING_EM)
    svg.text(0, 12, heading if len(heading) <= longest else f"{heading[: longest - 1]}…", "t strong")
    svg.text(0, 29, f"{unit} · axis not from 0" if cut else unit, "t soft")


def tick_text(tick: float, decimals: int) -> str:
    """A tick's number with a thin space between thousands."""
    text = f"{abs(tick):,.{decimals}f}".replace(",", NARROW_SPACE)
    return f"{MINUS}{text}" if tick < 0 else text


def level_labels(
    svg: Svg, frame: Frame, positions: dict[float, float], title: str, texts: Mapping[float, str] | None = None
) -> None:
    """Levels below the axis, as numbers or in these words; where two would touch, the later one is left out."""
    last = -1e9
    for level, x in sorted(positions.items()):
        text = f"{level:.10g}" if texts is None else texts[level]
        half = len(text) * 3.8
        svg.line(x, frame.bottom, x, frame.bottom + 4, "axis")
        if x - half > last + 5:
            svg.text(x, frame.bottom + 16, text, "t num", "middle")
            last = x + half
    svg.text((frame.left + frame.right) / 2, svg.height - 5, title, "t soft", "middle")


WIDTH, HEIGHT = 356.0, 250.0
FAR = 8
"""A ceiling at so many times the greatest value would flatten everything below it."""


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """One arm: (level, stored value, whether the run is valid) of every run."""

    style: ArmStyle
    points: tuple[tuple[float, float, bool], ...]

    def means(self) -> dict[float, float]:
        """The mean of the valid runs at each level, as in tables."""
        levels = sorted({level for level, _, valid in self.points if valid})
        return {level: absolute_mean([v for at, v, valid in self.points if valid and at == level]) for level in levels}


def sweep_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    series: Sequence[SweepSeries],
    levels: Sequence[float],
    level_name: str = "connections",
    level_texts: Mapping[float, str] | None = None,
    ceilings: Mapping[str, float] = {},
) -> str:
    """The chart. Means stand at their true abscissa; only the runs' dots are moved aside, so that all can be seen.

    `ceilings` is {label: what values cannot exceed}; those far above the values are left out.
    """
    svg = Svg(key, WIDTH, HEIGHT, f"{heading} against {level_name}", description)
    values = [value for one in series for _, value, _ in one.points]
    near = {words: of for words, of in ceilings.items() if of < FAR * max(values)}
    frame = value_frame(svg, unit, [*values, *near.values()], heading, from_zero=bool(near))
    for words, ceiling in near.items():
        svg.line(frame.left, frame.y(ceiling), frame.right, frame.y(ceiling), "ceiling")
        svg.text(frame.left + 2, frame.y(ceiling) - 4, f"{words}: {unit.text(ceiling)}", "t soft")
    gap = min(4.5, _least_gap(levels, frame.right - frame.left) / (len(series) + 1))
    inset = 10 + gap * len(series) / 2
    positions = level_positions(levels, frame.left + inset, frame.right - inset)
    level_labels(svg, frame, positions, level_name, level_texts)
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * gap
        svg.open_group(one.style.css)
        dots = [(positions[level] + shift, frame.y(value)) for level, value, valid in one.points if valid]
        svg.marks("circle" if one.style.copy else "dot", dots, 1.8, "ring" if one.style.copy else "dot")
        crosses = [(positions[level] + shift, frame.y(value)) for level, value, valid in one.points if not valid]
        svg.marks("cross", crosses, 2.4, "invalid")
        means = [(positions[level], frame.y(value)) for level, value in one.means().items()]
        if not one.style.copy:
            svg.path(polyline(means), "line", one.style.dash)
            svg.marks(one.style.shape, means, 3.1, "mark")
        svg.close_group()
    return svg.render()


def _least_gap(levels: Sequence[float], width: float) -> float:
    if len(set(levels)) < 2:
        return width / 2
    positions = sorted(level_positions(levels, 0, width * 0.85).values())
    return min(b - a for a, b in pairwise(positions))
