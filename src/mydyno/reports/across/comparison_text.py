"""A comparison on a terminal and as Markdown: the answer, the effects, what differs, what follows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TextIO

from mydyno.document.markdown_text import fitted
from mydyno.language import agreed
from mydyno.model.stored.comparison import ArmComparison, ComparedStudy, Comparison, SettingGroup
from mydyno.reports.across import tables
from mydyno.reports.across.console import Paper
from mydyno.reports.across.markdown import markdown_list, markdown_table
from mydyno.wording.across.sentences import indirect_words
from mydyno.wording.numbers import blocks
from mydyno.wording.verdict_table import flat

CONCLUSIONS = "What may be concluded"
NOISE = "Noise: two copies of the control"
APART = "Difference between the sessions"
SETTINGS = "Settings that differ"
NONE_DIFFERS = "No recorded setting differs"
INDIRECT = "Arms over the common control (exploratory)"
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
        paper.heading(INDIRECT)
        paper.bullets([indirect_words(comparison, one) for one in comparison.indirect])
    paper.heading("The studies")
    for one in comparison.studies:
        paper.say(f"{one.label}  {one.study}: {one.question}", "", "   ")
        when = f"{tables.when(one.created_unix_ns)} UTC"
        where = ", ".join((when, one.server, one.host, blocks(one.blocks), one.state))
        paper.say(where, "   ", "   ", "dim")
        for sentence in (*one.answer, *note_lines(one)):
            paper.say(sentence, "   ", "   ")
    _print_settings(paper, comparison.settings, [one.label for one in comparison.studies])
    for heading, found in (
        (NOISE, tables.noise_table(comparison.studies, comparison.steps)),
        (APART, tables.levels_table(comparison)),
    ):
        if found is not None:
            paper.heading(heading)
            paper.table(found)
    if comparison.conclusions:
        paper.heading(CONCLUSIONS)
        paper.bullets(comparison.conclusions)
    if comparison.not_compared:
        paper.heading("Not compared")
        paper.bullets(refused_lines(comparison))


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
    return agreed(f"{all_of(list(experiments))}: {len(comparison.studies)} studies compared")


def arms_title(comparison: ArmComparison) -> str:
    """The arms and their study."""
    return f"{', '.join(comparison.arms[1:])} against {comparison.arms[0]} in {comparison.study.study}"


def note_lines(study: ComparedStudy) -> list[str]:
    """What limits a study's part, a sentence each."""
    return [f"Note: {note}." for note in study.notes]


def refused_lines(comparison: Comparison) -> list[str]:
    """What has no common ground, with the reason."""
    return [f"{one.what}: {one.reason}" for one in comparison.not_compared]


def all_of(names: Sequence[str]) -> str:
    """Names with an "and" between them: "a and b"."""
    return functools.reduce(lambda left, right: f"{left} and {right}", names)


def comparison_markdown(comparison: Comparison) -> str:
    """A comparison of studies as Markdown."""
    parts = [f"# {title(comparison)}", *comparison.answer]
    table = tables.effects_table(comparison, judged=True)
    parts += [markdown_table(table)] if table else []
    if comparison.indirect:
        parts += [f"## {INDIRECT}"]
        parts += [markdown_list([indirect_words(comparison, one) for one in comparison.indirect])]
    parts += ["## The studies", markdown_table(tables.studies_table(comparison.studies))]
    parts += [markdown_list([one.label + ": " + " ".join((one.question, *one.answer)) for one in comparison.studies])]
    parts += _settings(comparison.settings, [one.label for one in comparison.studies])
    noise, levels = tables.noise_table(comparison.studies, comparison.steps), tables.levels_table(comparison)
    parts += [f"## {NOISE}", markdown_table(noise)] if noise else []
    parts += [f"## {APART}", markdown_table(levels)] if levels else []
    parts += [f"## {CONCLUSIONS}", markdown_list(comparison.conclusions)] if comparison.conclusions else []
    if comparison.not_compared:
        parts += ["## Not compared", markdown_list(refused_lines(comparison))]
    return fitted([("", flat("\n\n".join(parts)))], (), "`--format html`")


def arms_markdown(comparison: ArmComparison) -> str:
    """A comparison of arms as Markdown."""
    parts = [f"# {arms_title(comparison)}", *comparison.answer, markdown_table(tables.arms_table(comparison))]
    parts += _settings(comparison.settings, comparison.arms)
    noise = tables.noise_table([comparison.study], comparison.steps)
    parts += [f"## {NOISE}", markdown_table(noise)] if noise else []
    parts += [f"## {CONCLUSIONS}", markdown_list(comparison.conclusions)]
    return fitted([("", flat("\n\n".join(parts)))], (), "`--format html`")


def equal_words(groups: Sequence[SettingGroup]) -> str:
    """How many settings are equal: "61 settings are equal (experiment 9, server 4, …)"."""
    equal = [(group.name, len(group.equal)) for group in groups if group.equal]
    return agreed(
        "{count} settings are equal ({groups}).".format(
            count=sum(count for _, count in equal),
            groups=", ".join(f"{name} {count}" for name, count in equal),
        )
    )


def _print_settings(paper: Paper, groups: Sequence[SettingGroup], labels: Sequence[str]) -> None:
    found = tables.settings_tables(groups, labels, differing=True)
    paper.heading(SETTINGS if found else NONE_DIFFERS)
    for table in found:
        if len(table.rows) > MOST_ROWS:
            paper.say(
                f"{table.caption}: {len(table.rows)} differ; --format html and json list them",
                style="dim",
            )  # fmt: skip
        else:
            paper.table(table)
    paper.say(equal_words(groups), style="dim")


def _settings(groups: Sequence[SettingGroup], labels: Sequence[str]) -> list[str]:
    found = tables.settings_tables(groups, labels, differing=True)
    return [f"## {SETTINGS if found else NONE_DIFFERS}", *map(markdown_table, found),
            equal_words(groups)]  # fmt: skip
