"""The table that answers: each arm at each step with effect, interval and verdict, of throughput and of CPU per query.

Every format prints the same table. Arms that are a full product of factors become a grid for each step and metric:
the last factor that suits as columns, the others as rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mydyno.language import agreed
from mydyno.model.definition.factors import Factors, factors_of
from mydyno.model.metrics import COST_METRIC
from mydyno.model.stored.factors import FactorEffect
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.precision import answered_metrics, failed_arm, failed_blocks
from mydyno.results.values.found import found_less
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    display_unit,
    level_percent,
    metric_name,
    ratio_interval,
    signed_percent,
)
from mydyno.wording.reasons import failure_of
from mydyno.wording.scope_line import arms_words
from mydyno.wording.stored_result import ReportStep, StoredResult

WORDS = {
    "higher": "higher",
    "lower": "lower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "not_measurable": "not measurable",
    "failed": "failed",
}
"""Each verdict in a table."""
SYMBOLS = {"higher": "▲", "lower": "▼", "equivalent": "≈", "inconclusive": "?", "not_measurable": "∅", "failed": "✕"}
NO_ESTIMATE = "no estimate"
MOST_UNADJUSTED = 4
"""Effects that are named with and without their adjustment."""
MOST_COLUMNS = 3
"""Levels beside one another in a grid: a phone has room for no more."""


@dataclass(frozen=True, slots=True)
class VerdictCell:
    """One contrast. `word` is a key of WORDS, or empty if there is no verdict; `css` is better, worse, same, …, and
    absent for a contrast that is not compared.
    """

    word: str = ""
    effect: str = "–"
    interval: str = ""
    css: str = "absent"

    @property
    def symbol(self) -> str:
        """The verdict's sign, so that neither colour nor position is needed to read it."""
        return SYMBOLS.get(self.word, "")

    @property
    def verdict(self) -> str:
        """The verdict as printed beside the effect; empty if it stands in the effect's place."""
        word = WORDS.get(self.word, "")
        return "" if word == self.effect or self.word == "failed" else word


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one step and control: the control with its absolute values, then each arm with its effects."""

    heading: str
    rows: tuple[tuple[str, tuple[VerdictCell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """One metric at one step over the factors; None in a cell is the control, of which `control` is the value."""

    caption: str
    control: str
    row_factors: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[VerdictCell | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class VerdictTable:
    """The whole table: `columns` are the metrics' names."""

    caption: str
    columns: tuple[str, ...]
    steps: tuple[StepRows, ...]
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    unadjusted: str = ""
    """The effects without the adjustment for the host's speed; empty where nothing is adjusted."""

    def words(self) -> list[tuple[str, str]]:
        """(word, CSS class) of every verdict in the table, each once."""
        cells = [cell for step in self.steps for _, row in step.rows for cell in row]
        cells += [cell for grid in self.grids for _, row in grid.rows for cell in row if cell is not None]
        return list(dict.fromkeys((cell.word, cell.css) for cell in cells if cell.word))


def verdict_table(result: StoredResult) -> VerdictTable | None:
    """The table; None before the first verdicts, in a study with looks before the first look."""
    summary = result.summary
    if result.before_first_look or not any(
        effect.verdict for effect in summary.effects if effect.metric == summary.primary
    ):
        return None
    metrics = answered_metrics(summary)
    factors = factors_of(result.study.experiment.arms)
    grids = _grids(result, factors, metrics) if factors else ()
    in_grids = {summary.control} if grids else set()
    steps = []
    controls = dict.fromkeys((summary.control, *(effect.control for effect in summary.effects if effect.verdict)))
    for step in result.steps:
        for control in controls:
            found = () if control in in_grids else _rows(result, step, metrics, control)
            heading = step_heading(result, step)
            if result.several_controls:
                heading = f"{heading}, against {control}"
            if found:
                values = tuple(
                    VerdictCell("", absolute(result, one, step.id, control), "", "control") for one in metrics
                )
                steps.append(StepRows(heading, ((control, values), *found)))
    notes = [] if factors else [words for words in (arms_words(result.study.experiment),) if words]
    if any(_exceeds_margin(result, one) for one in summary.effects if one.metric in metrics):
        notes.append(
            f"Equivalent: the {level_percent(2 * summary.alpha)} interval of the comparison by itself is "
            "within ±margin (two one-sided tests); the simultaneous interval is wider."
        )
    if summary.factors is not None:
        notes.append(
            "Sentences on a level of a factor: means over the combinations of the factors that they do not name."
        )
    relative_to = _relative_to(result)
    if grids:
        relative_to = summary.control
        if steps:
            relative_to = f"{relative_to}, or to the control that a heading names"
    caption = f"Relative to {relative_to}, with simultaneous {level_percent(summary.alpha)} intervals"
    columns = tuple(column_name(one, result.workloads) for one in metrics)
    plain = _without_adjustment(result, metrics)
    return VerdictTable(caption, columns, tuple(steps), grids, tuple(notes), plain)


