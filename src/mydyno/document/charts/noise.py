"""The control against its own copy in every block and step: what this set-up shows without any change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.palette import ArmStyle
from mydyno.document.charts.scale import Linear, nice_ticks, tick_decimals
from mydyno.document.charts.svg import Svg
from mydyno.wording.numbers import signed_percent


@dataclass(frozen=True, slots=True)
class NoiseRow:
    """One step: the blocks' ratios copy / control less 1, and the noise floor as a share."""

    label: str
    ratios: tuple[float, ...]
    floor: float | None


def noise_chart(
    key: str,
    heading: str,
    description: str,
    style: ArmStyle,
    rows: Sequence[NoiseRow],
    margin: float | None,
    width: float,
) -> str:
    """The chart, a row per step; dots that lie outside stand at the edge."""
    height = 34 + 20.0 * len(rows) + 34
    left = 116.0
    svg = Svg(key, width, height, heading, description)
    svg.text(0, 11, heading, "t strong")
    extremes = [abs(value) for row in rows for value in (*row.ratios, row.floor or 0.0)]
    ticks = nice_ticks(-max([margin or 0.005, *extremes]), max([margin or 0.005, *extremes]), 5)
    scale = Linear(ticks[0], ticks[-1], left, width - 22)
    bottom = height - 32
    if margin:
        svg.rect(scale(-margin), 24, scale(margin) - scale(-margin), bottom - 24, "margin")
    for tick in ticks:
        svg.line(scale(tick), 24, scale(tick), bottom, "zero" if tick == 0 else "grid")
        decimals = max(0, tick_decimals(ticks) - 2)
        svg.text(scale(tick), bottom + 14, signed_percent(tick, decimals) if tick else "0", "t", "middle")
    svg.text(scale(0), height - 4, "control again, relative to the control", "t soft", "middle")
    svg.open_group(style.css)
    for index, row in enumerate(rows):
        y = 38 + 20.0 * index
        svg.text(0, y + 4, row.label, "t")
        if row.floor:
            start, end = scale(-row.floor), scale(row.floor)
            svg.path(f"M{start:.1f} {y - 6:.1f}v12M{start:.1f} {y:.1f}H{end:.1f}M{end:.1f} {y - 6:.1f}v12", "noise")
        svg.marks("circle", [(scale(value), y) for value in row.ratios], 2.6, "mark")
    svg.close_group()
    return svg.render()
