"""Bars per arm at each number of connections (study 3's chart), from zero, every run a dot over its bar."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.language import tr
from mydyno.reports.charts.frame import value_frame
from mydyno.reports.charts.svg import Svg
from mydyno.reports.charts.sweep import SweepSeries
from mydyno.wording.numbers import DisplayUnit


def bars_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    series: Sequence[SweepSeries],
    levels: Sequence[float],
    width: float = 560,
    level_name: str = "connections",
) -> str:
    """The chart; a bar is the median of the arm's valid runs, and an arm without any has none."""
    svg = Svg(
        key,
        width,
        250,
        tr("{heading}, bars per arm against {level_name}", heading=heading, level_name=level_name),
        description,
    )
    values = [value for one in series for _, value, _ in one.points]
    frame = value_frame(svg, unit, values, heading, from_zero=True)
    ordered = sorted(set(levels))
    slot = (frame.right - frame.left) / max(1, len(ordered))
    bar = min(26.0, slot * 0.8 / max(1, len(series)))
    for place, level in enumerate(ordered):
        centre = frame.left + slot * (place + 0.5)
        svg.text(centre, frame.bottom + 16, f"{level:.10g}", "t num", "middle")
        for index, one in enumerate(series):
            x = centre + (index - len(series) / 2) * bar
            top = one.medians().get(level)
            svg.open_group(one.style.css)
            invalid = [(x + bar / 2, frame.y(value)) for at, value, valid in one.points if not valid and at == level]
            svg.marks("cross", invalid, 2.4, "invalid")
            if top is not None:
                svg.rect(x + 1, frame.y(top), bar - 2, frame.bottom - frame.y(top), "bar")
            runs = [value for at, value, valid in one.points if valid and at == level]
            spread = min(bar - 6, 2.5 * len(runs)) / max(1, len(runs))
            middle = x + bar / 2
            dots = [(middle + (i - (len(runs) - 1) / 2) * spread, frame.y(value)) for i, value in enumerate(runs)]
            svg.marks(one.style.shape, dots, 1.9, "over")
            svg.close_group()
    svg.text((frame.left + frame.right) / 2, svg.height - 5, level_name, "t soft", "middle")
    return svg.render("wide" if width >= 480 else "narrow")
