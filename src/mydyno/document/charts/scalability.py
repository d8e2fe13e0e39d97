"""Throughput or response time against connections with the fitted law, and latency against throughput as a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from mydyno.document.charts.drawing import (
    ArmStyle,
    Linear,
    Svg,
    area,
    level_labels,
    polyline,
    tick_decimals,
    tick_text,
    value_frame,
    value_ticks,
)
from mydyno.language import agreed
from mydyno.wording.numbers import DisplayUnit

WIDTH, HEIGHT = 356.0, 250.0
INSET = 14.0
BAND_ROOM = 1.5
"""The axis leaves this many times the highest mark or point of a curve for bands."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One arm: (connections, value) of its levels, those of the fitted curve, and (throughput, latency)."""

    style: ArmStyle
    measured: tuple[tuple[float, float], ...]
    curve: tuple[tuple[float, float], ...]
    peak: float | None
    """Connections; None if there is none within the measured levels."""
    path: tuple[tuple[float, float], ...] = ()
    band: tuple[tuple[float, float, float], ...] = ()
    """(connections, lower, upper limit) around the curve."""


def scalability_chart(
    key: str, heading: str, description: str, unit: DisplayUnit, arms: Sequence[Swept], levels: Sequence[int]
) -> str:
    """Marks are measured, lines are fitted; a tick on the axis marks each peak within the levels.

    A band that is far wider than what it surrounds is cut at the upper edge.
    """
    svg = Svg(key, WIDTH, HEIGHT, agreed(f"{heading} against connections"), description)
    values = [value for one in arms for _, value in (*one.measured, *one.curve)]
    most = BAND_ROOM * max(values)
    values += [min(high, most) for one in arms for _, _, high in one.band]
    frame = value_frame(svg, unit, values, heading, from_zero=True)
    x = Linear(log2(min(levels)), log2(max(levels)), frame.left + INSET, frame.right - INSET)
    level_labels(svg, frame, {float(level): x(log2(level)) for level in levels}, "connections")
    for one in arms:
        svg.open_group(one.style.css)
        if one.band:
            upper = [(x(log2(n)), max(frame.top, frame.y(high))) for n, _, high in one.band]
            svg.path(area(upper, [(x(log2(n)), max(frame.top, frame.y(low))) for n, low, _ in one.band]), "band")
        svg.path(polyline([(x(log2(n)), frame.y(value)) for n, value in one.curve]), "line", one.style.dash)
        for n, value in one.measured:
            title = agreed(f"{one.style.label}, {n:.10g} connections: {unit.text(value, 4)}")
            svg.titled_mark(one.style.shape, x(log2(n)), frame.y(value), 3.1, "mark", title)
        if one.peak is not None:
            at = x(log2(one.peak))
            svg.line(at, frame.bottom - 9, at, frame.bottom, "line")
        svg.close_group()
    return svg.render()


def latency_chart(
    key: str,
    heading: str,
    description: str,
    units: tuple[DisplayUnit, DisplayUnit],
    arms: Sequence[Swept],
    throughput_name: str,
) -> str:
    """Latency against throughput, joined in the order of the connections; `units` are of throughput and latency."""
    across, up = units
    svg = Svg(key, WIDTH, HEIGHT, f"{heading} against throughput", description)
    frame = value_frame(svg, up, [latency for one in arms for _, latency in one.path], heading, from_zero=True)
    ticks = value_ticks([value / across.divisor for one in arms for value, _ in one.path], 5, from_zero=True)
    x = Linear(ticks[0] * across.divisor, ticks[-1] * across.divisor, frame.left, frame.right - INSET)
    for tick in ticks:
        at = x(tick * across.divisor)
        svg.line(at, frame.bottom, at, frame.bottom + 4, "axis")
        svg.text(at, frame.bottom + 16, tick_text(tick, tick_decimals(ticks)), "t num", "middle")
    label = f"{throughput_name}, {across.label}" if across.label else throughput_name
    svg.text((frame.left + frame.right) / 2, svg.height - 5, label, "t soft", "middle")
    for one in arms:
        svg.open_group(one.style.css)
        points = [(x(value), frame.y(latency)) for value, latency in one.path]
        svg.path(polyline(points), "line", one.style.dash)
        for (n, _), (value, latency), place in zip(one.measured, one.path, points, strict=True):
            speed = f"{across.text(value, 4)}, {up.text(latency, 4)}"
            title = agreed(f"{one.style.label}, {n:.10g} connections: {speed}")
            svg.titled_mark(one.style.shape, *place, 3.1, "mark", title)
        svg.close_group()
    return svg.render()
