"""The picture of the answer: arms and the control's copy as rows, metrics as columns, absolute values at every mark.

In each cell: the interval of the effect, the margin as a band, the blocks' own effects as faint dots, and a label with
the change, the arm's value and the verdict. Only what is decided has a colour. A narrow picture has one metric below
the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.document.charts.drawing import Linear, Svg, tick_decimals
from mydyno.document.charts.forest import ForestGroup, ForestRow, draw_interval, effect_scale, shortened
from mydyno.wording.numbers import noise_text, percent, signed_percent

LETTER, BOLD_LETTER = 6.9, 7.7
"""The average width of a letter, in pixels."""
NARROW = 480.0
ROW, VALUE_ROW, NOISE_ROW, HEADING, HEAD, AXIS, GAP = 46.0, 26.0, 38.0, 26.0, 44.0, 42.0, 28.0
LEAST_NAMES, MOST_NAMES = 84.0, 200.0
MOST_TICKS = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One metric: a group of rows for each band, and the control's value there."""

    heading: str
    note: str
    """Which direction is good."""
    margin: float | None
    values: tuple[str, ...]
    groups: tuple[ForestGroup, ...]


def answer_picture(
    key: str, title: str, description: str, control: str, columns: Sequence[Column], width: float
) -> str:
    """The picture; all columns have the same bands with the same rows. One band has no heading."""
    wide = width >= NARROW
    longest = max(
        len(name) for name in (f"{control} again", *(r.style.name for g in columns[0].groups for r in g.rows))
    )
    names = min(max(LEAST_NAMES, longest * BOLD_LETTER + 8), MOST_NAMES if wide else width / 3)
    parts = [columns] if wide else [[column] for column in columns]
    copied = [any(column.groups[place].noise for column in columns) for place in range(len(columns[0].groups))]
    headed = len(copied) > 1
    heights = [_band_height(group, headed, one) for group, one in zip(columns[0].groups, copied, strict=True)]
    tall = HEAD + sum(heights) + AXIS
    svg = Svg(key, width, tall * len(parts) + GAP * (len(parts) - 1), title, description)
    for index, part in enumerate(parts):
        _part(svg, control, part, names, index * (tall + GAP), copied)
    return svg.render("picture " + ("wide" if wide else "narrow"))


def _band_height(group: ForestGroup, headed: bool, copied: bool) -> float:
    return (HEADING if headed else 0) + VALUE_ROW + ROW * len(group.rows) + NOISE_ROW * copied


def _part(svg: Svg, control: str, columns: Sequence[Column], names: float, top: float, copied: Sequence[bool]) -> None:
    """Some of the columns, and the rows' names. `copied`: whether a band has a row for the control's copy."""
    room = (svg.width - names) / len(columns)
    for index, column in enumerate(columns):
        left = names + index * room
        _column(svg, column, left, left + room - (GAP if index < len(columns) - 1 else 10), top, copied)
    y = top + HEAD
    for group, has_copy in zip(columns[0].groups, copied, strict=True):
        y = _names(svg, control, group, int((names - 6) / BOLD_LETTER), y, len(copied) > 1, has_copy)


def _names(svg: Svg, control: str, group: ForestGroup, letters: int, y: float, headed: bool, has_copy: bool) -> float:
    """The names of a band's rows with a rule above each; gives the band's end."""
    if headed:
        svg.text(0, y + 18, group.label, "t strong")
        y += HEADING
    for name, height in [(control, VALUE_ROW), *((row.style.name, ROW) for row in group.rows)]:
        svg.line(0, y, svg.width, y, "grid")
        svg.text(0, y + (18 if height < ROW else 22), shortened(name, letters), "t strong")
        y += height
    if not has_copy:
        return y
    svg.line(0, y, svg.width, y, "grid")
    svg.text(0, y + 18, shortened(f"{control} again", letters), "t soft")
    svg.text(0, y + 34, "A/A noise", "t soft")
    return y + NOISE_ROW


def _column(svg: Svg, column: Column, left: float, right: float, top: float, copied: Sequence[bool]) -> None:
    ticks, scale = effect_scale(column.groups, column.margin, left + 8, right - 8, MOST_TICKS)
    svg.text(left, top + 14, column.heading, "t strong")
    svg.text(left, top + 32, column.note, "t soft")
    svg.line(left, top + HEAD, right, top + HEAD, "axis")
    y = top + HEAD
    for value, group, has_copy in zip(column.values, column.groups, copied, strict=True):
        y += HEADING if len(column.groups) > 1 else 0
        end = y + _band_height(group, False, has_copy)
        if column.margin:
            start, width = scale.clamp(-column.margin), scale.clamp(column.margin) - scale.clamp(-column.margin)
            svg.rect(start, y, width, end - y, "margin")
        for tick in ticks:
            svg.line(scale(tick), y, scale(tick), end, "zero" if tick == 0 else "grid")
        svg.text(_inside(scale(0), value, left, right), y + 18, value, "t value", "middle")
        y += VALUE_ROW
        for row in group.rows:
            _cell(svg, scale, row, y, (left, right))
            y += ROW
        _noise(svg, scale, group.noise, y, (left, right))
        y = end
    _axis(svg, scale, ticks, (left, right), y)
    if column.margin:
        words = f"shaded: within ±{percent(column.margin)}"
        svg.text(_inside(scale(0), words, left, right), y + 34, words, "t soft", "middle")


def _axis(svg: Svg, scale: Linear, ticks: Sequence[float], ends: tuple[float, float], y: float) -> None:
    """The ticks' labels, from 0 on every one that has room."""
    decimals = max(0, tick_decimals(ticks) - 2)
    texts = {tick: signed_percent(tick, decimals) if tick else "0" for tick in ticks}
    wide = max(map(len, texts.values())) * LETTER
    every = math.ceil((wide + 8) / max(1.0, scale(ticks[1]) - scale(ticks[0])))
    zero = min(range(len(ticks)), key=lambda index: abs(ticks[index]))
    for index, (tick, text) in enumerate(texts.items()):
        half = len(text) * LETTER / 2
        fits = ends[0] - 5 <= scale(tick) - half and scale(tick) + half <= ends[1] + 5
        if (index - zero) % every == 0 and fits:
            svg.text(scale(tick), y + 16, text, "t soft", "middle")


def _cell(svg: Svg, scale: Linear, row: ForestRow, y: float, ends: tuple[float, float]) -> None:
    svg.open_group(f"v-{row.css}")
    line = y + 17
    draw_interval(svg, scale, row, line)
    at = scale.clamp(row.effect) if row.effect is not None else scale(0)
    if row.effect is not None:
        svg.marks("circle", [(at, line)], 4.6, "mark")
    svg.text(_inside(at, row.word, *ends), y + 38, row.word, "t label", "middle")
    svg.close_group()


def _noise(svg: Svg, scale: Linear, noise: float | None, y: float, ends: tuple[float, float]) -> None:
    if not noise:
        return
    left, right = scale.clamp(-noise), scale.clamp(noise)
    svg.path(f"M{left:.1f} {y + 9:.1f}v8M{left:.1f} {y + 13:.1f}H{right:.1f}M{right:.1f} {y + 9:.1f}v8", "noise")
    text = noise_text(noise)
    svg.text(_inside(scale(0), text, *ends), y + 32, text, "t soft", "middle")


def _inside(x: float, text: str, left: float, right: float) -> float:
    """The middle of a text near x that does not leave its column."""
    half = len(text) * LETTER / 2
    return min(max(x, left + half), max(right - half, left + half))
