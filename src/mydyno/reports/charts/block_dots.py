"""The effect in each block: a dot for each arm and block; the control's second copy is hollow, the control is zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mydyno.reports.charts.palette import ArmStyle
from mydyno.reports.charts.scale import Linear, nice_ticks, tick_decimals
from mydyno.reports.charts.svg import Svg
from mydyno.wording.numbers import signed_percent

LEFT, RIGHT, TOP, BOTTOM = 52.0, 8.0, 22.0, 34.0
SPREAD = 0.62
"""The arms of a block share so much of its width."""


@dataclass(frozen=True, slots=True)
class ArmBlocks:
    """One arm's effects, {block: share of 1}."""

    style: ArmStyle
    shares: Mapping[int, float]


def block_dots_chart(
    key: str,
    heading: str,
    description: str,
    arms: Sequence[ArmBlocks],
    margin: float | None,
    size: tuple[float, float] = (356, 230),
) -> str:
    """The chart; the band is the declared margin."""
    svg = Svg(key, *size, heading, description)
    svg.text(0, 11, heading, "t strong")
    values = [share for arm in arms for share in arm.shares.values()]
    bound = margin or 0.005
    ticks = [tick for tick in nice_ticks(min([-bound, *values]), max([bound, *values]), 6) if tick >= -1.0]
    bottom = svg.height - BOTTOM
    y = Linear(min(ticks[0], *values, -bound), ticks[-1], bottom, TOP)
    right = svg.width - RIGHT
    if margin:
        svg.rect(LEFT, y(margin), right - LEFT, y(-margin) - y(margin), "margin")
    decimals = max(0, tick_decimals(ticks) - 2)
    for tick in ticks:
        svg.line(LEFT, y(tick), right, y(tick), "zero" if tick == 0 else "grid")
        svg.text(LEFT - 6, y(tick) + 4, signed_percent(tick, decimals) if tick else "0", "t num", "end")
    blocks = sorted({block for arm in arms for block in arm.shares})
    x = Linear(0, max(1, len(blocks)), LEFT, right)
    step = (x(1) - x(0)) * SPREAD / max(1, len(arms) - 1)
    last_label = -1e9
    for index, block in enumerate(blocks):
        middle = x(index + 0.5)
        if middle - last_label > 16:
            svg.text(middle, bottom + 15, str(block), "t num", "middle")
            last_label = middle
    for place, arm in enumerate(arms):
        offset = (place - (len(arms) - 1) / 2) * step
        svg.open_group(arm.style.css)
        for block, share in arm.shares.items():
            title = f"block {block}, {arm.style.label}: {signed_percent(share)}"
            at = (x(blocks.index(block) + 0.5) + offset, y(share))
            svg.titled_mark(arm.style.shape, *at, 3.2, "ring" if arm.style.copy else "mark", title)
        svg.close_group()
    svg.text((LEFT + right) / 2, svg.height - 4, "block", "t soft", "middle")
    return svg.render()
