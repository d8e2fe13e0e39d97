"""The answer on a terminal, and as plain text in a pipe: sentences, table, what would improve it, scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from mydyno.document.console import Paper
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table
from mydyno.evaluation.answer import answer_of
from mydyno.store.study_folder import StudyFolder
from mydyno.wording import unsampled
from mydyno.wording.claims import claims, counted
from mydyno.wording.hosts import one_line
from mydyno.wording.server_settings import settings_compared
from mydyno.wording.verdict_table import WORDS, VerdictCell, VerdictTable, flat, verdict_table

NO_BREAK = "\u00a0"


def print_answer(folder: StudyFolder, file: TextIO, width: int | None = None) -> None:
    """Print a study's answer to a stream. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    paper = Paper(file, width)
    found = answer_of(result)
    paper.say(result.summary.question or result.study.experiment.question, style="bold")
    paper.say(settings_compared(result), style="dim")
    for sentence in found.answer:
        paper.say(sentence, "  ")
    if (table := verdict_table(result)) is not None:
        for one in _tables(table, paper.console.width):
            paper.console.print()
            paper.table(one)
        paper.console.print()
        for note in filter(None, (f"{table.caption}: {_signs(table)}.", *table.notes, table.unadjusted)):
            paper.say(note, style="dim")
    compared = [] if result.before_first_look else claims(result)
    studies = ", ".join(dict.fromkeys(one.study for one in compared))
    answers = counted(one.answer for one in compared)
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import lines_of

    for lines in (
        [f"Claims of {studies}, compared in the report: {answers}."] if compared else [],
        lines_of(result),
        unsampled.lines(result),
        found.sharpen,
    ):
        paper.paragraph(lines)
    paper.paragraph([*filter(None, (one_line(result.summary), found.scope))], bullet="")


def _tables(table: VerdictTable, width: int) -> Iterator[Table]:
    for grid in table.grids:
        compared = [cell for _, cells in grid.rows for cell in cells if cell is not None]
        levels = max(sum(len(level) + 2 for level in row) for row, _ in grid.rows)
        layout = _layout(compared, width - levels, len(grid.columns))
        rows: list[Sequence[str | Cell]] = [
            (*levels, *(f"control {grid.control}" if cell is None else layout(cell) for cell in cells))
            for levels, cells in grid.rows
        ]
        yield Table("", (*grid.row_factors, *grid.columns), [(grid.caption,), *rows])
    if table.steps:
        compared = [cell for step in table.steps for _, row in step.rows for cell in row]
        names = max(len(name) for step in table.steps for name, _ in step.rows)
        layout = _layout(compared, width - names, len(table.columns))
        rows = []
        for step in table.steps:
            rows.append([step.heading])
            for name, cells in step.rows:
                rows.append([name, *map(layout, cells)])
        yield Table("", ("arm", *table.columns), rows)


def _one_line(cell: VerdictCell) -> Cell:
    """Sign, effect, interval and verdict."""
    interval = f"({cell.interval})" if cell.interval else ""
    return Cell(" ".join(filter(None, (cell.symbol, cell.effect, interval, cell.verdict))), cell.css)


def _compact(cell: VerdictCell) -> Cell:
    """Without the verdict's word, which its sign stands for."""
    interval = f"[{flat(cell.interval).replace(' … ', ' ').removesuffix(' %')}]" if cell.interval else ""
    return Cell(" ".join(filter(None, (cell.symbol, cell.effect, interval))), cell.css)


def _two_lines(cell: VerdictCell) -> Cell:
    """The interval below sign and effect."""
    return Cell(
        " ".join(filter(None, (cell.symbol, cell.effect))), cell.css,
        below=f"  {cell.interval}" if cell.interval else "",
    )  # fmt: skip


Layout = Callable[[VerdictCell], Cell]
LAYOUTS: tuple[Layout, ...] = (_one_line, _compact, _two_lines)
"""The first that fits is printed."""


def _layout(cells: Sequence[VerdictCell], room: int, columns: int) -> Layout:
    def widest(layout: Layout) -> int:
        return max(len(line) for cell in map(layout, cells) for line in (cell.text, cell.below))

    return next((one for one in LAYOUTS if (widest(one) + 2) * columns <= room), LAYOUTS[-1])


def _signs(table: VerdictTable) -> str:
    """What the table's signs stand for."""
    cells = [cell for step in table.steps for _, row in step.rows for cell in row]
    cells += [cell for grid in table.grids for _, row in grid.rows for cell in row if cell is not None]
    used = dict.fromkeys((cell.symbol, WORDS[cell.word]) for cell in cells if cell.symbol)
    return ", ".join(f"{symbol}{NO_BREAK}{word}" for symbol, word in used)
