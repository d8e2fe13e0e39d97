"""Slices over time: each slice's rate as a mark in its arm's colour, and the host's speed and steal below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean as mean

from mydyno.reports.charts.frame import tick_text
from mydyno.reports.charts.palette import ArmStyle
from mydyno.reports.charts.scale import Linear, tick_decimals, value_ticks
from mydyno.reports.charts.svg import Svg, polyline
from mydyno.wording.numbers import DisplayUnit

LEFT, RIGHT = 52.0, 8.0
HEADING, RATE, SMALL, GAP = 24.0, 190.0, 66.0, 12.0
FEW = 250
"""Below so many slices their marks are larger."""
MANY = 1500
"""Beyond so many slices all arms have dots, in their colours: shapes could not be distinguished, and take room."""


@dataclass(frozen=True, slots=True)
class SlicePoint:
    """One slice at a time of the joined axis."""

    at_s: float
    value: float
    style: ArmStyle


@dataclass(frozen=True, slots=True)
class HostLine:
    """A series of the host, one list of (second, value) for each segment."""

    heading: str
    segments: Sequence[Sequence[tuple[float, float]]]
    unit: str = ""
    """What the numbers are, printed where there is room."""
    percent: bool = False


def slices_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    points: Sequence[SlicePoint],
    lines: Sequence[HostLine],
    blocks: Sequence[tuple[int, float, float]],
    width: float,
) -> str:
    """The panels, one below the other; `blocks` are (number, first second, last second) on the joined axis."""
    height = HEADING + RATE + len(lines) * (GAP + HEADING + SMALL) + 36
    svg = Svg(key, width, height, f"{heading} over time", description)
    end = blocks[-1][2] if blocks else 1.0
    x = Linear(0, end, LEFT, width - RIGHT)
    top = HEADING
    panels = [(top, top + RATE)]
    for _ in lines:
        top = panels[-1][1] + GAP + HEADING
        panels.append((top, top + SMALL))
    for first, last in panels:
        for _, from_s, to_s in blocks:
            svg.rect(x(from_s), first, x(to_s) - x(from_s), last - first, "stripe")
    _rates(svg, x, panels[0], heading, unit, points)
    for line, panel in zip(lines, panels[1:], strict=True):
        _host(svg, x, panel, line)
    bottom, last_label = panels[-1][1], -1e9
    for block, from_s, to_s in blocks:
        middle = (x(from_s) + x(to_s)) / 2
        if middle - last_label > 18:
            svg.text(middle, bottom + 15, str(block), "t num", "middle")
            last_label = middle
    title = f"block (each about {_minutes(blocks)} of this load)" if width >= 480 else "block"
    svg.text((LEFT + width - RIGHT) / 2, height - 5, title, "t soft", "middle")
    return svg.render("narrow" if key.endswith(":narrow") else "wide")


def _minutes(blocks: Sequence[tuple[int, float, float]]) -> str:
    length = sum(to_s - from_s for _, from_s, to_s in blocks) / max(1, len(blocks))
    return f"{length:.0f} s" if length < 120 else f"{length / 60:.0f} min"


def _axis(svg: Svg, values: Sequence[float], panel: tuple[float, float], count: int, from_zero: bool) -> Linear:
    ticks = value_ticks(values or [0.0, 1.0], count, from_zero)
    y = Linear(ticks[0], ticks[-1], panel[1], panel[0])
    decimals = tick_decimals(ticks)
    for tick in ticks:
        svg.line(LEFT, y(tick), svg.width - RIGHT, y(tick), "zero" if tick == 0 else "grid")
        svg.text(LEFT - 6, y(tick) + 4, tick_text(tick, decimals), "t num", "end")
    return y


def _rates(
    svg: Svg, x: Linear, panel: tuple[float, float], heading: str, unit: DisplayUnit, points: Sequence[SlicePoint]
) -> None:
    svg.text(0, panel[0] - 12, heading, "t strong")
    svg.text(svg.width - RIGHT, panel[0] - 12, unit.label, "t soft", "end")
    y = _axis(svg, [point.value / unit.divisor for point in points], panel, 5, from_zero=True)
    radius = 3.2 if len(points) < FEW else 2.3
    styles = {(point.style.name, point.style.copy): point.style for point in points}
    for (name, copy), style in styles.items():
        own = [p for p in points if (p.style.name, p.style.copy) == (name, copy)]
        at = [(x(point.at_s), y(point.value / unit.divisor)) for point in own]
        svg.open_group(style.css)
        if len(points) > MANY:
            svg.marks("dot", at, radius, "dot")
        else:
            svg.marks(style.shape, at, radius, "ring" if copy else "slice")
        svg.close_group()


def _host(svg: Svg, x: Linear, panel: tuple[float, float], line: HostLine) -> None:
    svg.text(0, panel[0] - 12, line.heading, "t strong")
    factor = 100.0 if line.percent else 1.0
    values = [value * factor for segment in line.segments for _, value in segment]
    if svg.width >= 480 or len(line.unit) < 3:
        svg.text(svg.width - RIGHT, panel[0] - 12, line.unit, "t soft", "end")
    y = _axis(svg, values, panel, 3, from_zero=line.percent)
    most = int((svg.width - LEFT) / 1.5)
    for segment in _thinned(line.segments, most, line.percent):
        at = [(round(x(second), 1), y(value * factor)) for second, value in segment]
        if line.percent:
            svg.path("".join(f"M{_n(px)} {_n(panel[1])}V{_n(py)}" for px, py in at if panel[1] - py > 0.4), "steal")
        else:
            svg.path(polyline(at), "host")


def _thinned(
    segments: Sequence[Sequence[tuple[float, float]]], most: int, peaks: bool
) -> list[list[tuple[float, float]]]:
    """The segments with about `most` points in all: neighbours become their mean, or their greatest for `peaks`."""
    factor = max(1, -(-sum(map(len, segments)) // most))
    found = []
    for segment in segments:
        parts = [segment[start : start + factor] for start in range(0, len(segment), factor)]
        found.append(
            [
                (mean(s for s, _ in part), max(v for _, v in part) if peaks else mean(v for _, v in part))
                for part in parts
            ]
        )
    return found


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
