"""A comparison as a document of HTML: answer, effects, settings that differ, load over time."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mydyno.document.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.document.charts.palette import COLOURS, SHAPES, ArmStyle
from mydyno.document.result import StudyResult
from mydyno.document.section import Figure, FigureGroup, Section, render
from mydyno.language import agreed
from mydyno.model.stored.comparison import ArmComparison, ComparedStudy, Comparison, SettingGroup
from mydyno.reports.across import tables
from mydyno.reports.across.comparison_text import (
    CONCLUSIONS,
    INDIRECT,
    NOISE,
    NONE_DIFFERS,
    SETTINGS,
    arms_title,
    equal_words,
    note_lines,
    refused_lines,
    title,
)
from mydyno.reports.across.overlay import overlay_data
from mydyno.reports.across.pages import Document, section
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.across.sentences import indirect_words
from mydyno.wording.numbers import change, metric_name
from mydyno.wording.verdict_table import SYMBOLS, WORDS

SIZES = (("", 560.0), (":narrow", 350.0))


def comparison_document(comparison: Comparison, folders: Sequence[StudyFolder]) -> Document:
    """The document of a comparison of studies; `folders` are those of its studies, in order, for the load over time."""
    names = [one.label for one in comparison.studies]
    judged = tables.effects_table(comparison, judged=True)
    sections = [
        (
            section(
                "answer",
                "Answer",
                "Answer",
                lead=comparison.answer,
                verdicts=[judged] if judged else [],
                lists=[
                    *(
                        [(INDIRECT,
                          [indirect_words(comparison, one) for one in comparison.indirect])]
                        if comparison.indirect
                        else []
                    ),
                    *([(CONCLUSIONS, comparison.conclusions)] if comparison.conclusions else []),
                ],
            ),
            False,
        ),
        (_studies(comparison.studies), False),
    ]  # fmt: skip
    if judged:
        sections.append((_forests(comparison), False))
    sections.append((_settings(comparison.settings, names), False))
    results = [StudyResult.load(folder) for folder in folders]
    arms = list(dict.fromkeys(name for one in comparison.effects for name in (one.control, one.arm)))
    data = overlay_data(results, comparison.steps, arms or [comparison.studies[0].control])
    sections.append((_over_time(results, data is not None), False))
    sections.append((_noise(comparison), False))
    if exploratory := _exploratory(comparison):
        sections.append((exploratory, True))
    if comparison.not_compared:
        lines = refused_lines(comparison)
        says = f"{len(lines)} without common ground"
        sections.append((section("refused", "Not compared", "Not compared", says=says, lists=[("", lines)]), True))
    below = " · ".join(
        ", ".join((f"{one.label} {tables.when(one.created_unix_ns)} UTC", one.server)) for one in comparison.studies
    )
    return Document(title(comparison), "comparison", below, sections, data)


def arms_document(comparison: ArmComparison, folder: StudyFolder) -> Document:
    """The document of a comparison of arms of one study."""
    result = StudyResult.load(folder)
    data = overlay_data([result], comparison.steps, comparison.arms)
    noise = tables.noise_table([comparison.study], comparison.steps)
    sections = [
        (
            section(
                "answer",
                "Answer",
                "Answer",
                lead=comparison.answer,
                verdicts=[tables.arms_table(comparison)],
                lists=[(CONCLUSIONS, comparison.conclusions)],
            ),
            False,
        ),
        (_settings(comparison.settings, comparison.arms), False),
        (_over_time([result], data is not None), False),
        (section("noise", NOISE, "Noise", tables=[noise] if noise else []), False),
    ]
    below = (
        f"{comparison.study.study} · {tables.when(comparison.study.created_unix_ns)} UTC · {comparison.study.server}"
    )
    return Document(arms_title(comparison), "arms of one study", below, sections, data)


def _studies(studies: Sequence[ComparedStudy]) -> Section:
    lists = []
    for one in studies:
        lists.append((one.label + ": " + one.question, [*one.answer, one.scope, *note_lines(one)]))
    title = "What each study asked and answered"
    return section("studies", title, "Studies", tables=[tables.studies_table(studies)], lists=lists)


def _forests(comparison: Comparison) -> Section:
    """The studies' own effects with their intervals below one another, one chart for each metric and step."""
    styles = [
        ArmStyle(one.label, one.label, place % COLOURS, SHAPES[place % len(SHAPES)], "")
        for place, one in enumerate(comparison.studies)
    ]
    figures = []
    judged = [one for one in comparison.effects if one.primary]
    for metric, step in dict.fromkeys((one.metric, one.step) for one in judged):
        groups = [
            ForestGroup(
                one.arm,
                tuple(
                    ForestRow(
                        style,
                        change(effect.ratio),
                        change(effect.ci_low),
                        change(effect.ci_high),
                        word=f"{SYMBOLS[effect.verdict]} {WORDS[effect.verdict]}" if effect.verdict else "",
                    )
                    for style, effect in zip(styles, one.effects, strict=True)
                ),
            )
            for one in judged
            if (one.metric, one.step) == (metric, step)
        ]
        heading = ", ".join((metric_name(metric), tables.step_heading(comparison.steps, step)))
        described = "Each study's own effects with their intervals; the table above has the same numbers."
        charts = [
            Markup(forest_chart(f"across:{metric}:{step}{suffix}", heading, described, groups, None, width))
            for suffix, width in SIZES
        ]
        figures.append(Figure(charts, None, heading, "double"))
    html = render(
        "figures.html",
        intro="Each study's own effects, each relative to the control of that study.",
        legend="",
        groups=[FigureGroup("Effects in each study", figures)],
        empty="",
    )
    return Section("effects", "Effects with their intervals", "Effects", html)


def _settings(groups: Sequence[SettingGroup], labels: Sequence[str]) -> Section:
    differing = tables.settings_tables(groups, labels, differing=True)
    equal = tables.settings_tables(groups, labels, differing=False)
    heading = SETTINGS if differing else NONE_DIFFERS
    return section("settings", heading, "Settings", tables=differing, details=[(equal_words(groups), equal)])


def _over_time(results: Sequence[StudyResult], available: bool) -> Section:
    interleaved = all(result.summary.design != "blocks" for result in results)
    text = (
        "One value for each cycle: the slice of an arm, blocks one after the other."
        if interleaved
        else "Medians over an arm's runs with the range of all of them, from the start of the load."
    )
    if len(results) > 1:
        text += " The studies ran at different times: only the shapes can be compared."
    if not available:
        text = "The studies have no series in common that can be drawn in one chart."
    return section("over-time", "Load over time", "Over time", text=[text], explorer=available)


def _noise(comparison: Comparison) -> Section:
    found = [tables.noise_table(comparison.studies, comparison.steps), tables.levels_table(comparison)]
    heading = "Noise: two copies of the control, and the difference between the sessions"
    return section("noise", heading, "Noise",
                   tables=[table for table in found if table is not None])  # fmt: skip


def _exploratory(comparison: Comparison) -> Section | None:
    metrics = list(dict.fromkeys(one.metric for one in comparison.effects if not one.primary))
    if not metrics:
        return None
    found = [(metric, tables.effects_table(comparison, judged=False, metric=metric)) for metric in metrics]
    details = [(metric_name(metric), [table]) for metric, table in found if table is not None]
    return section(
        "exploratory",
        "Other metrics: exploratory",
        "Other metrics",
        says=agreed(f"{len(details)} metrics with unadjusted intervals and without verdicts"),
        details=details,
    )
