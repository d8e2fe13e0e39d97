"""The gate on a terminal, and as plain text in a pipe: answer, table, time that is needed, how it was tested, scope."""

from __future__ import annotations

import textwrap
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mydyno.reports.terminal import PLAIN_WIDTH, UNBROKEN, WIDEST, plain_text, prints_signs
from mydyno.verdicts.threshold import Outcome
from mydyno.visible import as_written, styled
from mydyno.wording.gate import TITLES, GateResult, answer, notes, rows
from mydyno.wording.verdict_table import flat

COLOURS = {Outcome.PASSED: "green", Outcome.WORSE: "red", Outcome.FAILED: "bold red", Outcome.UNDECIDED: "yellow"}


def print_gate(result: GateResult, file: TextIO, width: int | None = None) -> None:
    """Print the gate to a stream."""
    console = Console(file=styled(file), highlight=False, emoji=False, markup=False, width=width)
    if width is None:
        console.width = min(console.width, WIDEST) if console.is_terminal else PLAIN_WIDTH
    plain = not prints_signs(file)

    def say(text: str, style: str = "", indent: str = "") -> None:
        shown = as_written(console.file, plain_text(flat(text), plain)).replace(" %", UNBROKEN)
        for line in textwrap.wrap(shown, console.width, subsequent_indent=indent, break_long_words=False,
                                  break_on_hyphens=False):  # fmt: skip
            console.print(line.replace(UNBROKEN, " %"), style=style or None, soft_wrap=True)

    say(f"{TITLES[result.outcome]}. {answer(result)}", f"bold {COLOURS[result.outcome]}")
    if result.next_step:
        say(result.next_step)
    if result.builds:
        say(result.builds)
    console.print()
    _print_table(console, result, plain)
    for reason, where in _reasons(result).items():
        say(f"{where}: {reason}.", indent="  ")
    for note in notes(result):
        say(note, "dim")
    if result.scope:
        console.print()
        say(result.scope)


def _print_table(console: Console, result: GateResult, plain: bool) -> None:
    """A table for each step, all with the same columns."""
    found = list(zip(result.comparisons, rows(result), strict=True))
    headings = ("metric", "arm", "limit", "effect", "bounds", "result")
    of_step: dict[str, list[tuple[Text, ...]]] = {}
    for one, row in found:
        cells = (row.metric, row.arm, row.limit, row.effect or "-", row.bounds or "-", row.outcome)
        texts = [Text(plain_text(cell, plain)) for cell in cells]
        texts[-1].stylize(COLOURS[one.outcome])
        of_step.setdefault(row.step, []).append(tuple(texts))
    widths = [
        max(len(heading), *(len(texts[at].plain) for lines in of_step.values() for texts in lines))
        for at, heading in enumerate(headings)
    ]
    for step, lines in of_step.items():
        console.print(plain_text(step, plain), style="bold")
        made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for at, (heading, width) in enumerate(zip(headings, widths, strict=True)):
            is_name = at < 2
            made.add_column(
                heading,
                justify="right" if heading in ("limit", "effect", "bounds") else "left",
                overflow="fold",
                no_wrap=not is_name,
                min_width=min(width, 20) if is_name else width,
            )
        for line in lines:
            made.add_row(*line)
        console.print(made)
        console.print()


def _reasons(result: GateResult) -> dict[str, str]:
    """{reason: the comparisons it is of}, of those that are not in the answer already."""
    found: dict[str, list[str]] = {}
    said = answer(result)
    for row in rows(result):
        is_said = row.reason in said or row.outcome == Outcome.FAILED
        if row.reason and not is_said and not result.obstacle:
            found.setdefault(row.reason, []).append(f"{row.metric} of {row.arm} at {row.step}")
    return {reason: ", ".join(where) for reason, where in found.items()}
