"""Order effect: the residual of every run after removing its arm's and block's level, by its position in the block.

Residual = ln(run) - mean of its arm and step - mean of its block and step + mean of the step, as a share.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from mydyno.reports.charts.palette import ArmStyle
from mydyno.reports.charts.scale import Linear, nice_ticks, tick_decimals
from mydyno.reports.charts.svg import Svg
from mydyno.wording.numbers import signed_percent


def position_chart(
    key: str, heading: str, description: str, points: Sequence[tuple[int, float, ArmStyle]], width: float = 356
) -> str:
    """The chart of (position, residual, arm's style); a bar marks each position's median."""
    svg = Svg(key, width, 232, heading, description)
    svg.text(0, 11, heading, "t strong")
    bound = max([0.005, *(abs(value) for _, value, _ in points)])
    ticks = nice_ticks(-bound, bound, 5)
    left, right, top, bottom = 46.0, width - 10, 24.0, 196.0
    y = Linear(ticks[0], ticks[-1], bottom, top)
    for tick in ticks:
        svg.line(left, y(tick), right, y(tick), "zero" if tick == 0 else "grid")
        decimals = max(0, tick_decimals(ticks) - 2)
        svg.text(left - 6, y(tick) + 4, signed_percent(tick, decimals) if tick else "0", "t num", "end")
    positions = sorted({position for position, _, _ in points}) or [1]
    x = Linear(min(positions) - 0.5, max(positions) + 0.5, left, right)
    styles = list(dict.fromkeys(style for _, _, style in points))
    for index, style in enumerate(styles):
        shift = (index - (len(styles) - 1) / 2) * min(9.0, 40.0 / len(styles))
        svg.open_group(style.css)
        dots = [(x(position) + shift, y(value)) for position, value, one in points if one == style]
        svg.marks("dot", dots, 2.0, "dot")
        svg.close_group()
    for position in positions:
        middle = y(median(value for at, value, _ in points if at == position))
        svg.line(x(position) - 24, middle, x(position) + 24, middle, "median")
        svg.text(x(position), bottom + 16, str(position), "t num", "middle")
    svg.text((left + right) / 2, svg.height - 5, "position in the block", "t soft", "middle")
    return svg.render()
