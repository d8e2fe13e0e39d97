"""The tables that answer: each arm at each step with effect, interval and verdict, of throughput and of CPU per query.

Every format prints the same tables. Arms that are a full product of factors become a grid for each step and metric:
the last factor that suits as columns, the others as rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mydyno.document.parts import Cell, Table
from mydyno.language import agreed
from mydyno.model.definition.factors import Factors, factors_of
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.results.precision import answered_metrics, failed_arm, failed_blocks
from mydyno.wording.numbers import level_percent, ratio_interval, signed_percent
from mydyno.wording.scope_line import arms_words
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdicts import (
    NO_ESTIMATE,
    SYMBOLS,
    WORDS,
    absolute,
    column_name,
    merit,
    verdict_text,
    verdict_word,
)

ABSENT = Cell("–", "verdict absent")
"""A contrast that is not compared."""
MOST_ADJUSTED = 6
"""Effects of which a terminal has the adjustment."""
MOST_COLUMNS = 3
"""Levels beside one another in a grid: a phone has room for no more."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The contrasts of a study. `columns` are the metrics' names."""

    caption: str
    columns: Sequence[str]
    by_step: Mapping[str, Mapping[str, Sequence[Cell]]]
    """{heading of a step and control: {arm: its cells}}, the control with its absolute values first."""
    grids: Sequence[Table]
    notes: Sequence[str]
    adjustment: Table | None
    """The effects with and without the adjustment for the host's speed; None where nothing is adjusted."""

    @property
    def steps(self) -> Table | None:
        """Those that are not in a grid."""
        rows: list[Sequence[str | Cell]] = []
        for heading, arms in self.by_step.items():
            rows.append([heading])
            rows += [[arm, *cells] for arm, cells in arms.items()]
        return Table("", ("arm", *self.columns), rows, compact=True) if rows else None

    @property
    def tables(self) -> list[Table]:
        """All of them."""
        return [*self.grids, *([self.steps] if self.steps else [])]

    @property
    def signs(self) -> list[tuple[str, str, str]]:
        """(sign, word, CSS class) of every verdict, each once."""
        words = {symbol: WORDS[word] for word, symbol in SYMBOLS.items()}
        cells = [cell for table in self.tables for row in table.rows for cell in row if isinstance(cell, Cell)]
        return list(dict.fromkeys((one.symbol, words[one.symbol], one.css) for one in cells if one.symbol))


def verdicts_of(result: StoredResult) -> Verdicts | None:
    """None before the first verdicts, in a study with looks before the first look."""
    summary = result.summary
    if result.before_first_look or not any(
        effect.verdict for effect in summary.effects if effect.metric == summary.primary
    ):
        return None
    metrics = answered_metrics(summary)
    factors = factors_of(result.study.experiment.arms)
    grids = _grids(result, factors, metrics) if factors else []
    controls = dict.fromkeys((summary.control, *(effect.control for effect in summary.effects if effect.verdict)))
    by_step = {}
    for step in result.steps:
        for control in controls:
            found = {} if grids and control == summary.control else _rows(result, step, metrics, control)
            against = f", against {control}" if result.several_controls else ""
            if found:
                values = [Cell(absolute(result, one, step.id, control), "verdict control") for one in metrics]
                by_step[f"{result.step_heading(step)}{against}"] = {control: values, **found}
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
    named = {effect.control for effect in result.effects(summary.primary)}
    relative_to = named.pop() if len(named) == 1 else "the control that each heading names"
    if grids:
        relative_to = summary.control + (", or to the control that a heading names" if by_step else "")
    caption = f"Relative to {relative_to}, with simultaneous {level_percent(summary.alpha)} intervals"
    columns = [column_name(one, result.workloads) for one in metrics]
    return Verdicts(caption, columns, by_step, grids, notes, _adjustment(result, metrics))


def verdict_cell(verdict: str, text: str, below: str, merit: str) -> Cell:
    """One contrast: the sign of its verdict, what is known of it, and the verdict where the text is not that."""
    word = WORDS.get(verdict, "")
    is_said = word == text or verdict == "failed"
    return Cell(text, f"verdict {merit}", below=below, symbol=SYMBOLS.get(verdict, ""), word="" if is_said else word)


