"""The answer of a study of factors: what each level costs or gains, and where another factor changes that.

Only decided effects are spoken of. Where an interaction is decided, the effect is given at each level of that other
factor; otherwise it is the mean over all combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from mydyno.language import listing
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.stored.factors import FactorCrossing, FactorEffect, FactorLevels, FactorsRecord
from mydyno.model.stored.summary import StepLevel, Summary
from mydyno.wording.numbers import change_words, signed, size, size_range


def say(summary: Summary, metric: str) -> list[str]:
    """A sentence for each factor that has a decided effect on the metric, one for all on a further metric of the
    question; quantitative factors last; of several steps those of the highest load of the first workload. Empty for a
    study without factors.
    """
    record = summary.factors
    step = _step(summary, metric)
    if record is None or step is None:
        return []
    where = summary.phrase(metric).short_noun
    words = _Words(summary, record, metric, step.id)
    ordered = sorted(record.factors, key=lambda factor: bool(factor.values))
    clauses = [[words.clause(factor, level) for level in factor.levels if level != factor.base] for factor in ordered]
    said = [[clause for clause in of if clause] for of in clauses]
    if metric in summary.also_primary:
        said = [[clause for of in said for clause in of]]
    if len(summary.steps) > 1:
        where += f" at {step.level}"
    if len({one.workload for one in summary.steps}) > 1:
        where += f" ({step.workload})"
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
