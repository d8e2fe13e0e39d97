"""Documents, sentences and tables on a terminal, as plain text in a pipe, and as GitHub-flavoured Markdown.

The width is the terminal's, 80 columns where there is none. A stream that cannot print the verdicts' signs gets plain
letters for them. In Markdown, text is escaped, so that it cannot become markup.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from markupsafe import Markup
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mydyno.document.parts import Cell, Document, Figures, Fold, Listed, Note, Part, Piece, Table
from mydyno.visible import as_written, styled, visible
from mydyno.wording.verdicts import SYMBOLS, flat

Form = Callable[[Cell], str]
"""How a cell is printed."""
PLAIN_WIDTH = 80
WIDEST = 120
WIDEST_TEXT = 100
SHORT = 20
"""Letters of figures that are kept on one line."""
UNBROKEN = "\u00a0%"
"""A percent sign that is not parted from its number."""
COLOURS = {
    "better": "green", "worse": "red", "same": "blue", "neutral": "blue", "failed": "bold red", "passed": "green",
    "undecided": "yellow",
}  # fmt: skip
ASCII = str.maketrans(
    {
        "▲": "^", "▼": "v", "≈": "~", "∅": "0", "✕": "x", "±": "+/-", "−": "-", "…": "..", "×": "x", "µ": "u",
        "–": "-", "\u202f": " ", "\u00a0": " ", "’": "'", "→": "->", "′": "'",
        **{spark: str(height) for height, spark in enumerate("▁▂▃▄▅▆▇█", 1)},
    }
)  # fmt: skip


class Paper:
    """Where answers and documents are printed."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        self.console = Console(file=styled(file), highlight=False, emoji=False, markup=False, width=width)
        if width is None:
            self.console.width = min(self.console.width, WIDEST) if self.console.is_terminal else PLAIN_WIDTH
        try:
            "".join(SYMBOLS.values()).encode(getattr(file, "encoding", None) or "utf-8")
            self.plain = False
        except (UnicodeEncodeError, LookupError):
            self.plain = True

    def text(self, text: str) -> str:
        """The text without control characters, and in ASCII where the stream has no signs."""
        text = visible(flat(text))
        return text.translate(ASCII).encode("ascii", "replace").decode() if self.plain else text

    def say(self, text: str, indent: str = "", after: str = "", style: str = "") -> None:
        """One sentence, wrapped."""
        shown = as_written(self.console.file, self.text(text)).replace(" %", UNBROKEN)
        for line in textwrap.wrap(
            shown, min(self.console.width, WIDEST_TEXT), initial_indent=indent, subsequent_indent=after or indent,
            break_long_words=False, break_on_hyphens=False,
        ):  # fmt: skip
            self.console.print(line.replace(UNBROKEN, " %"), style=style or None, soft_wrap=True)

    def paragraph(self, lines: Sequence[str], bullet: str = "- ") -> None:
        """Sentences as a list, after an empty line; nothing without any."""
        if lines:
            self.console.print()
        for line in lines:
            self.say(line, bullet, " " * len(bullet))

    def document(self, document: Document) -> None:
        """All of it."""
        self.say(document.title, style=f"bold {COLOURS.get(document.outcome, '')}".strip())
        self.say(document.below, style="dim")
        for place, part in enumerate(one for one in document.parts if one.has_words):
            if place:
                self.console.print()
                self.say(part.heading, style="bold")
            self._part(part)

    def _part(self, part: Part) -> None:
        for sentence in part.lead:
            if sentence.startswith("`") and sentence.endswith("`"):
                self.console.print(f"  {self.text(sentence.strip('`'))}", soft_wrap=True)
            else:
                self.say(sentence, "  ")
        above: list[object] = list(part.lead)
        for piece in part.pieces:
            match piece:
                case Table():
                    if above:
                        self.console.print()
                    self.table(piece)
                case Listed():
                    if piece.heading or any(isinstance(one, Table) for one in above):
                        self.console.print()
                        self.say(piece.heading, style="bold")
                    for line in piece.lines:
                        self.say(line, "- ", "  ")
                case Note():
                    self.say(piece.text, style="dim" if piece.css == "note" else "")
                case str() if not isinstance(piece, Markup):
                    self.say(piece)
                case _:
                    continue
            above.append(piece)

    def table(self, table: Table) -> None:
        """A table; a row of one cell is a heading of those below, whose columns are as wide as those of the others."""
        self.say(table.caption, style="dim")
        count = sum(len(row) > 1 for row in table.rows)
        if table.most and count > table.most:
            self.say(f"{count} rows; --format html and json list them", style="dim")
            return
        forms = FORMS if table.compact else (_whole,)
        form = next((one for one in forms if self._fits(self._columns(table, one))), forms[-1])
        made = self._new(table, form)
        for row in table.rows:
            if len(row) > 1:
                made.add_row(*(self._cell(cell, form) for cell in row))
                continue
            if made.row_count:
                self.console.print(made)
            self.say(str(row[0]), style="bold")
            made = self._new(table, form)
        self.console.print(made)
        self.say(table.note, style="dim")

    def _columns(self, table: Table, form: Form) -> list[tuple[list[str], int]]:
        """(texts, width) of each."""
        rows = [row for row in (table.head, *table.rows) if len(row) == len(table.head)]
        columns = [[self._cell(cell, form).plain for cell in column] for column in zip(*rows, strict=True)]
        return [(texts, max(len(line) for text in texts for line in text.split("\n"))) for texts in columns]

    def _fits(self, columns: Sequence[tuple[list[str], int]]) -> bool:
        return sum(width + 2 for _, width in columns) <= self.console.width

    def _new(self, table: Table, form: Form) -> RichTable:
        made = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        columns = self._columns(table, form)
        fits = self._fits(columns)
        rows = [row for row in (table.head, *table.rows) if len(row) == len(table.head)]
        for cells, (lines, width) in zip(zip(*rows, strict=True), columns, strict=True):
            whole = width <= SHORT and any(isinstance(cell, Cell) and "num" in cell.css for cell in cells)
            is_right = whole and not any("\n" in text for text in lines)
            made.add_column(
                lines[0], justify="right" if is_right else "left", min_width=width if fits else None, no_wrap=whole,
                overflow="fold",
            )  # fmt: skip
        return made

    def _cell(self, cell: str | Cell, form: Form) -> Text:
        if isinstance(cell, str):
            return Text(self.text(cell))
        colour = next((COLOURS[name] for name in cell.css.split() if name in COLOURS), "")
        return Text(self.text(form(cell)), style=colour)


