"""A comparison of studies, or of arms of one study, as a document: answer, effects, settings that differ, noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mydyno.document.drawing import COLOURS, SHAPES, ArmStyle
from mydyno.document.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Cell, Document, Figure, FigureGroup, Figures, Fold, Listed, Note, Part, Table
from mydyno.language import agreed
from mydyno.model.metrics import metric_source
from mydyno.model.stored.comparison import (
    ArmComparison,
    ArmEffect,
    ComparedEffect,
    ComparedStudy,
    Comparison,
    EffectDifference,
    Setting,
    SettingGroup,
    StudyEffect,
)
from mydyno.model.stored.summary import StepLevel
from mydyno.reports.verdicts import verdict_cell
from mydyno.wording.comparison import indirect_words
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    blocks,
    metric_name,
    percent,
    ratio_interval,
    signed_percent,
    when,
)
from mydyno.wording.verdicts import NO_ESTIMATE, WORDS, failure_clause, merit_of, sign_and_word

LEVELS = f"95{NARROW_SPACE}% intervals"
MOST_ROWS = 16
"""Rows of a group of settings on a terminal."""
Rows = list[Sequence[str | Cell]]
Effect = TypeVar("Effect", ArmEffect, ComparedEffect)


def comparison_document(comparison: Comparison, whole: bool = False) -> Document:
    """Of studies. `whole`: with charts and all tables."""
    studies, steps = comparison.studies, comparison.steps
    refused = [f"{one.what}: {one.reason}" for one in comparison.not_compared]
    experiments = " and ".join(dict.fromkeys(one.experiment for one in studies))
    return Document(
        title=agreed(f"{experiments}: {len(studies)} studies compared"),
        over="comparison",
        below=" · ".join(dict.fromkeys(one.question for one in studies)),
        parts=[
            _answer(
                comparison.answer,
                effects_table(comparison, judged=True),
                comparison.conclusions,
                [indirect_words(comparison, one) for one in comparison.indirect],
            ),
            Part(
                id="studies", heading="What each study asked and answered", short="Studies",
                body=[_study(one, whole) for one in studies],
            ),
            *([_forests(comparison)] if whole else []),
            _settings(comparison.settings, [one.label for one in studies], whole),
            _noise(studies, steps, levels_table(comparison)),
            *([_exploratory(comparison)] if whole else []),
            Part(
                id="refused", heading="Not compared", folded=True, says=f"{len(refused)} without common ground",
                body=[Listed(refused)],
            ),
        ],
    )  # fmt: skip


def arms_document(comparison: ArmComparison, whole: bool = False) -> Document:
    """Of arms of one study. `whole`: with all tables."""
    study, arms = comparison.study, comparison.arms
    return Document(
        title=f"{', '.join(arms[1:])} against {arms[0]} in {study.study}",
        over="arms of one study",
        below=f"{study.question} {when(study.created_unix_ns)} UTC · {study.server}",
        parts=[
            _answer(comparison.answer, arms_table(comparison), comparison.conclusions),
            _settings(comparison.settings, arms, whole),
            _noise([study], comparison.steps),
        ],
    )


def _answer(
    answer: Sequence[str], table: Table | None, conclusions: Sequence[str], indirect: Sequence[str] = ()
) -> Part:
    over_control = Listed(indirect, "Arms over the common control (exploratory)")
    body = [table, over_control, Listed(conclusions, "What may be concluded")]
    return Part(id="answer", heading="Answer", lead=answer, body=body)


def _study(one: ComparedStudy, with_scope: bool) -> Listed:
    where = ", ".join((f"{when(one.created_unix_ns)} UTC", one.server, one.host, blocks(one.blocks), one.state))
    scope = [one.scope] if with_scope else []
    lines = [where, *one.answer, *scope, *(f"Note: {note}." for note in one.notes)]
    return Listed(lines, f"{one.label}  {one.study}: {one.question}")


def _forests(comparison: Comparison) -> Part:
    """The studies' own effects with their intervals below one another, one chart for each metric and step."""
    styles = [
        ArmStyle(one.label, one.label, place % COLOURS, SHAPES[place % len(SHAPES)], "")
        for place, one in enumerate(comparison.studies)
    ]
    figures = []
    judged = [one for one in comparison.effects if one.primary]
    for (metric, step), effects in _by_step(judged).items():
        groups = [
            ForestGroup(
                one.arm,
                tuple(
                    ForestRow.of(style, of.ratio, of.ci_low, of.ci_high, word=sign_and_word(of.verdict))
                    for style, of in zip(styles, one.effects, strict=True)
                ),
            )
            for one in effects
        ]
        heading = metric_at(metric, comparison.steps, step)
        described = "Each study's own effects with their intervals; the table above has the same numbers."
        charts = forest_charts(f"across:{metric}:{step}", heading, described, groups)
        figures.append(Figure(charts, None, heading, "double"))
    intro = "Each study's own effects, each relative to the control of that study."
    drawn = Figures([FigureGroup("Effects in each study", figures)], intro=intro)
    return Part(id="effects", heading="Effects with their intervals", short="Effects", body=[drawn])