def cell_of(result: StoredResult, effect: EffectRecord | None) -> Cell:
    """One contrast of a study."""
    if effect is None:
        return ABSENT
    word = verdict_word(result, effect)
    if word == "failed":
        arm = effect.arm if failed_arm(result.summary, effect) == effect.arm else effect.control
        failed = failed_blocks(result.summary.runs, arm, effect.step)
        of = len({run.block for run in result.summary.runs if run.arm == arm})
        of_blocks = agreed(f"{len(failed)} of {of} blocks") if failed else ""
        return verdict_cell(word, verdict_text(result, effect), of_blocks, "failed")
    text = WORDS.get(word, NO_ESTIMATE) if effect.ratio is None else signed_percent(effect.ratio - 1)
    return verdict_cell(word, text, ratio_interval(effect.ci_low, effect.ci_high), merit(result, effect))


def _rows(result: StoredResult, step: StepLevel, metrics: Sequence[str], control: str) -> dict[str, list[Cell]]:
    """The contrasts of one step with one control, in the order of the effects."""
    by_arm: dict[str, dict[str, EffectRecord]] = {}
    for metric in metrics:
        for effect in result.effects(metric, step.id):
            if effect.verdict and effect.control == control:
                by_arm.setdefault(effect.arm, {})[metric] = effect
    return {arm: [cell_of(result, found.get(one)) for one in metrics] for arm, found in by_arm.items()}


def _grids(result: StoredResult, factors: Factors, metrics: Sequence[str]) -> list[Table]:
    """A grid for each step and metric, of the contrasts with the study's own control."""
    sizes = [len(factor.levels) for factor in factors.factors]
    fitting = [index for index, count in enumerate(sizes) if count <= MOST_COLUMNS]
    across = fitting[-1] if fitting else sizes.index(min(sizes))
    down = [index for index in range(len(sizes)) if index != across]
    columns, control = factors.factors[across].levels, result.summary.control
    grids = []
    for step in result.steps:
        for metric in metrics:
            found = {effect.arm: effect for effect in result.effects(metric, step.id) if effect.control == control}
            value = Cell(f"control {absolute(result, metric, step.id, control)}", "verdict control")
            rows: list[Sequence[str | Cell]] = []
            for levels in itertools.product(*(factors.factors[index].levels for index in down)):
                cells = []
                for column in columns:
                    whole = dict(zip([*down, across], [*levels, column], strict=True))
                    arm = factors.arm([whole[index] for index in range(len(sizes))])
                    cells.append(value if arm == control else cell_of(result, found.get(arm)))
                rows.append((*levels, *cells))
            heading = result.step_heading(step) if len(result.steps) > 1 else step.level
            caption = f"{column_name(metric, result.workloads)}, {heading}"
            head = (*(factors.factors[index].name for index in down), *columns)
            grids.append(Table(caption, head, rows, compact=True, heads=len(down)))
    return grids


def _is_adjusted(effect: EffectRecord) -> bool:
    """Whether the adjustment for the host's speed changed anything that is printed of an effect with a ratio."""
    if effect.unadjusted is None or effect.ratio is None:
        return False
    own = (effect.ratio, effect.ci_low, effect.ci_high)
    return any(
        a is not None and b is not None and abs(a - b) >= 5e-5 for a, b in zip(own, effect.unadjusted, strict=True)
    )


def _adjustment(result: StoredResult, metrics: Sequence[str]) -> Table | None:
    """The effects of the tables before and after their adjustment, and what it moved, step by step."""
    rows: list[Sequence[str | Cell]] = []
    changes = []
    for step in result.steps:
        own: list[Sequence[str | Cell]] = []
        for one in result.summary.effects:
            if one.step == step.id and one.metric in metrics and one.verdict and _is_adjusted(one):
                assert one.ratio is not None and one.unadjusted is not None
                plain, low, high = one.unadjusted
                changes.append(one.ratio / plain - 1)
                numbers = (Cell(signed_percent(share), "num") for share in (one.ratio - 1, changes[-1]))
                before = Cell(signed_percent(plain - 1), "num", below=ratio_interval(low, high))
                own.append([column_name(one.metric, result.workloads), result.contrast_name(one), before, *numbers])
        rows += [[result.step_heading(step)], *own] if own and len(result.steps) > 1 else own
    if not rows:
        return None
    moved = " to ".join(dict.fromkeys(signed_percent(pick(changes)) for pick in (min, max)))
    caption = f"The adjustment for the host's speed moved these effects by {moved}"
    return Table(caption, ("metric", "arm", "plain", "adjusted", "moved"), rows, most=MOST_ADJUSTED, compact=True)


def _exceeds_margin(result: StoredResult, effect: EffectRecord) -> bool:
    """Whether an equivalent effect has a simultaneous interval that is not within the margin."""
    if effect.verdict != "equivalent" or effect.ci_low is None or effect.ci_high is None:
        return False
    margin = result.study.experiment.verdict.margin_of(effect.metric)
    return effect.ci_low < 1 - margin or effect.ci_high > 1 + margin
