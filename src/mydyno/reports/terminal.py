"""The answer on a terminal, and as plain text in a pipe: sentences, table, what would improve it, scope.

The width is the terminal's, 80 columns where there is none. A stream that cannot print the verdicts' signs gets plain
letters for them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.store.study_folder import StudyFolder
from mydyno.visible import as_written, styled, visible
from mydyno.wording import unsampled
from mydyno.wording.claims import claims, counted
from mydyno.wording.hosts import one_line
from mydyno.wording.server_settings import settings_compared
from mydyno.wording.verdict_table import SYMBOLS, WORDS, Grid, VerdictCell, VerdictTable, flat, verdict_table

PLAIN_WIDTH = 80
WIDEST = 100
NO_BREAK = "\u00a0"
UNBROKEN = f"{NO_BREAK}%"
"""A percent sign that is not parted from its number."""
COLOURS = {"better": "green", "worse": "red", "same": "blue", "neutral": "blue", "failed": "bold red"}
ASCII = str.maketrans(
    {
        "▲": "^", "▼": "v", "≈": "~", "∅": "0", "✕": "x", "±": "+/-", "−": "-", "…": "..", "×": "x", "µ": "u",
        "–": "-", "\u202f": " ", "\u00a0": " ", "’": "'", "→": "->", "′": "'",
    }
)  # fmt: skip


def print_answer(folder: StudyFolder, file: TextIO, width: int | None = None) -> None:
    """Print a study's answer to a stream. Raises UserError if the study folder is damaged."""

    result = StudyResult.load(folder)
    console = Console(file=styled(file), highlight=False, emoji=False, markup=False, width=width)
    if width is None:
        console.width = min(console.width, WIDEST) if console.is_terminal else PLAIN_WIDTH
    plain = not prints_signs(file)
    found = answer_of(result)

    def say(text: str, indent: str = "", after: str = "", style: str = "") -> None:
        shown = as_written(console.file, plain_text(flat(text), plain)).replace(" %", UNBROKEN)
        for line in textwrap.wrap(
            shown, console.width, initial_indent=indent, subsequent_indent=after or indent,
            break_long_words=False, break_on_hyphens=False,
        ):  # fmt: skip
            console.print(line.replace(UNBROKEN, " %"), style=style or None, soft_wrap=True)

    say(result.summary.question or result.study.experiment.question, style="bold")
    say(settings_compared(result), style="dim")
    for sentence in found.answer:
        say(sentence, "  ", "  ")
    table = verdict_table(result)
    if table is not None:
        console.print()
        _print_table(console, table, plain)
    compared = [] if result.before_first_look else claims(result)
    if compared:
        console.print()
        studies = ", ".join(dict.fromkeys(one.study for one in compared))
        answers = counted(one.answer for one in compared)
        say(f"Claims of {studies}, compared in the report: {answers}.", "- ", "  ")
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import lines_of

    for lines in (lines_of(result), unsampled.lines(result)):
        if lines:
            console.print()
        for line in lines:
            say(line, "- ", "  ")
    if found.sharpen:
        console.print()
        for line in found.sharpen:
            say(line, "- ", "  ")
    hosts = one_line(result.summary)
    if found.scope or hosts:
        console.print()
    if hosts:
        say(hosts)
    if found.scope:
        say(found.scope)


