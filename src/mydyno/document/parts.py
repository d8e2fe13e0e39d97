"""A document of parts, made once: printed on a terminal or as Markdown (`printers`), or a page of HTML; and pieces of
markup that parts share: tables, legends, figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from mydyno.document.drawing import GLYPHS, ArmStyle, marker
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.visible import visible, visible_value
from mydyno.wording import numbers

if TYPE_CHECKING:
    from jinja2 import Environment


LONGEST_UNBROKEN = 24
"""Characters of a name that no line is broken in; a phone has room for some 36."""
LONGEST_TITLE = 70
"""Characters of a sentence that is a part's title."""
_INTERVAL = re.compile(r" \((?![^()]* or )[^()]*\d[^()]*\)")
_HEADING = re.compile(r"(</?h)3\b")
_HYPHENATED = re.compile(r"(?<![\w.-])([\w.]+(?:-[\w.]*\w)+)(?![\w-])")
_COMMAND = re.compile(r"(`[^`]+`|mydyno resume [^ ]+(?: --time \w+)?|--blocks \d+)")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell. `css` aligns or marks it; `mark` is Markup before the text (a plain string is escaped)."""

    text: str
    css: str = ""
    mark: str = ""
    below: str = ""
    """A second, smaller line."""
    sign: str = ""
    """Before the text where there are no colours."""
    drawn: Markup | None = None
    """In place of the text where there are pictures."""
    symbol: str = ""
    """A verdict's sign, before the text: neither colour nor position is needed to read it."""
    word: str = ""
    """A verdict, after the text."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption. The first column has row headings; a row of one cell is the heading of those below."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    sortable: bool = False
    """Whether a click on a heading sorts the rows."""
    most: int | None = None
    """Rows that a terminal has room for; of more, it has the number."""
    compact: bool = False
    """Whether a narrow terminal has the verdicts' signs alone, which a note explains."""
    heads: int = 1
    """Columns of row headings."""

    look: str = ""
    """facts: long values are wrapped."""

    @property
    def css(self) -> str:
        """Its class."""
        cells = (cell for row in self.rows for cell in row)
        is_judged = any(isinstance(cell, Cell) and "verdict" in cell.css for cell in cells)
        return self.look or ("verdicts across" if is_judged else "")


@dataclass(frozen=True, slots=True)
class Figure:
    """Charts of one thing (versions for wide and narrow pages among them) with the table that says the same."""

    charts: Sequence[str]
    """SVG."""
    table: Table | None = None
    caption: str = ""
    css: str = ""
    numbers_open: bool = False
    """Whether the table stands below the charts, not in a fold."""


@dataclass(frozen=True, slots=True)
class FigureGroup:
    """Figures under a common heading; `folded` ones open on demand."""

    heading: str
    figures: Sequence[Figure]
    folded: bool = False
    text: str = ""

    @property
    def stands_beside(self) -> bool:
        """Whether a wide page has the group beside its neighbour: it is one chart of part of the width."""
        return len(self.figures) == 1 and not self.figures[0].css.startswith("full") and not self.folded


@cache
def templates() -> Environment:
    """The templates' environment: everything is escaped, and an unknown name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # takes long to load

    folder = Path(__file__).parent / "templates"
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=visible_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = numbers.percent
    environment.filters["sentence"] = sentence_markup
    environment.filters["deeper"] = lambda part: Markup(_HEADING.sub(r"\g<1>4", str(part)))
    environment.globals.update(agreed=agreed)
    return environment


def sentence_markup(text: str) -> Markup:
    """A sentence with commands as code, whose percentages and names do not break across lines; markup as it is."""
    if isinstance(text, Markup):
        return text
    parts = _COMMAND.split(visible(text).replace(" %", "\u00a0%"))
    return Markup("").join(Markup("<code>{}</code>").format(part.strip("`")) if index % 2 else _unbroken_names(part)
                           for index, part in enumerate(parts))  # fmt: skip


def _unbroken_names(text: str) -> Markup:
    """The text with short words of several parts, such as arms' names, kept on one line."""
    parts = _HYPHENATED.split(text)
    return Markup("").join(Markup('<span class="unbroken">{}</span>').format(part)
                           if index % 2 and len(part) <= LONGEST_UNBROKEN else part
                           for index, part in enumerate(parts))  # fmt: skip


def render(template: str, **values: Any) -> Markup:
    """One template with these values, as markup."""
    return Markup(templates().get_template(template).render(**values))


def legend(result: StudyResult, with_copy: bool) -> Markup:
    """The arms' markers and names, as a list."""
    styles = [style for style in result.lane_styles.values() if with_copy or not style.copy]
    return render("legend.html", entries=[(style.css, swatch(style), style.label) for style in styles])


def glyph(style: ArmStyle) -> Markup:
    """An arm's marker as a character in its colour: for tables, where a picture in every row would be heavy."""
    return Markup('<span class="glyph {}" aria-hidden="true">{}</span> ').format(style.css, GLYPHS[style.shape])


def swatch(style: ArmStyle) -> Markup:
    """An arm's line and marker, as large as a letter."""
    dash = Markup(' stroke-dasharray="{}"').format(style.dash) if style.dash else Markup("")
    line = Markup('<path class="line" d="M1 7H31"{}/>').format(dash)
    point = Markup('<path class="{}" d="{}"/>').format("ring" if style.copy else "mark", marker(style.shape, 16, 7, 4))
    return Markup('<svg class="swatch {}" viewBox="0 0 32 14" aria-hidden="true">{}{}</svg>').format(
        style.css, line, point
    )


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
    """One line on what was found, beside the heading of a part that is folded; else `finding` is made of it."""
    lead: Sequence[str] = ()
    body: Sequence[Piece | None] = ()

    @property
    def pieces(self) -> list[Piece]:
        """The body without what is empty."""
        return [piece for piece in self.body if piece]

    @property
    def finding(self) -> str:
        """The first sentence of `says` as a title, without its interval; empty where that is too long for one."""
        first = _INTERVAL.sub("", self.says).partition(". ")[0].removesuffix(".")
        return first if len(first) <= LONGEST_TITLE else ""

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
