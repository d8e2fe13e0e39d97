"""A document of parts, made once: on a terminal (`console`), as Markdown (`markdown_text`), as a page of HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from mydyno.document.section import FigureGroup, Table, render

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """The text of a file of assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script_json(value: object) -> Markup:
    """JSON that cannot end its script element, whatever its strings contain."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters that HTML forbids; server logs and status texts can contain them."""


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph beside what is found: css "note", or "intro" for what has to be known before the rest."""

    text: str
    css: str = "note"

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Listed:
    """Sentences as a list."""

    lines: Sequence[str]
    heading: str = ""

    def __bool__(self) -> bool:
        return bool(self.lines)


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts with their legend, and how to read them; where there are none, the tables that say the same."""

    groups: Sequence[FigureGroup]
    legend: Markup | str = ""
    intro: str = ""

    def __bool__(self) -> bool:
        return any(group.figures or group.text for group in self.groups)


@dataclass(frozen=True, slots=True)
class Fold:
    """What opens on demand under a heading. A terminal has none of it."""

    heading: str
    inside: Sequence[Piece | None]

    @property
    def pieces(self) -> list[Piece]:
        """Without what is empty."""
        return [piece for piece in self.inside if piece]

    def __bool__(self) -> bool:
        return bool(self.pieces)


Piece = str | Note | Listed | Table | Figures | Fold
"""A paragraph, or more; markup is for pages alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A heading, the answer's sentences, and what follows in order.

    A sentence that is a command between backquotes, and nothing else, is printed unbroken, to be copied.
    """

    id: str
    heading: str
    short: str = ""
    """Its name in a page's table of contents; else that is the heading."""
    folded: bool = False
    """Whether it opens on demand."""
    says: str = ""
    """One line for a part that is folded: what is inside."""
    lead: Sequence[str] = ()
    body: Sequence[Piece | None] = ()

    @property
    def pieces(self) -> list[Piece]:
        """The body without what is empty."""
        return [piece for piece in self.body if piece]

    @property
    def has_words(self) -> bool:
        """Whether there is anything below the heading beside charts."""
        return bool(self.lead) or not all(isinstance(piece, Figures | Markup) for piece in self.pieces)

    @property
    def html(self) -> Markup:
        """What stands below the heading of a page."""
        return render("part.html", part=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What is printed. The first part is the answer: where there is no navigation, it stands below the title."""

    title: str
    over: str
    """What kind of document it is."""
    below: str
    """The question."""
    parts: Sequence[Part]
    """Those that are empty are left out."""
    sign: str = ""
    """Before the title where there are no colours."""
    outcome: str = ""
    """The title's colour on a terminal is that of it."""

    @property
    def sections(self) -> list[Part]:
        """Those of a page."""
        return [part for part in self.parts if part.lead or part.pieces]

    @property
    def body(self) -> Markup:
        """Its sections with their navigation."""
        return _clean(render("sections.html", sections=self.sections))

    @property
    def page(self) -> str:
        """A page of its own."""
        return framed("across.html", None, title=self.title, document=self, sections=self.sections)


def framed(template: str, data: Markup | None, **values: object) -> str:
    """One self-contained page: styles and script inside, nothing is loaded. `data`: what its charts read."""
    page = render(
        template,
        css=Markup(asset("uPlot.min.css") + "\n" + asset("report.css")),
        behaviour=Markup(asset("report.js")),
        licence=Markup("/*\n" + asset("uPlot.LICENSE") + "\n*/"),
        library=Markup(asset("uPlot.iife.min.js")),
        script=Markup(asset("charts.js") + "\n" + asset("telemetry.js")),
        data=data,
        **values,
    )
    return _clean(page)


def _clean(page: Markup) -> Markup:
    return Markup(_FORBIDDEN.sub("\ufffd", page))
