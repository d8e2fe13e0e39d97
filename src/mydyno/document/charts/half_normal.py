"""A half-normal plot: the sizes of effects against where they would lie if none of them had a cause.

Effects of noise alone lie on a straight line through the origin; those that stand out to the right of it are real
(Daniel, Technometrics 1 (1959)). The line is that of the study's standard error, the dashed one its margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.drawing import Linear, Svg, nice_ticks, tick_decimals

LEFT, RIGHT, TOP, BOTTOM = 40.0, 16.0, 40.0, 38.0
LETTER = 6.2


@dataclass(frozen=True, slots=True)
class SizedEffect:
    """One effect: `size` of the log, in percent; `quantile` where noise alone would put it, in standard errors."""

    name: str
    size: float
    quantile: float
    active: bool
    title: str


def half_normal_chart(
    key: str,
    heading: str,
    description: str,
    effects: Sequence[SizedEffect],
    standard_error: float,
    margin: float | None,
    look: tuple[float, str],
) -> str:
    """The chart. `standard_error` and `margin` (the half-width of the intervals) are in the unit of the sizes.

    `look` is the width and the CSS class.
    """
    svg = Svg(key, look[0], 260, heading, description)
    left, right, top, bottom = LEFT, svg.width - RIGHT, TOP, svg.height - BOTTOM
    sizes = nice_ticks(0.0, max(1e-6, 1.05 * max([*(one.size for one in effects), margin or 0.0])))
    quantiles = nice_ticks(0.0, 1.05 * max(one.quantile for one in effects), 4)
    x, y = Linear(0.0, sizes[-1], left, right), Linear(0.0, quantiles[-1], bottom, top)
    svg.text(0, 11, heading, "t strong")
    decimals = tick_decimals(sizes)
    for tick in sizes:
        svg.line(x(tick), top, x(tick), bottom, "zero" if tick == 0 else "grid")
        svg.text(x(tick), bottom + 15, f"{tick:.{decimals}f}", "t num", "middle")
    svg.text(0, 25, "expected size of noise, standard errors", "t soft")
    for tick in quantiles:
        svg.text(left - 6, y(tick) + 4, f"{tick:.{tick_decimals(quantiles)}f}", "t num", "end")
    svg.text((left + right) / 2, svg.height - 5, "size of the effect (logarithm), %", "t soft", "middle")
    if standard_error > 0:
        reach = min(quantiles[-1], sizes[-1] / standard_error)
        svg.line(x(0.0), y(0.0), x(reach * standard_error), y(reach), "axis")
    if margin is not None and margin <= sizes[-1]:
        svg.path(f"M{x(margin):.1f} {top:.1f}V{bottom:.1f}", "axis", "4 3")
    for one in effects:
        at = (x(one.size), y(one.quantile))
        svg.open_group("a1" if one.active else "a0")
        svg.titled_mark("circle" if one.active else "diamond", *at, 4, "mark" if one.active else "ring", one.title)
        svg.close_group()
        if one.active:
            right_of, left_of = right - at[0] - 10, at[0] - left - 10
            room, anchor = (right_of, "start") if right_of >= min(left_of, len(one.name) * LETTER) else (left_of, "end")
            name = one.name if len(one.name) * LETTER <= room else f"{one.name[: max(3, int(room / LETTER) - 1)]}…"
            svg.text(at[0] + (8 if anchor == "start" else -8), at[1] + 4, name, "t", anchor)
    return svg.render(look[1])
