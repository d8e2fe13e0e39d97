"""Every run as a dot in the order of execution, blocks apart; runs that are not valid are crossed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.reports.charts.frame import value_frame
from mydyno.reports.charts.palette import ArmStyle
from mydyno.reports.charts.scale import Linear
from mydyno.reports.charts.svg import Svg
from mydyno.wording.numbers import DisplayUnit


@dataclass(frozen=True, slots=True)
class OrderPoint:
    """One run: `order` counts the planned runs from 1, so what is missing leaves a gap."""

    order: int
    block: int
    value: float
    style: ArmStyle
    valid: bool
    title: str


def order_chart(
    key: str, heading: str, description: str, unit: DisplayUnit, points: Sequence[OrderPoint], blocks: dict[int, int]
) -> str:
    """The chart; `blocks` is {block: planned runs in it}, in order."""
    svg = Svg(key, 356, 190, f"{heading}, in order of execution", description)
    frame = value_frame(svg, unit, [point.value for point in points], heading, count=4)
    planned = sum(blocks.values())
    x = Linear(0.5, planned + 0.5, frame.left, frame.right)
    before, last_label = 0, -1e9
    for index, (block, runs) in enumerate(blocks.items()):
        start, end = x(before + 0.5), x(before + runs + 0.5)
        if index % 2 == 0:
            svg.rect(start, frame.top, end - start, frame.bottom - frame.top, "stripe")
        if (start + end) / 2 - last_label > 16:
            last_label = (start + end) / 2
            svg.text(last_label, frame.bottom + 15, str(block), "t num", "middle")
        before += runs
    svg.text((frame.left + frame.right) / 2, svg.height - 5, "block (runs in order of execution)", "t soft", "middle")
    for point in points:
        svg.open_group(point.style.css)
        at = (x(point.order), frame.y(point.value))
        css = "mark" if point.valid else "mark off"
        svg.titled_mark(point.style.shape, *at, 3.2, css, point.title)
        svg.close_group()
    svg.marks("cross", [(x(p.order), frame.y(p.value)) for p in points if not p.valid], 4, "invalid")
    return svg.render()
