"""The frame that charts with a value axis share: grid, tick labels, axis title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mydyno.document.charts.scale import Linear, tick_decimals, value_ticks
from mydyno.document.charts.svg import Svg
from mydyno.wording.numbers import MINUS, NARROW_SPACE, DisplayUnit

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
