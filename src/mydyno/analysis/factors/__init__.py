"""What each factor does: lines over a quantitative factor, main effects and interactions with their intervals.

In the answer only decided effects are spoken of. Where an interaction is decided, the effect is given at each level of
that other factor; otherwise it is the mean over all combinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from markupsafe import Markup

from mydyno.analysis.base import Analysis
from mydyno.analysis.factors.effects import Key, analyse, key_of
from mydyno.document.drawing import ArmStyle, SweepSeries, sweep_chart
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table, render, swatch
from mydyno.document.result import StudyResult
from mydyno.language import listing
from mydyno.model.definition.factors import Factors, factors_of
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.stored.analyses import FactorCrossing, FactorEffect, FactorLevels, FactorsRecord
from mydyno.model.stored.summary import StepLevel, Summary, at_step
from mydyno.stats.factorial import factor_contrasts
from mydyno.wording.numbers import (
    change_words,
    display_unit,
    level_percent,
    percent,
    ratio_interval,
    signed,
    signed_percent,
    size,
    size_range,
)


def say(summary: Summary, metric: str) -> list[str]:
    """A sentence for each factor that has a decided effect on the metric, one for all on a further metric of the
    question; quantitative factors last; of several steps those of the highest load of the first workload. Empty for a
    study without factors.
    """
    record = summary.factors
    step = _step(summary, metric)
    if record is None or step is None:
        return []
    where = f"{summary.phrase(metric).short_noun}{at_step(summary.steps, step.id)}"
    words = _Words(summary, record, metric, step.id)
    ordered = sorted(record.factors, key=lambda factor: bool(factor.values))
    clauses = [[words.clause(factor, level) for level in factor.levels if level != factor.base] for factor in ordered]
    said = [[clause for clause in of if clause] for of in clauses]
    if metric in summary.also_primary:
        said = [[clause for of in said for clause in of]]
    return [f"In {where}, {'; '.join(of)}." for of in said if of]


def _step(summary: Summary, metric: str) -> StepLevel | None:
    """The step that the sentences are of."""
    found = {effect.step for effect in summary.factors.effects if effect.metric == metric} if summary.factors else set()
    steps = [step for step in summary.steps if step.id in found]
    steps = [step for step in steps if step.workload == steps[0].workload]
    return max(steps, key=lambda step: (step.rate or 0.0, step.connections)) if steps else None


def level_name(factor: FactorLevels, level: str) -> str:
    """A level as people write it: "1 Gbit/s", or the arms' own word."""
    if not factor.values:
        return level
    name = quantity(factor.values[factor.levels.index(level)], factor.unit)
    return f"{name} (not reached)" if level in factor.unreached else name


def quantity(value: float, unit: str) -> str:
    """A level of a quantitative factor with its unit, in three digits."""
    if unit == "bytes":
        return format_bytes(value)
    if unit == "bit/s":
        for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= factor * 0.9995:
                return f"{_digits(value / factor)} {prefix}bit/s"
    return _digits(value)


def _at(other: FactorLevels) -> str:
    """At a number, with a word."""
    return "at" if other.values else "with"


def _digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):.10g}"


def crossing_words(factor: FactorLevels, crossing: FactorCrossing) -> str:
    """E.g. "240 Mbit/s (between 208 Mbit/s and 278 Mbit/s)"."""
    return (
        f"{quantity(crossing.value, factor.unit)} (between {quantity(crossing.ci_low, factor.unit)} and "
        f"{quantity(crossing.ci_high, factor.unit)})"
    )


