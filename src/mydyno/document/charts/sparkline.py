"""A line of the size of a word: the course of a value over studies, oldest first, without axes."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mydyno.document.charts.svg import coordinate, polyline

WIDTH, HEIGHT, EDGE = 96.0, 18.0, 2.0
FLAT = 0.005
"""Values that differ by less than this share of the largest, or effects than this, are drawn flat."""


def sparkline(values: Sequence[float], words: str, zero: bool) -> Markup:
    """The line with a dot at the newest value; nothing of fewer than two. `zero`: with a line at 0, for effects.

    `words`: what readers of a screen hear, and a pointer over it shows.
    """
    if len(values) < 2:
        return Markup()
    low, high = (min(0.0, *values), max(0.0, *values)) if zero else (min(values), max(values))
    least = FLAT * (1.0 if zero else max(map(abs, values)) or 1.0)
    if high - low < least:
        low, high = (low + high - 2 * least) / 2, (low + high + 2 * least) / 2

    def y(value: float) -> float:
        return EDGE + (HEIGHT - 2 * EDGE) * (high - value) / (high - low)

    step = (WIDTH - 2 * EDGE) / (len(values) - 1)
    points = [(EDGE + place * step, y(value)) for place, value in enumerate(values)]
    return Markup(
        '<svg class="spark" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{words}">'
        "<title>{words}</title>{zero}"
        '<path class="line" d="{line}"/><path class="last" d="M{x} {y}h0"/></svg>'
    ).format(
        w=coordinate(WIDTH), h=coordinate(HEIGHT), words=words, line=polyline(points),
        zero=Markup('<path class="zero" d="M0 {}H{}"/>').format(coordinate(y(0.0)), coordinate(WIDTH)) if zero else "",
        x=coordinate(points[-1][0]), y=coordinate(points[-1][1]),
    )  # fmt: skip
