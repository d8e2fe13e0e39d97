"""Effects with intervals, one row each, grouped by step: the forest plot.

The band is the declared margin, the bracket in each group the A/A noise floor (how far the control differs from
itself), the line 0 % the control. Faint dots are the blocks' own ratios. An interval
that leaves the chart ends in an arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from mydyno.document.drawing import ArmStyle, Linear, Svg, nice_ticks, tick_decimals
from mydyno.wording.numbers import change, signed_percent

WIDE_AND_NARROW = (("", 560.0), (":narrow", 350.0))
"""(what follows the name of a chart, its width)."""
ROW, GROUP_GAP, TOP, BOTTOM = 22.0, 12.0, 8.0, 42.0
LETTER = 7.2
"""The average width of a letter of an arm's name, in pixels."""
NOTHING = -1.0
"""−100 %: no rate lies below."""
WILD = 5.0
"""+500 %: an interval that goes farther ends in an arrow, or the others could not be distinguished."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One effect: shares of 1 relative to the control (0.05 is +5 %)."""

    style: ArmStyle
    effect: float | None
    low: float | None
    high: float | None
    blocks: tuple[float, ...] = ()
    word: str = ""
    """The verdict, printed at the row's end where there is room."""
    reference: float | None = None
    """A published effect, drawn as a hollow diamond."""
    css: str = ""
    """What the verdict means, for the picture of the answer: better, worse, same, …"""

    @classmethod
    def of(cls, style: ArmStyle, ratio: float | None, low: float | None, high: float | None, **more: Any) -> Self:
        """Of ratios of arm to control."""
        return cls(style, change(ratio), change(low), change(high), **more)


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The rows of one step."""

    label: str
    rows: tuple[ForestRow, ...]
    noise: float | None = None
    """The A/A noise floor as a share: the control differs from itself by up to this."""


def forest_charts(
    key: str, title: str, description: str, groups: Sequence[ForestGroup], margin: float | None = None
) -> list[str]:
    """The plot for wide pages and for narrow ones."""
    return [
        forest_chart(f"{key}{suffix}", title, description, groups, margin, width) for suffix, width in WIDE_AND_NARROW
    ]


def forest_chart(
    key: str, title: str, description: str, groups: Sequence[ForestGroup], margin: float | None, width: float = 560
) -> str:
    """The plot; below 480 px the numbers at the rows' ends are left to the table beside it."""
    wide = width >= 480
    longest = max((len(row.style.name) for group in groups for row in group.rows), default=0)
    least, most, right = (118.0, 210.0, 178.0) if wide else (104.0, 150.0, 18.0)
    left = min(max(least, 24 + longest * LETTER), most)
    rows = sum(len(group.rows) for group in groups)
    height = TOP + rows * ROW + len(groups) * (GROUP_GAP + 15) + BOTTOM
    svg = Svg(key, width, height, title, description)
    ticks, scale = effect_scale(groups, margin, left, width - right, 5)
    bottom = height - BOTTOM + 4
    if margin:
        svg.rect(scale.clamp(-margin), TOP, scale.clamp(margin) - scale.clamp(-margin), bottom - TOP, "margin")
    decimals = max(0, tick_decimals(ticks) - 2)
    for tick in ticks:
        svg.line(scale(tick), TOP, scale(tick), bottom, "zero" if tick == 0 else "grid")
        svg.text(scale(tick), bottom + 15, signed_percent(tick, decimals) if tick else "0", "t", "middle")
    svg.text(scale(0), bottom + 32, "relative to the control", "t soft", "middle")
    y = TOP
    for group in groups:
        y += GROUP_GAP
        svg.text(4, y + 9, group.label, "t strong")
        if group.noise:
            _noise_bracket(svg, scale, group.noise, y + 7)
        y += 15
        for row in group.rows:
            _draw_row(svg, scale, row, y + ROW / 2, width if wide else None, int((left - 24) / LETTER))
            y += ROW
    return svg.render("wide" if wide else "narrow" if key.endswith(":narrow") else "")


def effect_scale(
    groups: Sequence[ForestGroup], margin: float | None, start: float, end: float, count: int
) -> tuple[list[float], Linear]:
    """An axis that holds every effect and, unless one is wild, every interval."""
    rows = [row for group in groups for row in group.rows]
    centres = [abs(value) for row in rows for value in (row.effect, row.reference) if value is not None]
    ends = sorted(abs(v) for row in rows for v in (row.low, row.high) if v is not None)
    typical = ends[len(ends) // 2] if ends else 0.0
    largest = max([*centres, margin or 0.01, *(group.noise or 0 for group in groups)])
    bound = max(largest, min(max(ends, default=0.0), max(4 * typical, 1.5 * largest), WILD))
    values = [value for row in rows for value in (row.effect, row.low, row.high, row.reference) if value is not None]
    low = max(-bound, min([*values, -(margin or 0.01), *(-(group.noise or 0) for group in groups)]))
    high = min(bound, max([*values, margin or 0.01, *(group.noise or 0 for group in groups)]))
    ticks = [tick for tick in nice_ticks(low, high, count) if tick >= NOTHING]
    return ticks, Linear(max(NOTHING, min(low, ticks[0])), ticks[-1], start, end)


def _noise_bracket(svg: Svg, scale: Linear, noise: float, y: float) -> None:
    left, right = scale.clamp(-noise), scale.clamp(noise)
    svg.path(f"M{left:.1f} {y - 4:.1f}v8M{left:.1f} {y:.1f}H{right:.1f}M{right:.1f} {y - 4:.1f}v8", "noise")


def shortened(name: str, letters: int) -> str:
    """A name in at most so many letters: its middle goes, because names of factors differ at both ends."""
    if len(name) <= letters:
        return name
    tail = (letters - 1) // 2
    return f"{name[: letters - 1 - tail]}…{name[-tail:]}"


def draw_interval(svg: Svg, scale: Linear, row: ForestRow, y: float) -> None:
    """A row's interval at the height y, and its blocks' own effects as faint dots."""
    svg.marks("dot", [(scale(one), y) for one in row.blocks if scale.low <= one <= scale.high], 1.6, "faint")
    if row.low is None or row.high is None:
        return
    svg.line(scale.clamp(row.low), y, scale.clamp(row.high), y, "interval")
    for value, direction in ((row.low, -1), (row.high, 1)):
        if not scale.low <= value <= scale.high:
            edge = scale.clamp(value)
            svg.path(f"M{edge - 5 * direction:.1f} {y - 4:.1f}l{5 * direction} 4l{-5 * direction} 4", "interval")


def _draw_row(svg: Svg, scale: Linear, row: ForestRow, y: float, text_end: float | None, letters: int) -> None:
    svg.open_group(row.style.css)
    svg.text(14, y + 4, shortened(row.style.name, letters), "t arm")
    draw_interval(svg, scale, row, y)
    if row.reference is not None:
        svg.marks("diamond", [(scale.clamp(row.reference), y)], 4.5, "reference")
    if row.effect is not None:
        svg.marks(row.style.shape, [(scale.clamp(row.effect), y)], 4.2, "mark")
    if text_end is not None:
        effect = signed_percent(row.effect) if row.effect is not None else "no estimate"
        svg.text(text_end - 114, y + 4, effect, "t num", "end")
        if row.word:
            svg.text(text_end - 108, y + 4, row.word, "t soft")
    svg.close_group()