def is_adjusted(effect: EffectRecord) -> bool:
    """Whether the adjustment for the host's speed changed anything."""
    if effect.unadjusted is None:
        return False
    own = (effect.ratio, effect.ci_low, effect.ci_high)
    return any(
        a is not None and b is not None and abs(a - b) > 1e-9 for a, b in zip(own, effect.unadjusted, strict=True)
    )


def moved_by(effect: EffectRecord) -> float:
    """What the adjustment for the host's speed changed of an effect that has both figures, as a share."""
    assert effect.ratio is not None
    assert effect.unadjusted is not None
    return effect.ratio / effect.unadjusted[0] - 1


def _without_adjustment(result: StoredResult, metrics: Sequence[str]) -> str:
    """The effects of the table before their adjustment; of many the range of what it moved."""
    found = [one for one in result.summary.effects if one.metric in metrics and one.verdict and is_adjusted(one)]
    found = [one for one in found if one.ratio is not None]
    if not found:
        return ""
    if len(found) > MOST_UNADJUSTED:
        moved = [moved_by(one) for one in found]
        return (
            f"The adjustment for the host's speed moved these effects by {signed_percent(min(moved))} to "
            f"{signed_percent(max(moved))}."
        )
    levels = {step.id: step.level for step in result.steps}
    effects = [
        f"{result.contrast_name(one)}{f', {levels[one.step]}' if len(levels) > 1 else ''}, "
        f"{column_name(one.metric, result.workloads)}: {signed_percent((one.unadjusted or (1.0,))[0] - 1)} "
        f"({ratio_interval(*(one.unadjusted or (1.0, None, None))[1:])}), moved by {signed_percent(moved_by(one))}"
        for one in found
    ]
    return f"Without the adjustment for the host's speed: {'; '.join(effects)}."


def _exceeds_margin(result: StoredResult, effect: EffectRecord) -> bool:
    """Whether an equivalent effect has a simultaneous interval that is not within the margin."""
    if effect.verdict != "equivalent" or effect.ci_low is None or effect.ci_high is None:
        return False
    margin = result.study.experiment.verdict.margin_of(effect.metric)
    return effect.ci_low < 1 - margin or effect.ci_high > 1 + margin


def column_name(metric: str, workloads: Collection[str] = ()) -> str:
    """The heading of a metric's column, short."""
    return "CPU per query" if metric == COST_METRIC else metric_name(metric, workloads)


def step_heading(result: StoredResult, step: ReportStep) -> str:
    """A step as the table's groups name it."""
    several = len(result.workloads) > 1 or len(result.steps) == 1
    return ", ".join((step.workload, step.level)) if several else step.level


def verdict_word(result: StoredResult, effect: EffectRecord) -> str:
    """The effect's verdict, or "failed" where the arm or its control failed; empty if it has none."""
    if failure_of(result.summary, effect):
        return "failed"
    return effect.verdict or ""


def verdict_text(result: StoredResult, effect: EffectRecord) -> str:
    """The same in words; where it was not the arm that failed, with who did."""
    word = verdict_word(result, effect)
    failed = failed_arm(result.summary, effect) if word == "failed" else effect.arm
    return f"{failed} failed" if failed != effect.arm else WORDS[word] if word else ""


def merit(result: StoredResult, effect: EffectRecord) -> str:
    """The CSS class of a verdict: better, worse, or neither; what comes from less work is neither."""
    word = verdict_word(result, effect)
    if word != "inconclusive" and found_less(result.summary.found, effect):
        return "neutral"
    metric = result.summary.metrics.get(effect.metric)
    return merit_of(word, metric.better if metric else "none")


