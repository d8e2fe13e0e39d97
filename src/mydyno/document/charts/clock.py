"""Panels over the time of a study's blocks: marks of slices in their arms' colours, strokes of what the host did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.drawing import ArmStyle, Linear, Svg, tick_decimals, tick_text, value_ticks
from mydyno.wording.numbers import DisplayUnit

WIDTH, LEFT, RIGHT = 1120.0, 60.0, 8.0
HEADING, GAP, BOTTOM = 26.0, 10.0, 40.0
FEW = 250
"""Below so many marks they are larger."""
MANY = 800
"""Beyond so many marks all arms have dots, in their colours: shapes could not be distinguished, and take room."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value of one arm at a second of the axis."""

    at_s: float
    value: float
    style: ArmStyle


@dataclass(frozen=True, slots=True)
class Panel:
    """One quantity: marks of arms, or strokes from zero of what is the host's."""

    heading: str
    unit: DisplayUnit
    height: float
    marks: Sequence[Mark] = ()
    strokes: Sequence[tuple[float, float]] = ()
    css: str = "stroke"


def clock_chart(
    key: str, title: str, description: str, panels: Sequence[Panel], blocks: Sequence[tuple[int, float, float]]
) -> str:
    """The panels below each other; `blocks` are (number, first second, last second), shaded and named below."""
    height = sum(HEADING + panel.height + GAP for panel in panels) + BOTTOM
    svg = Svg(key, WIDTH, height, title, description)
    x = Linear(0, blocks[-1][2] if blocks else 1.0, LEFT, WIDTH - RIGHT)
    top = 0.0
    for panel in panels:
        ends = (top + HEADING, top + HEADING + panel.height)
        for _, from_s, to_s in blocks:
            svg.rect(x(from_s), ends[0], x(to_s) - x(from_s), panel.height, "stripe")
        _panel(svg, x, panel, ends)
        top = ends[1] + GAP
    last = -1e9
    for block, from_s, to_s in blocks:
        middle = (x(from_s) + x(to_s)) / 2
        if middle - last > 22:
            svg.text(middle, top + 8, str(block), "t num", "middle")
            last = middle
    svg.text((LEFT + WIDTH - RIGHT) / 2, height - 4, f"block (each about {_length(blocks)})", "t soft", "middle")
    return svg.render()


def _length(blocks: Sequence[tuple[int, float, float]]) -> str:
    length = sum(to_s - from_s for _, from_s, to_s in blocks) / max(1, len(blocks))
    return f"{length:.0f} s" if length < 120 else f"{length / 60:.0f} min"


def _panel(svg: Svg, x: Linear, panel: Panel, ends: tuple[float, float]) -> None:
    svg.text(0, ends[0] - 9, panel.heading, "t strong")
    svg.text(WIDTH - RIGHT, ends[0] - 9, panel.unit.label, "t soft", "end")
    values = [one.value for one in panel.marks] or [value for _, value in panel.strokes]
    ticks = value_ticks([value / panel.unit.divisor for value in values], 5 if panel.height > 120 else 3,
                        from_zero=bool(panel.strokes))  # fmt: skip
    y = Linear(ticks[0] * panel.unit.divisor, ticks[-1] * panel.unit.divisor, ends[1], ends[0])
    decimals = tick_decimals(ticks)
    for tick in ticks:
        at = y(tick * panel.unit.divisor)
        svg.line(LEFT, at, WIDTH - RIGHT, at, "zero" if tick == 0 else "grid")
        svg.text(LEFT - 6, at + 4, tick_text(tick, decimals), "t num", "end")
    radius = 3.2 if len(panel.marks) < FEW else 2.3
    styles = {(mark.style.name, mark.style.copy): mark.style for mark in panel.marks}
    for (name, copy), style in styles.items():
        own = [(x(m.at_s), y(m.value)) for m in panel.marks if (m.style.name, m.style.copy) == (name, copy)]
        svg.open_group(style.css)
        if len(panel.marks) > MANY:
            svg.marks("dot", own, radius, "dot")
        else:
            svg.marks(style.shape, own, radius, "ring" if copy else "slice")
        svg.close_group()
    strokes = [(f"{x(at):.1f}", y(value)) for at, value in panel.strokes if ends[1] - y(value) > 0.4]
    svg.path("".join(f"M{at} {ends[1]:.0f}V{to:.1f}" for at, to in strokes), panel.css)
