"""The tables of a comparison, the same for every format: rows of cells under a caption."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from mydyno.document.section import Cell, Table
from mydyno.model.definition.quantities import load_level
from mydyno.model.metrics import metric_source
from mydyno.model.stored.comparison import (
    ArmComparison,
    ArmEffect,
    ComparedEffect,
    ComparedStudy,
    Comparison,
    EffectDifference,
    SettingGroup,
    StudyEffect,
)
from mydyno.model.stored.summary import StepLevel
from mydyno.wording.numbers import NARROW_SPACE, metric_name, percent, ratio_interval, signed_percent
from mydyno.wording.reasons import failure_clause
from mydyno.wording.verdict_table import NO_ESTIMATE, SYMBOLS, WORDS

NONE = "–"


def studies_table(studies: Sequence[ComparedStudy]) -> Table:
    """The studies by their letters."""
    rows = [
        [
            Cell(f"{one.label}  {one.study}"),
            Cell(when(one.created_unix_ns)),
            Cell(one.server),
            Cell(one.host),
            Cell(str(one.blocks), "num"),
            Cell(one.state),
        ]
        for one in studies
    ]
    return Table("The studies", ("study", "date (UTC)", "server", "host", "blocks", "state"), rows)


def effects_table(comparison: Comparison, judged: bool, metric: str | None = None) -> Table | None:
    """Effects with their ratios; those with verdicts, or the exploratory ones of a metric."""
    chosen = [one for one in comparison.effects if one.primary == judged and metric in (None, one.metric)]
    if not chosen:
        return None
    several = len({one.control for one in chosen}) > 1
    rows: list[Sequence[str | Cell]] = []
    for metric_of, step in dict.fromkeys((one.metric, one.step) for one in chosen):
        rows.append([_metric_at(metric_of, comparison.steps, step)])
        for one in chosen:
            if (one.metric, one.step) == (metric_of, step):
                rows.append(_effect_row(one, several))
    labels = [one.label for one in comparison.studies]
    head = (
        "arm",
        *(f"effect in {label}" for label in labels),
        *(f"{label} / {labels[0]}" for label in labels[1:]),
    )
    level = f"95{NARROW_SPACE}%"
    if judged:
        caption = (
            "Each effect relative to the control of its own study; the ratios of effects with simultaneous "
            f"{level} intervals"
        )
    else:
        caption = (
            "Each effect relative to the control of its own study; the ratios of effects with unadjusted "
            f"{level} intervals, no verdicts"
        )
    return Table(caption, head, rows)


def arms_table(comparison: ArmComparison) -> Table:
    """Arms of one study against the first one."""
    rows: list[Sequence[str | Cell]] = []
    for metric, step in dict.fromkeys((one.metric, one.step) for one in comparison.effects):
        rows.append([_metric_at(metric, comparison.steps, step)])
        for one in comparison.effects:
            if (one.metric, one.step) == (metric, step):
                declared = "declared" if one.declared else "not declared"
                rows.append([one.arm, _arm_cell(one), Cell(declared), Cell(str(one.n), "num")])
    return Table(
        f"Relative to {comparison.arms[0]}, from the same blocks",
        ("arm", f"relative to {comparison.arms[0]}", "contrast", "blocks"),
        rows,
    )


def settings_tables(groups: Sequence[SettingGroup], labels: Sequence[str], differing: bool) -> list[Table]:
    """A table for each group that has such settings: those that differ with a column for each, equal ones with one."""
    found = []
    rows: list[Sequence[str | Cell]]
    for group in groups:
        settings = group.differing if differing else group.equal
        if not settings:
            continue
        if differing:
            rows = [[one.name, *_values(one.values)] for one in settings]
            found.append(Table(group.name, ("setting", *labels), rows))
        else:
            rows = [[one.name, *_values(one.values[:1])] for one in settings]
            found.append(Table(group.name, ("setting", "in all"), rows))
    return found


def noise_table(studies: Sequence[ComparedStudy], steps: Sequence[StepLevel]) -> Table | None:
    """How far two copies of the control were apart in each study."""
    keys = dict.fromkeys((one.metric, one.step) for study in studies for one in study.noise)
    rows: list[Sequence[str | Cell]] = []
    for metric, step in keys:
        cells = []
        for study in studies:
            found = next((one for one in study.noise if (one.metric, one.step) == (metric, step)), None)
            if found is None:
                cells.append(Cell(NONE))
                continue
            interval = ratio_interval(found.ci_low, found.ci_high)
            typical = f"{percent(found.typical)} in a typical block"
            below = "; ".join([interval, typical]) if interval else typical
            cells.append(Cell(signed_percent(found.ratio - 1), "num", below=below))
        rows.append([_metric_at(metric, steps, step), *cells])
    if not rows:
        return None
    return Table(
        ("A′ relative to A, two copies of each study's control: mean over blocks with its {level} interval").format(
            level=f"95{NARROW_SPACE}%"
        ),
        ("metric, step", *((study.label for study in studies) if len(studies) > 1 else ("A′ / A",))),
        rows,
    )


def levels_table(comparison: Comparison) -> Table | None:
    """Difference between the sessions."""
    if not comparison.control_levels:
        return None
    rows: list[Sequence[str | Cell]] = [
        [
            _metric_at(one.metric, comparison.steps, one.step),
            f"{one.second} / {one.first}",
            Cell(signed_percent(one.ratio - 1), "num", below=ratio_interval(one.ci_low, one.ci_high)),
            Cell("the same" if one.same_control else "not the same"),
        ]
        for one in comparison.control_levels
    ]
    return Table(
        "The level of the control from session to session",
        ("metric, step", "studies", "ratio", "control"),
        rows,
    )


def step_heading(steps: Sequence[StepLevel], step: str) -> str:
    """A step by workload and level."""
    found = next((one for one in steps if one.id == step), None)
    return step if found is None else ", ".join((found.workload, load_level(found.connections, found.rate)))


def _metric_at(metric: str, steps: Sequence[StepLevel], step: str) -> str:
    return ", ".join((metric_name(metric), step_heading(steps, step)))


def _values(values: Sequence[str | None]) -> list[Cell]:
    """A setting's values as cells."""
    return [Cell(value or NONE) for value in values]