def prints_signs(file: TextIO) -> bool:
    """Whether a stream can print the verdicts' signs."""
    try:
        "".join(SYMBOLS.values()).encode(getattr(file, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain_text(text: str, plain: bool) -> str:
    """The text without control characters, and in ASCII if `plain`."""
    text = visible(text)
    if not plain:
        return text
    return text.translate(ASCII).encode("ascii", "replace").decode()


def _print_table(console: Console, table: VerdictTable, plain: bool) -> None:

    for grid in table.grids:
        _print_grid(console, grid, plain)
    if table.steps:
        _print_steps(console, table, plain)
    for note in filter(None, (f"{table.caption}: {_signs(table)}.", *table.notes, table.unadjusted)):
        for line in textwrap.wrap(plain_text(flat(note), plain).replace(" %", UNBROKEN), console.width):
            console.print(line.replace(NO_BREAK, " "), style="dim")


def _print_steps(console: Console, table: VerdictTable, plain: bool) -> None:
    """The steps' tables with the same columns, each under its heading."""
    cells = [cell for step in table.steps for _, row in step.rows for cell in row]
    names = max(len(name) for step in table.steps for name, _ in step.rows)
    lines = _layout(cells, console.width - names, len(table.columns))
    width = _width(cells, lines)
    for step in table.steps:
        console.print(plain_text(step.heading, plain), style="bold")
        made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        made.add_column("arm", min_width=min(names, 24), overflow="fold")
        for column in table.columns:
            made.add_column(column, min_width=min(width, 34), overflow="fold")
        for name, row in step.rows:
            made.add_row(Text(plain_text(name, plain)), *(_text(cell, plain, lines) for cell in row))
        console.print(made)
        console.print()


def _print_grid(console: Console, grid: Grid, plain: bool) -> None:

    console.print(plain_text(flat(grid.caption), plain), style="bold")
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in (*grid.row_factors, *grid.columns):
        made.add_column(plain_text(heading, plain), overflow="fold")
    compared = [cell for _, cells in grid.rows for cell in cells if cell is not None]
    levels = max(sum(len(level) + 2 for level in row) for row, _ in grid.rows)
    lines = _layout(compared, console.width - levels, len(grid.columns))
    control = Text(plain_text(flat(f"control {grid.control}"), plain), style="dim")
    for row, cells in grid.rows:
        made.add_row(
            *(Text(plain_text(level, plain)) for level in row),
            *(control if cell is None else _text(cell, plain, lines) for cell in cells),
        )
    console.print(made)
    console.print()


def _one_line(cell: VerdictCell) -> list[str]:
    """Sign, effect, interval and verdict."""
    interval = f"({cell.interval})" if cell.interval else ""
    return [flat(" ".join(filter(None, (cell.symbol, cell.effect, interval, cell.verdict))))]


def _compact(cell: VerdictCell) -> list[str]:
    """Without the verdict's word, which its sign stands for."""
    interval = f"[{flat(cell.interval).replace(' … ', ' ').removesuffix(' %')}]" if cell.interval else ""
    return [flat(" ".join(filter(None, (cell.symbol, cell.effect, interval))))]


def _two_lines(cell: VerdictCell) -> list[str]:
    """The interval below sign and effect."""
    first = flat(" ".join(filter(None, (cell.symbol, cell.effect))))
    return [first, flat(f"  {cell.interval}")] if cell.interval else [first]


Layout = Callable[[VerdictCell], list[str]]
LAYOUTS: tuple[Layout, ...] = (_one_line, _compact, _two_lines)
"""The first that fits is printed."""


def _layout(cells: Sequence[VerdictCell], room: int, columns: int) -> Layout:
    return next((one for one in LAYOUTS if (_width(cells, one) + 2) * columns <= room), LAYOUTS[-1])


def _width(cells: Sequence[VerdictCell], layout: Layout) -> int:
    return max(len(line) for cell in cells for line in layout(cell))


def _signs(table: VerdictTable) -> str:
    """What the table's signs stand for."""
    cells = [cell for step in table.steps for _, row in step.rows for cell in row]
    cells += [cell for grid in table.grids for _, row in grid.rows for cell in row if cell is not None]
    used = dict.fromkeys((cell.symbol, WORDS[cell.word]) for cell in cells if cell.symbol)
    return ", ".join(f"{symbol}{NO_BREAK}{word}" for symbol, word in used)


def _text(cell: VerdictCell, plain: bool, layout: Layout) -> Text:
    return Text(plain_text("\n".join(layout(cell)), plain), style=COLOURS.get(cell.css, ""))
