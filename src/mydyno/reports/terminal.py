"""The answer on a terminal, and as plain text in a pipe: sentences, table, what would improve it, scope."""

from __future__ import annotations

from typing import TextIO

from mydyno.document.console import Paper
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.reports.verdicts import verdict_tables
from mydyno.store.study_folder import StudyFolder
from mydyno.wording import unsampled
from mydyno.wording.hosts import one_line
from mydyno.wording.verdict_table import WORDS, VerdictTable, verdict_table

NO_BREAK = "\u00a0"


def print_answer(folder: StudyFolder, file: TextIO, width: int | None = None) -> None:
    """Print a study's answer to a stream. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    paper = Paper(file, width)
    found = answer_of(result)
    paper.say(result.summary.question or result.study.experiment.question, style="bold")
    for sentence in found.answer:
        paper.say(sentence, "  ")
    if (table := verdict_table(result)) is not None:
        for one in verdict_tables(table, paper.console.width):
            paper.console.print()
            paper.table(one)
        paper.console.print()
        for note in filter(None, (f"{table.caption}: {_signs(table)}.", *table.notes, table.unadjusted)):
            paper.say(note, style="dim")
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import lines_of

    for lines in (lines_of(result), unsampled.lines(result), found.sharpen):
        paper.paragraph(lines)
    paper.paragraph([*filter(None, (one_line(result.summary), found.scope))], bullet="")


def _signs(table: VerdictTable) -> str:
    """What the table's signs stand for."""
    cells = [cell for step in table.steps for _, row in step.rows for cell in row]
    cells += [cell for grid in table.grids for _, row in grid.rows for cell in row if cell is not None]
    used = dict.fromkeys((cell.symbol, WORDS[cell.word]) for cell in cells if cell.symbol)
    return ", ".join(f"{symbol}{NO_BREAK}{word}" for symbol, word in used)
