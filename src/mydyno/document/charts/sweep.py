"""A metric against the level of load: every valid run as a dot, the arms' means joined; the invalid as crosses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mydyno.document.charts.drawing import ArmStyle, Svg, level_labels, level_positions, polyline, value_frame
from mydyno.stats.percentiles import absolute_mean
from mydyno.wording.numbers import DisplayUnit

WIDTH, HEIGHT = 356.0, 250.0


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """One arm: (level, stored value, whether the run is valid) of every run."""

    style: ArmStyle
    points: tuple[tuple[float, float, bool], ...]

    def means(self) -> dict[float, float]:
        """The mean of the valid runs at each level, as in tables."""
        levels = sorted({level for level, _, valid in self.points if valid})
        return {level: absolute_mean([v for at, v, valid in self.points if valid and at == level]) for level in levels}


def sweep_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    series: Sequence[SweepSeries],
    levels: Sequence[float],
    level_name: str = "connections",
    level_texts: Mapping[float, str] | None = None,
) -> str:
    """The chart. Means stand at their true abscissa; only the runs' dots are moved aside, so that all can be seen."""
    svg = Svg(key, WIDTH, HEIGHT, f"{heading} against {level_name}", description)
    values = [value for one in series for _, value, _ in one.points]
    frame = value_frame(svg, unit, values, heading)
    gap = min(4.5, _least_gap(levels, frame.right - frame.left) / (len(series) + 1))
    inset = 10 + gap * len(series) / 2
    positions = level_positions(levels, frame.left + inset, frame.right - inset)
    level_labels(svg, frame, positions, level_name, level_texts)
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * gap
        svg.open_group(one.style.css)
        dots = [(positions[level] + shift, frame.y(value)) for level, value, valid in one.points if valid]
        svg.marks("circle" if one.style.copy else "dot", dots, 1.8, "ring" if one.style.copy else "dot")
        crosses = [(positions[level] + shift, frame.y(value)) for level, value, valid in one.points if not valid]
        svg.marks("cross", crosses, 2.4, "invalid")
        means = [(positions[level], frame.y(value)) for level, value in one.means().items()]
        if not one.style.copy:
            svg.path(polyline(means), "line", one.style.dash)
            svg.marks(one.style.shape, means, 3.1, "mark")
        svg.close_group()
    return svg.render()


def _least_gap(levels: Sequence[float], width: float) -> float:
    if len(set(levels)) < 2:
        return width / 2
    positions = sorted(level_positions(levels, 0, width * 0.85).values())
    return min(b - a for a, b in pairwise(positions))
