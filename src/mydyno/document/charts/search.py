"""A capacity search: each slice's load, in order; filled where it met the objective, hollow where it missed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.drawing import ArmStyle, Linear, Svg, value_frame
from mydyno.wording.numbers import DisplayUnit


@dataclass(frozen=True, slots=True)
class Offered:
    """One slice: its block, its load, and whether the objective was met."""

    block: int
    level: float
    met: bool
    title: str


def search_chart(
    key: str,
    heading: str,
    description: str,
    style: ArmStyle,
    slices: Sequence[Offered],
    of_block: dict[int, float],
    unit: str = "1/s",
) -> str:
    """The chart of one arm; `of_block` are the capacities that its blocks gave, drawn over their slices."""
    svg = Svg(key, 356, 200, heading, description)
    frame = value_frame(svg, DisplayUnit(1.0, unit), [one.level for one in slices], heading, count=4)
    x = Linear(0.5, len(slices) + 0.5, frame.left, frame.right)
    begun = 0
    svg.open_group(style.css)
    for number, block in enumerate(dict.fromkeys(one.block for one in slices)):
        count = sum(one.block == block for one in slices)
        start, end = x(begun + 0.5), x(begun + count + 0.5)
        if number % 2 == 0:
            svg.rect(start, frame.top, end - start, frame.bottom - frame.top, "stripe")
        svg.text((start + end) / 2, frame.bottom + 15, str(block), "t num", "middle")
        if block in of_block:
            svg.line(start, frame.y(of_block[block]), end, frame.y(of_block[block]), "line")
        begun += count
    for place, one in enumerate(slices, 1):
        svg.titled_mark("circle", x(place), frame.y(one.level), 2.6, "mark" if one.met else "ring", one.title)
    svg.close_group()
    svg.text((frame.left + frame.right) / 2, svg.height - 5, "block (slices in order)", "t soft", "middle")
    return svg.render()