@dataclass(frozen=True)
class _Words:
    summary: Summary
    record: FactorsRecord
    metric: str
    step: str

    def clause(self, factor: FactorLevels, level: str) -> str:
        """What one level does against the factor's base level; empty where nothing is decided."""
        effects = [one for one in self.record.effects if (one.metric, one.step) == (self.metric, self.step)]
        own = [one for one in effects if (one.factor, one.level) == (factor.name, level)]
        other = self._changed_by(effects, factor, level)
        if other is None:
            main = [one for one in own if one.kind == "main" and one.decided]
            return self._said(factor, level, main, None) if main else ""
        at = [one for one in own if one.kind == "at" and one.other == other.name]
        decided = [one for one in at if one.decided]
        if not decided:
            return ""
        clause = self._said(factor, level, decided, other)
        open_ = [level_name(other, one.at) for one in at if not one.decided]
        return f"{clause}, undecided {_at(other)} {listing(open_)}" if open_ else clause

    def _changed_by(self, effects: Sequence[FactorEffect], factor: FactorLevels, level: str) -> FactorLevels | None:
        """The factor with a decided interaction: a quantitative one first, then the one with the largest."""
        found: list[tuple[bool, float, str]] = []
        for one in effects:
            if one.kind == "interaction" and one.decided and one.ratio:
                if (one.factor, one.level) == (factor.name, level):
                    found.append((bool(self.record.factor(one.other).values), abs(log(one.ratio)), one.other))
                if (one.other, one.at) == (factor.name, level):
                    found.append((bool(self.record.factor(one.factor).values), abs(log(one.ratio)), one.factor))
        return self.record.factor(max(found)[2]) if found else None

    def _said(
        self, factor: FactorLevels, level: str, effects: Sequence[FactorEffect], other: FactorLevels | None
    ) -> str:
        """Decided effects in words: as costs and gains of what is better higher, with signs otherwise."""
        metric = self.summary.metrics.get(self.metric)
        begin = f"{level_name(factor, level)} instead of {level_name(factor, factor.base)}"
        crossings = [
            one for one in self.record.crossings
            if (one.metric, one.step, one.factor, one.level) == (self.metric, self.step, factor.name, level)
            and other is not None and one.other == other.name
        ]  # fmt: skip
        if metric is None or metric.better != "higher":
            changes = [self._size(one, other, with_sign=True) for one in effects]
            said = f"{begin}: {listing(changes)}"
            if len(crossings) == 1 and other is not None:
                said += f", 0 at about {crossing_words(other, crossings[0])}"
            return said
        lost = listing([self._size(one, other) for one in effects if (one.ratio or 1.0) < 1.0] or [""])
        gained = listing([self._size(one, other) for one in effects if (one.ratio or 1.0) > 1.0] or [""])
        if not lost:
            return f"{begin} gains {gained}"
        cost = f"{begin} costs {lost}"
        if not gained:
            return cost
        if len(crossings) != 1 or other is None:
            return f"{cost}; it gains {gained}"
        crossing = crossings[0]
        high = next(one for one in effects if one.at == crossing.high_level)
        where = crossing_words(other, crossing)
        side = "below" if (high.ratio or 1.0) < 1.0 else "above"
        return f"{cost}; {side} about {where} it gains: {gained}"

    def _size(self, effect: FactorEffect, other: FactorLevels | None, with_sign: bool = False) -> str:
        """One effect, and at which level of the other factor; a single mean with its interval."""
        share = (effect.ratio or 1.0) - 1
        text = signed(share) if with_sign else size(share) if share <= 9 else signed(share)
        if other is not None:
            return f"{text} {_at(other)} {level_name(other, effect.at)}"
        if with_sign:
            return change_words(1 + share, effect.ci_low, effect.ci_high)
        if effect.ci_low is None or effect.ci_high is None:
            return text
        return f"{text} ({size_range((effect.ci_low - 1, effect.ci_high - 1))})"


def part(result: StudyResult) -> Part | None:
    """The section; None for a study without factors."""
    record, factors = result.summary.factors, factors_of(result.study.experiment.arms)
    if record is None or factors is None or result.before_first_look:
        return None
    groups = []
    for step in result.steps:
        figures = []
        for metric in dict.fromkeys(one.metric for one in record.effects if one.step == step.id):
            effects = [one for one in record.effects if (one.metric, one.step) == (metric, step.id)]
            charts = [_lines(result, factors, over, metric, step) for over in record.factors if over.values]
            caption, css = ("", "") if charts else (result.metric_name(metric), "full")
            table = _table(result, record, effects, _moved(result, factors, metric, step.id))
            figures.append(Figure(charts, table, caption, css, not charts))
        groups.append(FigureGroup(result.step_heading(step), figures))
    drawn = Figures(groups, _legend(result, record, factors))
    said = say(result.summary, result.summary.primary)
    return Part(
        id="factors", heading="What each factor does", says=said[0] if len(said) == 1 else "",
        body=[Note(_intro(result), "intro"), drawn],
    )  # fmt: skip


def _intro(result: StudyResult) -> str:
    note = (
        "A main effect is the mean over all combinations of the other factors, as a ratio; an effect at another "
        "factor's level is the mean over the combinations with that level; an interaction is how much the "
        f"second differs from the one at the control's level. Intervals of {level_percent(result.summary.alpha)} "
        "are simultaneous over all of these effects, a family beside that of the verdicts: each has a false difference "
        f"in at most {percent(result.study.experiment.verdict.error_rate)} of studies."
    )
    record = result.summary.factors
    if record is not None and record.crossings:
        note += (
            " A change of sign is interpolated over the logarithm of the level between two measured ones; its "
            "interval is of the noise alone."
        )
    return note


def _looks(result: StudyResult, factors: Factors, over: FactorLevels) -> list[tuple[ArmStyle, list[tuple[float, str]]]]:
    """(style, [(number of the level, arm)]) of each combination of the other factors: that of its arm at the base."""
    index = [factor.name for factor in factors.factors].index(over.name)
    found: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for arm, levels in factors.levels_of.items():
        rest = (*levels[:index], *levels[index + 1 :])
        found.setdefault(rest, []).append((over.values[over.levels.index(levels[index])], arm))
    looks = []
    for rest, points in found.items():
        base = next(arm for _, arm in points if factors.levels_of[arm][index] == over.base)
        name = ", ".join(rest)
        looks.append((replace(result.styles[base], name=name, label=name), points))
    return looks