def _settings(groups: Sequence[SettingGroup], labels: Sequence[str], with_equal: bool) -> Part:
    differing = settings_tables(groups, labels, lambda group: group.differing)
    counts = [f"{group.name} {len(group.equal)}" for group in groups if group.equal]
    total = sum(len(group.equal) for group in groups)
    equal = agreed(f"{total} settings are equal ({', '.join(counts)}).")
    tables = settings_tables(groups, ["in all"], lambda group: group.equal)
    return Part(
        id="settings", heading="Settings that differ" if differing else "No recorded setting differs", short="Settings",
        body=[*differing, Fold(equal, tables) if with_equal else Note(equal)],
    )  # fmt: skip


def _noise(studies: Sequence[ComparedStudy], steps: Sequence[StepLevel], levels: Table | None = None) -> Part:
    heading = "Noise: two copies of the control" + (", and the difference between the sessions" if levels else "")
    return Part(id="noise", heading=heading, short="Noise", body=[noise_table(studies, steps), levels])


def _exploratory(comparison: Comparison) -> Part:
    metrics = dict.fromkeys(one.metric for one in comparison.effects if not one.primary)
    found = [(metric_name(metric), effects_table(comparison, judged=False, metric=metric)) for metric in metrics]
    return Part(
        id="exploratory", heading="Other metrics: exploratory", short="Other metrics", folded=True,
        says=agreed(f"{len(found)} metrics with unadjusted intervals and without verdicts"),
        body=[Fold(name, [table]) for name, table in found],
    )  # fmt: skip


def effects_table(comparison: Comparison, judged: bool, metric: str | None = None) -> Table | None:
    """Effects with their ratios; those with verdicts, or the exploratory ones of a metric."""
    chosen = [one for one in comparison.effects if one.primary == judged and metric in (None, one.metric)]
    if not chosen:
        return None
    several = len({one.control for one in chosen}) > 1
    rows: Rows = []
    for (of, step), effects in _by_step(chosen).items():
        rows.append([metric_at(of, comparison.steps, step)])
        rows += [_effect_row(one, several) for one in effects]
    first, *others = [one.label for one in comparison.studies]
    head = ("arm", *(f"effect in {label}" for label in (first, *others)), *(f"{label} / {first}" for label in others))
    how = f"simultaneous {LEVELS}" if judged else f"unadjusted {LEVELS}, no verdicts"
    caption = f"Each effect relative to the control of its own study; the ratios of effects with {how}"
    return Table(caption, head, rows)


def arms_table(comparison: ArmComparison) -> Table:
    """Arms of one study against the first one."""
    rows: Rows = []
    for (metric, step), effects in _by_step(comparison.effects).items():
        rows.append([metric_at(metric, comparison.steps, step)])
        rows += [
            [
                one.arm,
                _effect_cell(one, one.arm, one.against, one.metric),
                "declared" if one.declared else "not declared",
                Cell(str(one.n), "num"),
            ]
            for one in effects
        ]
    head = ("arm", f"relative to {comparison.arms[0]}", "contrast", "blocks")
    return Table(f"Relative to {comparison.arms[0]}, from the same blocks", head, rows)


