"""A history on a terminal and as Markdown: the answer, a row for each series with its course, what was left out."""

from __future__ import annotations

from functools import partial
from typing import TextIO

from mydyno.document.markdown_text import fitted
from mydyno.language import agreed
from mydyno.model.stored.history import History
from mydyno.reports.across import history_tables
from mydyno.reports.across.console import Paper
from mydyno.reports.across.markdown import markdown_list, markdown_table
from mydyno.wording.verdict_table import flat

MOST_DETAILED = 2
"""Series of which every study is printed; of more `--arm` and `--step` choose."""


def print_history(history: History, file: TextIO, width: int | None = None) -> None:
    """Print a history."""
    paper = Paper(file, width)
    paper.say(title(history), style="bold")
    for sentence in history.answer:
        paper.say(sentence, "  ", "  ")
    if history.series:
        sparks = history_tables.DIGITS if paper.plain else history_tables.SPARKS
        paper.console.print()
        paper.table(history_tables.series_table(history, partial(history_tables.spark, sparks)))
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


def history_markdown(history: History) -> str:
    """A history as Markdown."""
    parts = [f"# {title(history)}", *history.answer]
    if history.series:
        course = partial(history_tables.spark, history_tables.SPARKS)
        parts.append(markdown_table(history_tables.series_table(history, course)))
    for one in history.series:
        parts.append(markdown_table(history_tables.points_table(history, one, with_changed=True)))
    if history.left_out:
        parts += ["## Left out", markdown_list(history_tables.left_out_lines(history))]
    return fitted([("", flat("\n\n".join(parts)))], (), "`--format html`")


def title(history: History) -> str:
    """The experiment, the host and the number of studies."""
    studies = agreed(f"{len(history.studies)} studies")
    return f"{history.experiment} on {history.host}: {studies}"