def _legend(result: StudyResult, record: FactorsRecord, factors: Factors) -> Markup:
    styles = [style for over in record.factors if over.values for style, _ in _looks(result, factors, over)]
    if not styles:
        return Markup("")
    return render("legend.html", entries=[(style.css, swatch(style), style.label) for style in styles])


def _lines(result: StudyResult, factors: Factors, over: FactorLevels, metric: str, step: StepLevel) -> str:
    """A line over the levels of a quantitative factor for each combination of the others."""
    series = [
        SweepSeries(
            style,
            tuple(
                (level, value, used)
                for level, arm in points
                for run, value, used in result.values(metric, step.id)
                if run.arm == arm
            ),
        )
        for style, points in _looks(result, factors, over)
    ]
    values = [abs(value) for one in series for _, value, _ in one.points]
    known = result.summary.metrics.get(metric)
    return sweep_chart(
        f"factors:{over.name}:{metric}:{step.id}",
        result.metric_name(metric),
        f"{result.metric_name(metric)} over {over.name}, a line for each combination of the other "
        "factors; dots are runs.",
        display_unit(metric, max(values, default=1.0), known.unit if known else ""),
        series,
        over.values,
        over.name,
        {value: level_name(over, level) for value, level in zip(over.values, over.levels, strict=True)},
    )


def _moved(result: StudyResult, factors: Factors, metric: str, step: str) -> dict[Key, float]:
    """By what the adjustment for the host's speed divided each effect, from what it moved of each arm; without the
    effects of an arm of which that is not known.
    """
    control, names = result.summary.control, ["", *(factor.name for factor in factors.factors)]
    moved = {control: 0.0}
    for one in result.effects(metric, step):
        if one.control == control and one.ratio and one.unadjusted is not None:
            moved[one.arm] = log(one.unadjusted[0] / one.ratio)
    found: dict[Key, float] = {}
    for of in factor_contrasts([factor.levels for factor in factors.factors], factors.levels_of[control]):
        weights = {factors.arm(levels): weight for levels, weight in of.weights.items()}
        other = 0 if of.other is None else of.other + 1
        if weights.keys() <= moved.keys():
            key = (metric, step, of.kind, names[of.factor + 1], of.level, names[other], of.at)
            found[key] = exp(sum(weight * moved[arm] for arm, weight in weights.items()))
    return found


def _table(
    result: StudyResult, record: FactorsRecord, effects: list[FactorEffect], moved: Mapping[Key, float]
) -> Table:
    """Main effects with what another factor's levels make of them, then interactions, and changes of sign."""
    rows: list[list[str | Cell]] = []
    kinds = (
        ("Main effects", "main"),
        ("Effects at the levels of another factor", "at"),
        ("Interactions", "interaction"),
    )
    for heading, kind in kinds:
        of_kind = [one for one in effects if one.kind == kind]
        rows += [[heading]] if of_kind else []
        rows += [_row(record, one, moved.get(key_of(one))) for one in of_kind]
    first = effects[0]
    crossings = [one for one in record.crossings if (one.metric, one.step) == (first.metric, first.step)]
    rows += [["Changes of sign"]] if crossings else []
    for one in crossings:
        factor, other = record.factor(one.factor), record.factor(one.other)
        where = crossing_words(other, one)
        rows.append([_contrast(factor, one.level), one.other, Cell("0", "num strong"), Cell(where), ""])
    head = ("level", "where", "effect", f"{level_percent(result.summary.alpha)} interval", "decided")
    return Table(f"Effects of the factors on {result.metric_name(first.metric)}", head, rows)


def _row(record: FactorsRecord, effect: FactorEffect, moved: float | None) -> list[str | Cell]:
    """`moved`: the effect without the adjustment, divided by it; it is below where that is printed otherwise. None: not
    adjusted.
    """
    factor = record.factor(effect.factor)
    where = "mean of all"
    if effect.other:
        other = record.factor(effect.other)
        where = level_name(other, effect.at)
        if effect.kind == "interaction":
            where = _contrast(other, effect.at)
    share = None if effect.ratio is None else effect.ratio - 1
    without = share if share is None or moved is None else (1 + share) * moved - 1
    size, plain = ("–" if one is None else signed_percent(one) for one in (share, without))
    decided = "yes" if effect.decided else "no"
    return [
        _contrast(factor, effect.level),
        where,
        Cell(size, "num strong", below="" if plain == size else f"plain {plain}"),
        Cell(ratio_interval(effect.ci_low, effect.ci_high), "num"),
        decided,
    ]


def _contrast(factor: FactorLevels, level: str) -> str:
    return f"{factor.name}: {level_name(factor, factor.base)} → {level_name(factor, level)}"


ANALYSIS = Analysis(chapter="answer", part=part, stored="factors", analyse=analyse, say=say, says_all=False)
