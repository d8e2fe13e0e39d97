"""The answer on a terminal, and as plain text in a pipe: sentences, table, scope, what would improve it."""

from __future__ import annotations

from typing import TextIO

from mydyno.document.console import Paper
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.reports.verdicts import verdicts_of
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.hosts import one_line
from mydyno.wording.reasons import unsampled

NO_BREAK = "\u00a0"


def print_answer(folder: StudyFolder, file: TextIO, width: int | None = None) -> None:
    """Print a study's answer to a stream. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    paper = Paper(file, width)
    found = answer_of(result)
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import lines_of
    from mydyno.reports.sections.noise import noise_in_one_line  # the same

    paper.say(result.summary.question or result.study.experiment.question, style="bold")
    for sentence in found.answer:
        paper.say(sentence, "  ")
    if (verdicts := verdicts_of(result)) is not None:
        for one in verdicts.tables:
            paper.console.print()
            paper.table(one)
        paper.console.print()
        signs = ", ".join(dict.fromkeys(f"{sign}{NO_BREAK}{word}" for sign, word, _ in verdicts.signs))
        noise = noise_in_one_line(result)
        noise = noise and f"{noise[0].upper()}{noise[1:]}."
        notes = (f"{verdicts.caption}: {signs}.", *verdicts.notes, noise, verdicts.unadjusted)
        for note in filter(None, notes):
            paper.say(note, style="dim")
    for lines in (lines_of(result), unsampled(result.runs)):
        paper.paragraph(lines)
    paper.paragraph([*filter(None, (one_line(result.summary), found.scope))], bullet="")
    paper.paragraph(found.sharpen)
