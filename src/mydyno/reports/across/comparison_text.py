"""A comparison on a terminal and as Markdown: the answer, the effects side by side, what differs, what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from mydyno.model.comparison import ArmComparison, Comparison, SettingGroup
from mydyno.reports.across import tables
from mydyno.reports.across.console import Paper
from mydyno.reports.sections.section import Cell, Table
from mydyno.reports.verdict_table import flat
from mydyno.results.across.words import indirect_words

CONCLUSIONS = "What may be concluded"
NOISE = "Noise: two copies of the control"
SETTINGS = "Settings that differ"
MOST_ROWS = 16
"""Rows of a group of settings on a terminal."""


def print_comparison(comparison: Comparison, file: TextIO, width: int | None = None) -> None:
    """Print a comparison of studies."""
    paper = Paper(file, width)
    paper.say(title(comparison), style="bold")
    for sentence in comparison.answer:
        paper.say(sentence, "  ", "  ")
    table = tables.effects_table(comparison, judged=True)
    if table is not None:
        paper.console.print()
        paper.table(table)
    if comparison.indirect:
        paper.heading("Arms over the common control (exploratory)")
        paper.bullets([indirect_words(comparison, one) for one in comparison.indirect])
    paper.heading("The studies")
    for one in comparison.studies:
        paper.say(f"{one.label}  {one.study}: {one.question}", "", "   ")
        where = f"{tables.when(one.created_unix_ns)} UTC, {one.server}, {one.host}, {one.blocks} blocks, {one.state}"
        paper.say(where, "   ", "   ", "dim")
        for sentence in (*one.answer, *(f"Note: {note}." for note in one.notes)):
            paper.say(sentence, "   ", "   ")
    _print_settings(paper, comparison.settings, [one.label for one in comparison.studies])
    for heading, found in (
        (NOISE, tables.noise_table(comparison.studies, comparison.steps)),
        ("How far the sessions are apart", tables.levels_table(comparison)),
    ):
        if found is not None:
            paper.heading(heading)
            paper.table(found)
    if comparison.conclusions:
        paper.heading(CONCLUSIONS)
        paper.bullets(comparison.conclusions)
    if comparison.not_compared:
        paper.heading("Not compared")
        paper.bullets([f"{one.what}: {one.reason}" for one in comparison.not_compared])


def print_arms(comparison: ArmComparison, file: TextIO, width: int | None = None) -> None:
    """Print a comparison of arms."""
    paper = Paper(file, width)
    paper.say(arms_title(comparison), style="bold")
    for sentence in comparison.answer:
        paper.say(sentence, "  ", "  ")
    paper.console.print()
    paper.table(tables.arms_table(comparison))
    _print_settings(paper, comparison.settings, comparison.arms)
    noise = tables.noise_table([comparison.study], comparison.steps)
    if noise is not None:
        paper.heading(NOISE)
        paper.table(noise)
    paper.heading(CONCLUSIONS)
    paper.bullets(comparison.conclusions)


def title(comparison: Comparison) -> str:
    """The experiment, or experiments, and how many studies."""
    experiments = dict.fromkeys(one.experiment for one in comparison.studies)
    return f"{' and '.join(experiments)}: {len(comparison.studies)} studies side by side"


def arms_title(comparison: ArmComparison) -> str:
    """The arms and their study."""
    return f"{', '.join(comparison.arms[1:])} against {comparison.arms[0]} in {comparison.study.study}"


def comparison_markdown(comparison: Comparison) -> str:
    """A comparison of studies as Markdown."""
    parts = [f"# {title(comparison)}", *comparison.answer]
    table = tables.effects_table(comparison, judged=True)
    parts += [markdown_table(table)] if table else []
    if comparison.indirect:
        parts += ["## Arms over the common control (exploratory)"]
        parts += [_list([indirect_words(comparison, one) for one in comparison.indirect])]
    parts += ["## The studies", markdown_table(tables.studies_table(comparison.studies))]
    parts += [_list([f"{one.label}: {one.question} {' '.join(one.answer)}" for one in comparison.studies])]
    parts += _settings(comparison.settings, [one.label for one in comparison.studies])
    noise, levels = tables.noise_table(comparison.studies, comparison.steps), tables.levels_table(comparison)
    parts += [f"## {NOISE}", markdown_table(noise)] if noise else []
    parts += ["## How far the sessions are apart", markdown_table(levels)] if levels else []
    parts += [f"## {CONCLUSIONS}", _list(comparison.conclusions)] if comparison.conclusions else []
    if comparison.not_compared:
        parts += ["## Not compared", _list([f"{one.what}: {one.reason}" for one in comparison.not_compared])]
    return flat("\n\n".join(parts)) + "\n"


def arms_markdown(comparison: ArmComparison) -> str:
    """A comparison of arms as Markdown."""
    parts = [f"# {arms_title(comparison)}", *comparison.answer, markdown_table(tables.arms_table(comparison))]
    parts += _settings(comparison.settings, comparison.arms)
    noise = tables.noise_table([comparison.study], comparison.steps)
    parts += [f"## {NOISE}", markdown_table(noise)] if noise else []
    parts += [f"## {CONCLUSIONS}", _list(comparison.conclusions)]
    return flat("\n\n".join(parts)) + "\n"


def markdown_table(table: Table) -> str:
    """A table of pipes under its caption."""
    width = len(table.head)
    lines = [f"{table.caption}:", "", _row(table.head), _row(["---"] * width)]
    for row in table.rows:
        cells = [f"**{row[0]}**", *[""] * (width - 1)] if len(row) == 1 else [_cell(cell) for cell in row]
        lines.append(_row(cells))
    return "\n".join(lines)


def equal_words(groups: Sequence[SettingGroup]) -> str:
    """How many settings are equal: "61 settings are equal (experiment 9, server 4, …)"."""
    equal = [(group.name, len(group.equal)) for group in groups if group.equal]
    return f"{sum(count for _, count in equal)} settings are equal ({', '.join(f'{n} {count}' for n, count in equal)})."


def _print_settings(paper: Paper, groups: Sequence[SettingGroup], labels: Sequence[str]) -> None:
    found = tables.settings_tables(groups, labels, differing=True)
    paper.heading(SETTINGS if found else "No recorded setting differs")
    for table in found:
        if len(table.rows) > MOST_ROWS:
            paper.say(f"{table.caption}: {len(table.rows)} differ; --format html and json list them", style="dim")
        else:
            paper.table(table)
    paper.say(equal_words(groups), style="dim")


def _settings(groups: Sequence[SettingGroup], labels: Sequence[str]) -> list[str]:
    found = tables.settings_tables(groups, labels, differing=True)
    return [f"## {SETTINGS}" if found else "## No recorded setting differs", *map(markdown_table, found),
            equal_words(groups)]  # fmt: skip


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell.text} ({cell.below})" if cell.below else cell.text