def _whole(cell: Cell) -> str:
    return "\n".join(filter(None, (_spaced(cell.symbol, cell.text, cell.word), cell.below)))


def _one_line(cell: Cell) -> str:
    return _spaced(cell.symbol, cell.text, cell.below and f"({cell.below})", cell.word)


def _with_signs(cell: Cell) -> str:
    """Without the verdict's word, which its sign stands for."""
    short = flat(cell.below).replace(" … ", " ").removesuffix(" %")
    return _spaced(cell.symbol, cell.text, short and f"[{short}]")


def _two_lines(cell: Cell) -> str:
    return "\n".join(filter(None, (_spaced(cell.symbol, cell.text), cell.below and f"  {cell.below}")))


def _spaced(*parts: str) -> str:
    return " ".join(filter(None, parts))


FORMS: tuple[Form, ...] = (_one_line, _with_signs, _two_lines)
"""Of a compact table, the first that fits."""


LONGEST = 65_000
"""Characters; a comment on GitHub has at most 65,536, and a bot may add its own."""


def escape(text: str) -> str:
    """Text that Markdown and HTML read as plain: one line, markup characters escaped."""
    line = re.sub(r"\s+", " ", text)
    for character in "\\`*_[]|#":
        line = line.replace(character, "\\" + character)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text that may stand between backquotes."""
    return " ".join(text.split()).replace("`", "'").replace("|", "¦")


def sentence(text: str) -> str:
    """A text in which what stands between backquotes is code; if that is all, a block of its own, to be copied."""
    parts = re.split(r"(`[^`]+`)", flat(text))
    if len(parts) == 3 and not parts[0] + parts[2]:
        return f"```sh\n{parts[1].strip('`')}\n```"
    return "".join(f"`{code(part.strip('`'))}`" if index % 2 else escape(part) for index, part in enumerate(parts))


def printed(document: Document, whole: str) -> str:
    """A document as a comment of a pull request; `whole` names what is complete where this is not."""
    title = " ".join(filter(None, ("##", document.sign, escape(document.title))))
    parts = (one for one in document.parts if one.has_words)
    return fitted([("", title), ("", escape(document.below)), *(("", text) for text in _texts(parts))], (), whole)


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for place, part in enumerate(parts):
        if place:
            yield f"### {escape(part.heading)}"
        first, *rest = [*map(sentence, part.lead), ""]
        yield f"**{first}**" if first else ""
        yield from rest
        yield from of_pieces(part.pieces)


def of_pieces(pieces: Iterable[Piece]) -> Iterator[str]:
    """What stands below a heading; of charts their tables."""
    for piece in pieces:
        match piece:
            case Table():
                yield of_table(piece)
            case Listed():
                yield f"#### {escape(piece.heading)}" if piece.heading else ""
                yield "\n".join(f"- {sentence(line)}" for line in piece.lines)
            case Note():
                yield sentence(piece.text)
            case Figures():
                tables = (figure.table for group in piece.groups for figure in group.figures)
                yield from map(of_table, filter(None, tables))
            case Fold():
                yield folded(piece.heading, of_pieces(piece.pieces))
            case str() if not isinstance(piece, Markup):
                yield sentence(piece)


def folded(heading: str, inside: Iterable[str]) -> str:
    """What opens on demand."""
    summary = html.escape(flat(heading), quote=False)  # an HTML block, in which backslashes are no escapes
    return "\n\n".join((f"<details><summary>{summary}</summary>", *filter(None, inside), "</details>"))


def of_table(table: Table) -> str:
    """A table under its caption; of what is in two lines, the second is in parentheses."""
    whole = next((row for row in table.rows if len(row) > 1), table.head)
    rules = ["--:" if isinstance(cell, Cell) and "num" in cell.css else "---" for cell in whole]
    rows = [
        [_cell(cell) for cell in row] if len(row) > 1 else [f"**{_cell(row[0])}**", *[""] * (len(table.head) - 1)]
        for row in table.rows
    ]
    lines = (f"| {' | '.join(row)} |" for row in (map(_cell, table.head), rules, *rows))
    caption = [f"{escape(table.caption)}:", ""] if table.caption else []
    return "\n".join([*caption, *lines, *(["", escape(table.note)] if table.note else [])])


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return escape(flat(cell))
    text = " ".join(filter(None, (cell.sign, cell.symbol, escape(flat(cell.text)), cell.word)))
    text = f"**{text}**" if "strong" in cell.css else text
    return f"{text} ({escape(flat(cell.below))})" if cell.below else text


def fitted(parts: Sequence[tuple[str, str]], optional: Sequence[str], whole: str) -> str:
    """(name, text) in order as one text of at most LONGEST characters; parts without text are nothing.

    Where it is longer, the parts that `optional` names are left out one by one, in that order, and what is left is cut
    after a line; the last line then names them and where the `whole` is.
    """
    left = [(name, text) for name, text in parts if text]
    text = _joined(left)
    if len(text) <= LONGEST:
        return text
    omitted = []
    for name in optional:
        if any(one == name for one, _ in left):
            left = [(one, text) for one, text in left if one != name]
            omitted.append(name)
        text = _joined([*left, _note(omitted, whole)])
        if len(text) <= LONGEST:
            return text
    note = _joined([_note([*omitted, "what follows here"], whole)])
    return _joined(left)[: LONGEST - len(note) - 1].rpartition("\n")[0].rstrip() + "\n\n" + note


def _note(omitted: Sequence[str], whole: str) -> tuple[str, str]:
    return "", (
        f"Omitted, because a comment on a pull request has at most 65,536 characters: {', '.join(omitted)}. "
        f"Complete: {whole}"
    )


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(text for _, text in parts) + "\n"
