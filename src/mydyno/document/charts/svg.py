"""A small writer of SVG: escaped, coordinates of one decimal, a title and a description, no style of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def coordinate(value: float) -> str:
    """A pixel with one decimal, without needless zeros."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def clean(text: object) -> str:
    """Text escaped for XML, without characters that XML forbids."""
    return escape(_CONTROL_CHARACTERS.sub("\ufffd", str(text)))


class Svg:
    """One chart being drawn; `render` gives the element."""

    def __init__(self, key: str, width: float, height: float, title: str, description: str) -> None:
        self.key = key
        self.width, self.height = width, height
        self.title, self.description = title, description
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        """Append ready markup."""
        self._parts.append(part)

    def open_group(self, css: str) -> None:
        """Begin a group of a CSS class."""
        self.add(f'<g class="{clean(css)}">')

    def close_group(self) -> None:
        """End the last group."""
        self.add("</g>")

    def rect(self, x: float, y: float, width: float, height: float, css: str, title: str = "") -> None:
        """A rectangle; negative sizes are drawn as nothing."""
        if width <= 0 or height <= 0:
            return
        sizes = f'x="{coordinate(x)}" y="{coordinate(y)}" width="{coordinate(width)}" height="{coordinate(height)}"'
        self.add(f'<rect class="{css}" {sizes}' + (f"><title>{clean(title)}</title></rect>" if title else "/>"))

    def path(self, data: str, css: str, dash: str = "") -> None:
        """A path from ready path data; empty data is left out."""
        if data:
            self.add(f'<path class="{css}"' + (f' stroke-dasharray="{dash}"' if dash else "") + f' d="{data}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A straight line."""
        self.path(f"M{coordinate(x1)} {coordinate(y1)}L{coordinate(x2)} {coordinate(y2)}", css)

    def text(self, x: float, y: float, text: str, css: str = "t", anchor: str = "start") -> None:
        """One line of text, anchored at start, middle or end."""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.add(f'<text class="{css}" x="{coordinate(x)}" y="{coordinate(y)}"{where}>{clean(text)}</text>')

    def marks(self, shape: str, points: Iterable[tuple[float, float]], radius: float, css: str) -> None:
        """All points of a series as one path of markers."""
        self.path("".join(marker(shape, x, y, radius) for x, y in points), css)

    def titled_mark(self, shape: str, x: float, y: float, radius: float, css: str, title: str) -> None:
        """One marker with its own tooltip."""
        self.add(f'<path class="{css}" d="{marker(shape, x, y, radius)}"><title>{clean(title)}</title></path>')

    def render(self, css: str = "") -> str:
        """The whole element. It scales down with its container and never up beyond its own size."""
        label = re.sub(r"[^A-Za-z0-9_-]", "-", self.key)
        size = f"{coordinate(self.width)} {coordinate(self.height)}"
        return (
            f'<svg class="chart {css}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{coordinate(self.width)}" role="img" aria-labelledby="{label}-t {label}-d" '
            f'data-chart="{clean(self.key)}">'
            f'<title id="{label}-t">{clean(self.title)}</title><desc id="{label}-d">{clean(self.description)}</desc>'
            f"{''.join(self._parts)}</svg>"
        ).replace('class="chart "', 'class="chart"')


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """Path data of one marker, centred; all shapes have about the same area."""
    r = radius
    at = f"M{coordinate(x)} {coordinate(y)}"
    if shape == "dot":  # a line of no length with round ends: its class gives it width, and it costs 12 characters
        return f"{at}h0"
    if shape == "square":
        return f"{at}m{_pair(-r * 0.9, -r * 0.9)}h{coordinate(r * 1.8)}v{coordinate(r * 1.8)}h{coordinate(-r * 1.8)}z"
    if shape in ("triangle", "down"):
        up = 1 if shape == "triangle" else -1
        return f"{at}m{_pair(0, -r * 1.25 * up)}l{_pair(r * 1.2, r * 2.1 * up)}h{coordinate(-r * 2.4)}z"
    if shape == "diamond":
        s = r * 1.3
        return f"{at}m{_pair(0, -s)}l{_pair(s, s)}l{_pair(-s, s)}l{_pair(-s, -s)}z"
    if shape == "plus":
        return f"{at}m{_pair(-r * 1.2, 0)}h{coordinate(r * 2.4)}m{_pair(-r * 1.2, -r * 1.2)}v{coordinate(r * 2.4)}"
    if shape == "cross":
        return f"{at}m{_pair(-r, -r)}l{_pair(2 * r, 2 * r)}m{_pair(0, -2 * r)}l{_pair(-2 * r, 2 * r)}"
    if shape == "bar":
        return f"{at}m{_pair(-r * 1.3, -r * 0.5)}h{coordinate(r * 2.6)}v{coordinate(r)}h{coordinate(-r * 2.6)}z"
    arc = f"{coordinate(r)} {coordinate(r)} 0 1 0"
    return f"{at}m{_pair(-r, 0)}a{arc} {_pair(2 * r, 0)}a{arc} {_pair(-2 * r, 0)}z"


def _pair(x: float, y: float) -> str:
    return f"{coordinate(x)} {coordinate(y)}"


def polyline(points: Sequence[tuple[float, float] | None]) -> str:
    """Path data through the points with relative steps; None breaks the line, a lone point becomes a dot."""
    data: list[str] = []
    last: tuple[float, float] | None = None
    for point in points:
        if point is None:
            last = None
            continue
        here = (round(point[0], 1), round(point[1], 1))
        if last is None:
            data.append(f"M{_pair(*here)}h0")
        else:
            data.append(f"l{_pair(here[0] - last[0], here[1] - last[1])}")
        last = here
    return "".join(data)


def area(upper: Sequence[tuple[float, float] | None], lower: Sequence[tuple[float, float] | None]) -> str:
    """Path data of the area between two lines over the same abscissae; gaps in either split it."""
    pieces: list[list[tuple[tuple[float, float], tuple[float, float]]]] = [[]]
    for above, below in zip(upper, lower, strict=True):
        if above is None or below is None:
            pieces.append([])
        else:
            pieces[-1].append((above, below))
    data = []
    for piece in pieces:
        if len(piece) > 1:
            outline = [above for above, _ in piece] + [below for _, below in reversed(piece)]
            data.append(polyline(outline).replace("h0", "") + "z")
    return "".join(data)
