"""Documents, text and tables as GitHub-flavoured Markdown; text is escaped, so that it cannot become markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from mydyno.document.parts import Document, Figures, Fold, Listed, Note, Part, Piece
from mydyno.document.section import Cell, Table
from mydyno.wording.verdicts import flat

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
