"""A bisection on a terminal, and as plain text in a pipe."""

from __future__ import annotations

from typing import TextIO

from mydyno.document.section import Table
from mydyno.model.stored.bisection import BisectRecord, BisectResult
from mydyno.reports.across.console import Paper
from mydyno.wording import bisection as words


def print_bisection(record: BisectRecord, result: BisectResult, file: TextIO, width: int | None = None) -> None:
    """Print answer, path and notes."""
    paper = Paper(file, width)
    first, *rest = words.answer(record, result)
    paper.say(first, style="bold")
    for sentence in rest:
        if sentence == words.go_on(result):
            paper.console.print(f"  {sentence}", soft_wrap=True)
        else:
            paper.say(sentence)
    paper.console.print()
    paper.table(Table(*words.path(result)))
    for line in words.reasons(result):
        paper.say(line, after="  ")
    paper.console.print()
    for note in words.notes(record, result):
        paper.say(note, style="dim")
