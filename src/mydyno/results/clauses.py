"""Clauses about the contrasts of one study, from their verdicts: which arms differ, at which steps, by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.model.factors import Factors
from mydyno.model.load_level import load_level
from mydyno.model.metrics import phrase_of
from mydyno.model.summary import EffectRecord, Summary
from mydyno.results.plain_words import MOST_NAMES, cut, listing, plus_minus, signed, size
from mydyno.results.precision import cost_metric, failure_of, precision

LONGEST = 170
"""Characters up to which two clauses make one sentence."""
MOST_PARTS = 2
"""Clauses on one verdict, of arms that have it at different steps."""


@dataclass(frozen=True)
class Clauses:
    """Clauses about the contrasts of one study."""

    summary: Summary
    factors: Factors | None
    latency_margin: float

    def decided(self) -> list[str]:
        """Sentences on what is higher, lower or equivalent: the primary metric first, then the cost, then others."""
        summary = self.summary
        cost = cost_metric(summary)
        others = dict.fromkeys(effect.metric for effect in summary.effects if effect.verdict)
        metrics = dict.fromkeys(filter(None, (summary.primary, cost, *others)))
        if cost:
            metrics = {metric: None for metric in metrics if metric == cost or not phrase_of(metric).cost
                       or metric == summary.primary}  # fmt: skip
        clauses: list[str] = []
        merged: set[str] = set()
        for metric in metrics:
            for control, effects in self._by_control(metric).items():
                clauses += self._clauses(metric, control, effects, cost, merged)
        return _joined(clauses)

    def undecided(self, host_is_told: bool) -> list[str]:
        """A sentence on the contrasts of the primary metric that are inconclusive, and one on those not measurable."""
        effects = [effect for effect in self.summary.effects if effect.metric == self.summary.primary]
        judged = [effect for effect in effects if effect.verdict]
        open_ = [effect for effect in judged if effect.verdict == "inconclusive"]
        sentences = []
        if open_:
            noun = phrase_of(self.summary.primary).short_noun
            width = precision(open_)
            below = f"differences in {noun} below about {plus_minus(width)}" if width else ""
            whose = "this host's" if self.summary.host_groups is None else "these hosts'"
            hidden = f"{below} are hidden by {whose} noise" if below else ""
            if len(open_) == len([effect for effect in judged if effect.verdict != "not_measurable"]):
                alone = all(effect.n == 1 for effect in open_)
                why = hidden or ("one block gives no interval" if alone else "")
                told = f"No difference is shown yet: {why}" if why else "No difference is shown yet"
                sentences.append(f"{told}." if not host_is_told else f"All comparisons of {noun} are inconclusive.")
            else:
                who = self._who([effect.arm for effect in open_], [effect.arm for effect in judged])
                where = self._where(open_, judged)
                tail = f": {hidden}" if hidden and not host_is_told else ""
                sentences.append(f"{who} {'is' if _is_one(open_) else 'are'} inconclusive{where}{tail}.")
        unmeasured = [
            effect for effect in judged
            if effect.verdict == "not_measurable" and not failure_of(self.summary, effect)
        ]  # fmt: skip
        if unmeasured:
            who = self._who([effect.arm for effect in unmeasured], [effect.arm for effect in judged])
            reasons = Counter(reason for effect in unmeasured for reason in effect.details.reasons)
            why = f": {cut(reasons.most_common(1)[0][0])}" if reasons else ""
            verb = "is" if _is_one(unmeasured) else "are"
            sentences.append(f"{who} {verb} not measurable{self._where(unmeasured, judged)}{why}.")
        return [capital(sentence) for sentence in sentences]

    def _by_control(self, metric: str) -> dict[str, list[EffectRecord]]:
        found: dict[str, list[EffectRecord]] = {self.summary.control: []}
        for effect in self.summary.effects:
            if effect.metric == metric and effect.verdict:
                found.setdefault(effect.control, []).append(effect)
        return {control: effects for control, effects in found.items() if effects}

    def _clauses(
        self, metric: str, control: str, effects: list[EffectRecord], cost: str | None, merged: set[str]
    ) -> list[str]:
        words = phrase_of(metric)
        clauses: list[str] = []
        for verdict in ("higher", "lower"):
            group = [effect for effect in effects if effect.verdict == verdict and effect.ratio is not None]
            if metric == cost:
                group = [effect for effect in group if effect.arm not in merged]
            strongest = self._strongest(group)
            if strongest is not None:
                clauses.append(self._clause_of_level(metric, control, *strongest))
                continue
            for part in self._by_steps(group, effects):
                clauses.append(self._clause(metric, control, part, effects, cost, merged))
        same = [effect for effect in effects if effect.verdict == "equivalent"]
        if same:
            who = self._who([effect.arm for effect in same], [effect.arm for effect in effects])
            within = plus_minus(self.latency_margin if metric.startswith("latency_") else self.summary.margin)
            verb = "is" if _is_one(same) else "are"
            where = self._where(same, effects)
            clauses.append(f"{who} {verb} equivalent to {control} within {within} in {words.short_noun}{where}")
        return clauses

    def _clause(
        self, metric: str, control: str, group: Sequence[EffectRecord], effects: Sequence[EffectRecord],
        cost: str | None, merged: set[str],
    ) -> str:  # fmt: skip
        """What arms of one verdict do more or less of than the control, and by how much."""
        words = phrase_of(metric)
        higher = group[0].verdict == "higher"
        who = self._who([effect.arm for effect in group], [effect.arm for effect in effects])
        verb = words.one if _is_one(group) else words.several
        where = self._where(group, effects)
        if words.cost and metric != self.summary.primary:
            return (
                f"{who} {verb} {_spread(group)} {'more' if higher else 'less'} {words.short_noun} than {control}{where}"
            )
        clause = f"{who} {verb} {words.more if higher else words.less} than {control}{where}: {_span(group)}"
        if metric == self.summary.primary and cost is not None:
            clause += self._at_cost(cost, control, group, merged)
        return clause

    def _clause_of_level(
        self, metric: str, control: str, level: str, most: Sequence[EffectRecord], rest: Sequence[EffectRecord]
    ) -> str:
        """The same of a factor's level whose arms stand apart from the others."""
        words = phrase_of(metric)
        more = words.more if most[0].verdict == "higher" else words.less
        others = len({effect.arm for effect in rest})
        return (
            f"all {len({effect.arm for effect in most})} arms with {level} {words.several} {more} than {control}: "
            f"{_span(most)}; {others} other arm{'s' if others > 1 else ''}: {_span(rest)}"
        )

    def _strongest(self, group: Sequence[EffectRecord]) -> tuple[str, list[EffectRecord], list[EffectRecord]] | None:
        """(level of a factor, its arms' effects, the others) where all arms of that level, and they alone, are beyond
        every other arm of a large group; None if no level is.
        """
        arms = {effect.arm for effect in group}
        if self.factors is None or len(arms) <= MOST_NAMES:
            return None
        compared = set(self.factors.levels_of) - {self.summary.control}
        for index, factor in enumerate(self.factors.factors):
            for level in factor.levels:
                of_level = {arm for arm in compared if self.factors.levels_of[arm][index] == level}
                most = [effect for effect in group if effect.arm in of_level]
                rest = [effect for effect in group if effect.arm not in of_level]
                if len(of_level) < 2 or not of_level <= arms or not rest:
                    continue
                if min(abs(e.ratio - 1) for e in most if e.ratio) > max(abs(e.ratio - 1) for e in rest if e.ratio):
                    return level, most, rest
        return None

    def _at_cost(self, cost: str, control: str, group: Sequence[EffectRecord], merged: set[str]) -> str:
        """ ", at 5 % less CPU per query" where all arms of the clause have a verdict of one direction at all steps."""
        arms = {effect.arm for effect in group}
        found = [effect for effect in self._by_control(cost).get(control, []) if effect.arm in arms]
        directions = {effect.verdict for effect in found}
        if not found or len(directions) != 1 or not directions <= {"higher", "lower"}:
            return ""
        if {effect.arm for effect in found} != arms or any(effect.ratio is None for effect in found):
            return ""
        merged.update(arms)
        more = "more" if directions == {"higher"} else "less"
        return f", at {_spread(found)} {more} {phrase_of(cost).short_noun}"

    def _who(self, arms: Sequence[str], among: Sequence[str]) -> str:
        """The arms by name; of many the factor's level that they share, or their number."""
        order = {arm: index for index, arm in enumerate(self.summary.arms)}
        names = sorted(dict.fromkeys(arms), key=lambda arm: order.get(arm, len(order)))
        all_names = list(dict.fromkeys(among))
        if len(names) <= MOST_NAMES:
            level = self._level(names, all_names) if len(names) > 2 else None
            return f"all {len(names)} arms with {level}" if level else listing(names)
        if len(names) == len(all_names):
            return f"all {len(names)} arms"
        level = self._level(names, all_names)
        return f"all {len(names)} arms with {level}" if level else f"{len(names)} of {len(all_names)} arms"

    def _level(self, names: Sequence[str], among: Sequence[str]) -> str | None:
        return self.factors.level_shared_by(names, among) if self.factors else None

    def _where(self, group: Sequence[EffectRecord], among: Sequence[EffectRecord]) -> str:
        """At which steps, unless at all of them."""
        arms = {effect.arm for effect in group}
        steps = {effect.step for effect in among if effect.arm in arms}
        of_arm = [{effect.step for effect in group if effect.arm == arm} for arm in arms]
        if all(of == steps for of in of_arm):
            return ""
        if any(of != of_arm[0] for of in of_arm):
            return " at some load levels"
        return self._steps(of_arm[0], steps)

    def _steps(self, chosen: set[str], among: set[str]) -> str:
        """Some of the steps in words: a level of load, a workload, one step, or how many."""
        found = {step.id: step for step in self.summary.steps if step.id in among}
        levels = {name: load_level(step.connections, step.rate) for name, step in found.items()}
        workloads = {name: step.workload for name, step in found.items()}
        for names, words in ((levels, " at {}"), (workloads, " with {}")):
            for name in dict.fromkeys(names.values()):
                if {step for step, of in names.items() if of == name} == chosen:
                    return words.format(name)
        if len(chosen) == 1:
            (only,) = chosen
            return f" at {levels[only]} ({workloads[only]})" if only in levels else f" at {only}"
        return f" at {len(chosen)} of {len(among)} load levels"

    def _by_steps(self, group: Sequence[EffectRecord], among: Sequence[EffectRecord]) -> list[list[EffectRecord]]:
        """The group cut into arms that share their steps, so that each part can say where; whole if that is no use."""
        parts: dict[frozenset[str], list[EffectRecord]] = {}
        for arm in dict.fromkeys(effect.arm for effect in group):
            of_arm = [effect for effect in group if effect.arm == arm]
            steps = {effect.step for effect in of_arm}
            whole = steps == {effect.step for effect in among if effect.arm == arm}
            parts.setdefault(frozenset() if whole else frozenset(steps), []).extend(of_arm)
        return list(parts.values()) if len(parts) <= MOST_PARTS else [list(group)]