def merit_of(word: str | None, better: str) -> str:
    """The CSS class of a verdict on a metric of which that is better."""
    if word in ("higher", "lower"):
        return "neutral" if better == "none" else "better" if better == word else "worse"
    return {"equivalent": "same", "inconclusive": "open", "failed": "failed"}.get(word or "", "none")


def interval_text(effect: EffectRecord | FactorEffect) -> str:
    """The interval as signed percentages, e.g. "+1.1 … +7.4 %"; empty without one."""
    return ratio_interval(effect.ci_low, effect.ci_high)


def cell_of(result: StoredResult, effect: EffectRecord | None) -> VerdictCell:
    """One contrast as a cell."""
    if effect is None:
        return VerdictCell()
    word = verdict_word(result, effect)
    if word == "failed":
        arm = effect.arm if failed_arm(result.summary, effect) == effect.arm else effect.control
        failed = failed_blocks(result.summary.runs, arm, effect.step)
        of = len({run.block for run in result.summary.runs if run.arm == arm})
        of_blocks = agreed(f"{len(failed)} of {of} blocks") if failed else ""
        return VerdictCell(word, verdict_text(result, effect), of_blocks, "failed")
    if effect.ratio is None:
        return VerdictCell(word, WORDS.get(word, NO_ESTIMATE), "", merit(result, effect))
    text = signed_percent(effect.ratio - 1)
    return VerdictCell(word, text, interval_text(effect), merit(result, effect))


def _relative_to(result: StoredResult) -> str:
    controls = {effect.control for effect in result.effects(result.summary.primary)}
    return controls.pop() if len(controls) == 1 else "the control that each heading names"


def _rows(
    result: StoredResult, step: ReportStep, metrics: Sequence[str], control: str
) -> tuple[tuple[str, tuple[VerdictCell, ...]], ...]:
    """The contrasts of one step with one control, in the order of the effects."""
    by_arm: dict[str, dict[str, EffectRecord]] = {}
    for metric in metrics:
        for effect in result.effects(metric, step.id):
            if effect.verdict and effect.control == control:
                by_arm.setdefault(effect.arm, {})[metric] = effect
    return tuple((arm, tuple(cell_of(result, found.get(one)) for one in metrics)) for arm, found in by_arm.items())


def _grids(result: StoredResult, factors: Factors, metrics: Sequence[str]) -> tuple[Grid, ...]:
    """A grid for each step and metric, of the contrasts with the study's own control."""
    sizes = [len(factor.levels) for factor in factors.factors]
    fitting = [index for index, count in enumerate(sizes) if count <= MOST_COLUMNS]
    across = fitting[-1] if fitting else sizes.index(min(sizes))
    down = [index for index in range(len(sizes)) if index != across]
    columns = factors.factors[across].levels
    control = result.summary.control
    grids = []
    for step in result.steps:
        for metric in metrics:
            found = {effect.arm: effect for effect in result.effects(metric, step.id) if effect.control == control}
            rows = []
            for levels in itertools.product(*(factors.factors[index].levels for index in down)):
                cells: list[VerdictCell | None] = []
                for column in columns:
                    whole = dict(zip([*down, across], [*levels, column], strict=True))
                    arm = factors.arm([whole[index] for index in range(len(sizes))])
                    cells.append(None if arm == control else cell_of(result, found.get(arm)))
                rows.append((levels, tuple(cells)))
            heading = step_heading(result, step) if len(result.steps) > 1 else step.level
            names = tuple(factors.factors[index].name for index in down)
            caption = ", ".join((column_name(metric, result.workloads), heading))
            grids.append(Grid(caption, absolute(result, metric, step.id, control), names, columns, tuple(rows)))
    return tuple(grids)


def absolute(result: StoredResult, metric: str, step: str, arm: str, digits: int = 3) -> str:
    """An arm's absolute value with its unit."""
    level = result.level_of(metric, step, arm)
    known = result.summary.metrics.get(metric)
    return NONE if level is None else display_unit(metric, level, known.unit if known else "").text(level, digits)


def flat(text: str) -> str:
    """Text for a terminal: a narrow no-break space becomes a normal one."""
    return text.replace(NARROW_SPACE, " ").replace("\u00a0", " ")