def settings_tables(
    groups: Sequence[SettingGroup], labels: Sequence[str], chosen: Callable[[SettingGroup], Sequence[Setting]]
) -> list[Table]:
    """A table for each group that has such settings, with as many of their values as there are labels."""
    return [
        Table(
            group.name,
            ("setting", *labels),
            [[one.name, *(value or NONE for value in one.values[: len(labels)])] for one in settings],
            most=MOST_ROWS,
        )
        for group in groups
        if (settings := chosen(group))
    ]


def noise_table(studies: Sequence[ComparedStudy], steps: Sequence[StepLevel]) -> Table | None:
    """How far two copies of the control were apart in each study."""
    rows: Rows = []
    for metric, step in dict.fromkeys((one.metric, one.step) for study in studies for one in study.noise):
        cells = []
        for study in studies:
            found = next((one for one in study.noise if (one.metric, one.step) == (metric, step)), None)
            if found is None:
                cells.append(Cell(NONE))
                continue
            typical = f"{percent(found.typical)} in a typical block"
            below = "; ".join(filter(None, (ratio_interval(found.ci_low, found.ci_high), typical)))
            cells.append(Cell(signed_percent(found.ratio - 1), "num", below=below))
        rows.append([metric_at(metric, steps, step), *cells])
    if not rows:
        return None
    caption = (
        f"A′ relative to A, two copies of each study's control: mean over blocks with its 95{NARROW_SPACE}% interval"
    )
    return Table(
        caption, ("metric, load level", *(one.label if len(studies) > 1 else "A′ / A" for one in studies)), rows
    )


def levels_table(comparison: Comparison) -> Table | None:
    """Difference between the sessions."""
    if not comparison.control_levels:
        return None
    rows: Rows = [
        [
            metric_at(one.metric, comparison.steps, one.step),
            f"{one.second} / {one.first}",
            Cell(signed_percent(one.ratio - 1), "num", below=ratio_interval(one.ci_low, one.ci_high)),
            "the same" if one.same_control else "not the same",
        ]
        for one in comparison.control_levels
    ]
    head = ("metric, load level", "studies", "ratio", "control")
    return Table("The level of the control from session to session", head, rows)


def _by_step(effects: Sequence[Effect]) -> dict[tuple[str, str], list[Effect]]:
    """{(metric, step): its effects}."""
    found: dict[tuple[str, str], list[Effect]] = {}
    for one in effects:
        found.setdefault((one.metric, one.step), []).append(one)
    return found


def step_heading(steps: Sequence[StepLevel], step: str) -> str:
    """A step by workload and level."""
    found = next((one for one in steps if one.id == step), None)
    return step if found is None else ", ".join((found.workload, found.level))


def metric_at(metric: str, steps: Sequence[StepLevel], step: str) -> str:
    """A metric and a step in words."""
    return f"{metric_name(metric)}, {step_heading(steps, step)}"


def _effect_row(one: ComparedEffect, several: bool) -> list[str | Cell]:
    return [
        Cell(
            f"{one.arm} against {one.control}" if several else one.arm, below="defined differently" if one.note else ""
        ),
        *(_effect_cell(effect, one.arm, one.control, one.metric) for effect in one.effects),
        *(_difference_cell(of, one.metric) for of in one.differences),
    ]


def _effect_cell(effect: StudyEffect | ArmEffect, arm: str, control: str, metric: str) -> Cell:
    if why := failure_clause(effect.failure, arm, control):
        return verdict_cell("failed", WORDS["failed"], why, "failed")
    if effect.ratio is None:
        return verdict_cell(effect.verdict or "", WORDS[effect.verdict] if effect.verdict else NO_ESTIMATE, "", "none")
    return _cell(effect.ratio, effect, metric)


def _difference_cell(of: EffectDifference, metric: str) -> Cell:
    if of.verdict == "not_measurable" or of.ratio is None:
        return verdict_cell("not_measurable", WORDS["not_measurable"], of.reason, "none")
    return _cell(of.ratio, of, metric)


def _cell(ratio: float, of: StudyEffect | ArmEffect | EffectDifference, metric: str) -> Cell:
    source = metric_source(metric)
    merit = merit_of(of.verdict, source.better if source else "none")
    return verdict_cell(of.verdict or "", signed_percent(ratio - 1), ratio_interval(of.ci_low, of.ci_high), merit)
