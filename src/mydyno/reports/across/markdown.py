"""Tables and lists as GitHub-flavoured Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.document.section import Cell, Table


def markdown_table(table: Table) -> str:
    """A table of pipes under its caption."""
    width = len(table.head)
    lines = [f"{table.caption}:", "", _row(table.head), _row(["---"] * width)]
    for row in table.rows:
        cells = [f"**{row[0]}**", *[""] * (width - 1)] if len(row) == 1 else [_cell(cell) for cell in row]
        lines.append(_row(cells))
    return "\n".join(lines)


def markdown_list(lines: Sequence[str]) -> str:
    """Sentences as a list."""
    return "\n".join(f"- {line}" for line in lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell.text} ({cell.below})" if cell.below else cell.text