def when(unix_ns: int) -> str:
    """Date and minute, UTC."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


def _effect_row(one: ComparedEffect, several: bool) -> list[str | Cell]:
    name = f"{one.arm} against {one.control}" if several else one.arm
    note = "defined differently" if one.note else ""
    return [
        Cell(name, below=note) if note else name,
        *(_study_cell(effect, one) for effect in one.effects),
        *(_difference_cell(of, one.metric) for of in one.differences),
    ]


def _study_cell(effect: StudyEffect, of: ComparedEffect) -> Cell:
    if why := failure_clause(effect.failure, of.arm, of.control):
        return _failed_cell(why)
    return _cell(effect.ratio, effect.ci_low, effect.ci_high, effect.verdict, of.metric)


def _failed_cell(why: str) -> Cell:
    return Cell(f"{SYMBOLS['failed']} {WORDS['failed']}", "verdict failed", below=why)


def _difference_cell(of: EffectDifference, metric: str) -> Cell:
    if of.verdict == "not_measurable" or of.ratio is None:
        return Cell(f"{SYMBOLS['not_measurable']} {WORDS['not_measurable']}", "verdict none", below=of.reason)
    return _cell(of.ratio, of.ci_low, of.ci_high, of.verdict, metric)


def _arm_cell(one: ArmEffect) -> Cell:
    if why := failure_clause(one.failure, one.arm, one.against):
        return _failed_cell(why)
    return _cell(one.ratio, one.ci_low, one.ci_high, one.verdict, one.metric)


def _cell(ratio: float | None, low: float | None, high: float | None, verdict: str | None, metric: str) -> Cell:
    if ratio is None:
        return Cell(WORDS[verdict] if verdict else NO_ESTIMATE, "verdict none")
    sign = f"{SYMBOLS[verdict]} " if verdict else ""
    word = f" {WORDS[verdict]}" if verdict else ""
    return Cell(
        f"{sign}{signed_percent(ratio - 1)}{word}",
        f"verdict {_merit(verdict, metric)}",
        below=ratio_interval(low, high),
    )


def _merit(verdict: str | None, metric: str) -> str:
    """The CSS class: better, worse, or neither."""
    if verdict in ("higher", "lower"):
        source = metric_source(metric)
        better = source.better if source else "none"
        return "neutral" if better == "none" else "better" if better == verdict else "worse"
    return {"equivalent": "same", "inconclusive": "open"}.get(verdict or "", "none")
