"""A metric over time as a still picture: median and range of each arm's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.drawing import ArmStyle, Linear, Svg, area, nice_ticks, polyline, value_frame
from mydyno.wording.numbers import DisplayUnit

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """One arm over time: medians of its runs, and the least and largest value of any of them."""

    style: ArmStyle
    seconds: Sequence[float]
    middle: Values
    low: Values | None = None
    high: Values | None = None


def timeline_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    series: Sequence[TimeSeries],
    duration_s: float,
    window: tuple[float, float] | None = None,
    size: tuple[float, float] = (356, 200),
    css: str = "",
    ceiling: tuple[float, str] | None = None,
) -> str:
    """The chart; `window` is the measured part (the rest is shaded).

    `ceiling` is (value, label) of what the series cannot exceed; with it the axis begins at zero.
    """
    svg = Svg(key, *size, f"{heading} over time", description)
    values = [v for one in series for line in (one.middle, one.low, one.high) for v in line or () if v is not None]
    if ceiling:
        values.append(ceiling[0])
    frame = value_frame(svg, unit, values, heading, from_zero=ceiling is not None, count=4)
    ticks = [tick for tick in nice_ticks(0, duration_s, 6 if size[0] < 480 else 9) if tick <= duration_s * 1.001]
    x = Linear(0, duration_s, frame.left, frame.right)
    if window:
        svg.rect(x(0), frame.top, x.clamp(window[0]) - x(0), frame.bottom - frame.top, "outside")
        svg.rect(x.clamp(window[1]), frame.top, x(duration_s) - x.clamp(window[1]), frame.bottom - frame.top, "outside")
    for tick in ticks:
        svg.text(x(tick), frame.bottom + 15, f"{tick:g}", "t num", "middle")
    svg.text((frame.left + frame.right) / 2, svg.height - 5, "seconds", "t soft", "middle")
    for one in series:
        svg.open_group(one.style.css)
        if one.low is not None and one.high is not None:
            svg.path(
                area(_points(x, frame.y, one.seconds, one.high), _points(x, frame.y, one.seconds, one.low)), "band"
            )
        svg.path(polyline(_points(x, frame.y, one.seconds, one.middle)), "line thin", one.style.dash)
        svg.close_group()
    if ceiling:
        y = frame.y(ceiling[0])
        svg.line(frame.left, y, frame.right, y, "ceiling")
        svg.text(frame.right - 2, y - 4, ceiling[1], "t soft", "end")
    return svg.render(css)


def _points(x: Linear, y: Linear, seconds: Sequence[float], values: Values) -> list[tuple[float, float] | None]:
    return [
        None if value is None else (round(x(second), 0), y(value))
        for second, value in zip(seconds, values, strict=True)
    ]
