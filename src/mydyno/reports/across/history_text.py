"""A history on a terminal: the answer, a row for each series with its course, what was left out."""

from __future__ import annotations

from typing import TextIO

from mydyno.model.history import Calibration, History
from mydyno.reports.across import history_tables
from mydyno.reports.across.console import Paper

MOST_DETAILED = 2
"""Series of which every study is printed; of more `--arm` and `--step` choose."""
CALIBRATION = "Calibration: two copies of the control, over all studies of this host"


def print_history(history: History, file: TextIO, width: int | None = None) -> None:
    """Print a history."""
    paper = Paper(file, width)
    paper.say(title(history), style="bold")
    for sentence in history.answer:
        paper.say(sentence, "  ", "  ")
    if history.series:
        sparks = history_tables.DIGITS if paper.plain else history_tables.SPARKS
        paper.console.print()
        paper.table(history_tables.series_table(history, sparks))
    if len(history.series) <= MOST_DETAILED:
        for one in history.series:
            paper.console.print()
            paper.table(history_tables.points_table(history, one, with_changed=False))
        changed = history_tables.changed_lines(history.series[0]) if history.series else []
        if changed:
            paper.heading("What changed from study to study")
            paper.bullets(changed)
    elif history.series:
        paper.say("--arm, --step and --metric select a series and print each study of it.", style="dim")
    if history.left_out:
        paper.heading("Left out")
        paper.bullets(history_tables.left_out_lines(history))
    paper.heading(CALIBRATION)
    for line in history_tables.calibration_lines(history.calibration):
        paper.say(line)


def print_calibration(calibration: Calibration, file: TextIO, width: int | None = None) -> None:
    """Print the calibration alone, with each study."""
    paper = Paper(file, width)
    paper.say(f"A/A calibration on {calibration.host}", style="bold")
    for line in history_tables.calibration_lines(calibration):
        paper.say(line, "  ", "  ")
    if calibration.contrasts:
        paper.console.print()
        paper.table(history_tables.calibration_table(calibration))


def title(history: History) -> str:
    """The experiment, the host and the number of studies."""
    count = len(history.studies)
    return f"{history.experiment} on {history.host}: {count} {'study' if count == 1 else 'studies'}"