def _is_one(effects: Sequence[EffectRecord]) -> bool:
    return len({effect.arm for effect in effects}) == 1


def _joined(clauses: Sequence[str]) -> list[str]:
    """Clauses as sentences; neighbours that are short together share one."""
    sentences: list[str] = []
    for clause in clauses:
        if sentences and len(sentences[-1]) + len(clause) <= LONGEST:
            sentences[-1] += f"; {clause}"
        else:
            sentences.append(clause)
    return [f"{capital(sentence)}." for sentence in sentences]


def capital(sentence: str) -> str:
    """The sentence with a capital, unless it begins with an arm's name."""
    return f"A{sentence[1:]}" if sentence.startswith("all ") else sentence


def _span(effects: Sequence[EffectRecord]) -> str:
    """The size of one effect with its interval, or from the least to the greatest of several."""
    ratios = sorted(effect.ratio - 1 for effect in effects if effect.ratio is not None)
    if len(ratios) == 1:
        (only,) = effects
        if only.ci_low is None or only.ci_high is None:
            return signed(ratios[0])
        return f"{signed(ratios[0])} (between {signed(only.ci_low - 1)} and {signed(only.ci_high - 1)})"
    low, high = signed(ratios[0]), signed(ratios[-1])
    return f"about {low}" if low == high else f"{low} to {high}"


def _spread(effects: Sequence[EffectRecord]) -> str:
    """The sizes without sign: "8 %", "4.1 to 8 %"."""
    sizes = sorted(abs(effect.ratio - 1) for effect in effects if effect.ratio is not None)
    low, high = size(sizes[0]), size(sizes[-1])
    return high if low == high else f"{low.removesuffix(' %')} to {high}"
