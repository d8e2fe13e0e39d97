"""Sentences and tables on a terminal, and as plain text in a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mydyno.document.section import Cell, Table
from mydyno.reports.terminal import COLOURS, PLAIN_WIDTH, plain_text, prints_signs
from mydyno.visible import styled
from mydyno.wording.verdict_table import flat

WIDEST = 120
SHORT = 20
"""Letters of figures that are kept on one line."""


class Paper:
    """Where a comparison or a history is printed; 80 columns where there is no terminal."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        self.console = Console(file=styled(file), highlight=False, emoji=False, markup=False, width=width)
        if width is None:
            self.console.width = min(self.console.width, WIDEST) if self.console.is_terminal else PLAIN_WIDTH
        self.plain = not prints_signs(file)

    def say(self, text: str, indent: str = "", after: str = "", style: str = "") -> None:
        """One sentence, wrapped."""
        shown = plain_text(flat(text), self.plain).replace(" %", "\u00a0%")
        for line in wrapped(shown, self.console.width, indent, after or indent):
            self.console.print(line.replace("\u00a0%", " %"), style=style or None, soft_wrap=True)

    def heading(self, text: str) -> None:
        """A heading after an empty line."""
        self.console.print()
        self.say(text, style="bold")

    def bullets(self, lines: Sequence[str]) -> None:
        """Sentences as a list."""
        for line in lines:
            self.say(line, "- ", "  ")

    def table(self, table: Table, caption: bool = True) -> None:
        """A table; a row of one cell is a heading of those below."""
        if caption:
            self.say(table.caption, style="dim")
        made = self._new(table)
        pending = False
        for row in table.rows:
            if len(row) == 1:
                if pending:
                    self.console.print(made)
                self.say(str(row[0]), style="bold")
                made, pending = self._new(table), False
                continue
            made.add_row(*(self._text(cell) for cell in row))
            pending = True
        if pending:
            self.console.print(made)
        if table.note:
            self.say(table.note, style="dim")

    def _new(self, table: Table) -> RichTable:
        made = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for place, heading in enumerate(table.head):
            cells = [row[place] for row in table.rows if len(row) > 1]
            figures = [cell for cell in cells if isinstance(cell, Cell) and "num" in cell.css]
            whole = bool(figures) and max(len(line) for cell in figures for line in (cell.text, cell.below)) <= SHORT
            made.add_column(plain_text(flat(heading), self.plain), overflow="fold", no_wrap=whole)
        return made

    def _text(self, cell: str | Cell) -> Text:
        if isinstance(cell, str):
            return Text(plain_text(flat(cell), self.plain))
        lines = [cell.text, *([cell.below] if cell.below else [])]
        colour = next((COLOURS[name] for name in cell.css.split() if name in COLOURS), "")
        return Text(plain_text(flat("\n".join(lines)), self.plain), style=colour)


def wrapped(text: str, width: int, first: str, after: str) -> list[str]:
    """The text in lines of at most `width` columns, with these indents."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=after, break_long_words=False, break_on_hyphens=False
    )
