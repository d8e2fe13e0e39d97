"""Clauses about the contrasts of one study, from their verdicts: which arms differ, at which steps, by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from mydyno.language import agreed, listing
from mydyno.model.definition.factors import Factors
from mydyno.model.metrics import Phrase
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.precision import MOST_PROMISED, cost_metric, half_widths
from mydyno.wording.numbers import (
    MOST_NAMES,
    change_words,
    half_widths_text,
    margin_text,
    plus_minus,
    signed,
    size_range,
)
from mydyno.wording.verdicts import (
    NO_PAIR,
    cut,
    failure_of,
    less_work,
    lost_blocks,
    may_last,
    taken_of_cpus,
    unproved_words,
)

LONGEST = 170
"""Characters up to which two clauses make one sentence."""
SEVERAL_TIMES = 3
"""Ratio of costs from which on they are given as factors: "17 times" is read more easily than "1565 % more"."""
MOST_SIZES = 6
"""Arms that a sentence names with a size each."""
MOST_PARTS = 2
"""Clauses on one verdict, of arms that have it at different steps."""


@dataclass(frozen=True)
class Clauses:
    """Clauses about the contrasts of one study."""

    summary: Summary
    factors: Factors | None
    latency_margin: float

    @property
    def several_controls(self) -> bool:
        """Whether arms are compared with several controls in the first metric of the question."""
        return len(self._by_control(self.summary.primary)) > 1

    def decided(self, without: Sequence[str] = ()) -> list[str]:
        """Sentences on what is higher, lower or equivalent: the primary metric first, then the cost, then others."""
        summary = self.summary
        cost = cost_metric(summary)
        others = dict.fromkeys(effect.metric for effect in summary.effects if effect.verdict)
        metrics = dict.fromkeys(filter(None, (summary.primary, cost, *others)))
        if cost:
            metrics = {metric: None for metric in metrics if metric == cost or not summary.phrase(metric).cost
                       or metric == summary.primary}  # fmt: skip
        return self._sentences([metric for metric in metrics if metric not in without], cost)

    def decided_on(self, metric: str) -> list[str]:
        """Sentences on what is higher, lower or equivalent in one metric."""
        return self._sentences([metric], None)

    def _sentences(self, metrics: Sequence[str], cost: str | None) -> list[str]:
        clauses, told = self._of_levels(metrics[0])
        merged: set[str] = set()
        for metric in metrics:
            for control, effects in self._by_control(metric).items():
                left = [effect for effect in effects if id(effect) not in told]
                clauses += self._clauses(metric, control, left, cost, merged)
        return _joined(clauses)

    def _of_levels(self, metric: str) -> tuple[list[str], set[int]]:
        """What a level of a factor does at several combinations of the other factors, where arms have controls of their
        own for that; and the identities of these arms' effects, which need no further clause.
        """
        if self.factors is None:
            return [], set()
        found: dict[tuple[str, str], list[tuple[str, EffectRecord]]] = {}
        of = self.factors.levels_of
        for effect in (one for effects in self._by_control(metric).values() for one in effects):
            if effect.arm not in of or effect.control not in of:
                continue
            pairs = list(zip(of[effect.arm], of[effect.control], strict=True))
            differing = [pair for pair in pairs if pair[0] != pair[1]]
            if len(differing) == 1:
                rest = "-".join(level for level, base in pairs if level == base)
                found.setdefault(differing[0], []).append((rest, effect))
        clauses: list[str] = []
        told: set[int] = set()
        for (level, base), group in found.items():
            own = {id(effect) for _, effect in group if effect.control != self.summary.control}
            for verdict in ("higher", "lower"):
                part = [(rest, one) for rest, one in group if one.verdict == verdict and one.ratio is not None]
                if part and own:
                    clauses.append(self._level_clause(metric, level, base, part))
                    told |= own & {id(effect) for _, effect in part}
        return clauses, told

    def _level_clause(self, metric: str, level: str, base: str, part: Sequence[tuple[str, EffectRecord]]) -> str:
        words, effects = self.summary.phrase(metric), [effect for _, effect in part]
        clause = (
            f"{level} {words.one} {_direction(words, effects)} than {base} with {listing([rest for rest, _ in part])}"
        )
        return f"{clause}: {_span(effects)}{less_work(self.summary, effects)}"

    def undecided(self, host_is_told: bool, metric: str | None = None) -> list[str]:
        """A sentence on the contrasts of a metric that are inconclusive, and one on those not measurable.

        None: the first metric of the question.
        """
        metric = metric or self.summary.primary
        effects = [effect for effect in self.summary.effects if effect.metric == metric]
        judged = [effect for effect in effects if effect.verdict]
        open_ = [effect for effect in judged if effect.verdict == "inconclusive"]
        sentences = []
        if open_:
            noun = self.summary.phrase(metric).short_noun
            widths = half_widths(open_)
            hidden = told = ""
            largest = _largest_difference(open_)
            if largest is not None and largest <= self._margin(metric):
                what_else = "an effect that lasts longer than a slice is in all arms"
                if not any(map(may_last, open_)):
                    what_else = "calling that equivalent needs more blocks"
                hidden = f"the difference is at most about {plus_minus(largest)}, but {what_else}"
            elif widths and median(widths) > MOST_PROMISED:
                hidden = "the noise is too large for an answer"
                told = "" if host_is_told else taken_of_cpus(self.summary)
            elif widths:
                whose = "this host's" if self.summary.host_groups is None else "these hosts'"
                hidden = f"differences below about {half_widths_text(widths)} are hidden by {whose} noise"
            measured = [effect for effect in judged if effect.verdict != "not_measurable"]
            if len(open_) == len(judged if host_is_told else measured):
                alone = all(effect.n == 1 for effect in open_)
                why = hidden or ("one block gives no interval" if alone else "")
                if host_is_told:
                    sentence = f"All comparisons of {noun} are inconclusive"
                elif told:
                    sentence = f"{told}: {why}"
                else:
                    sentence = f"No difference in {noun} is shown yet{': ' if why else ''}{why}"
            else:
                who = self._whose(open_, judged)
                where = self._where(open_, judged)
                tail = f": {hidden}" if hidden and not host_is_told else ""
                sentence = f"{who} {'is' if _arms(open_) == 1 else 'are'} inconclusive in {noun}{where}{tail}"
            sentences.append(f"{sentence}{less_work(self.summary, open_)}.")
        unmeasured = [
            effect for effect in judged if effect.verdict == "not_measurable" and not failure_of(self.summary, effect)
        ]
        if unmeasured:
            who = self._who([effect.arm for effect in unmeasured], [effect.arm for effect in judged])
            reasons = Counter(reason for effect in unmeasured for reason in lost_blocks(effect.details))
            unproved = unproved_words(self.summary, unmeasured)
            said = [cut(reasons.most_common(1)[0][0])] if reasons else []
            if not reasons and all(effect.n == 0 for effect in unmeasured):
                said = [NO_PAIR]
            why = "".join(f": {words}" for words in (*said, unproved) if words)
            sentences.append(
                f"{who} {'is' if _arms(unmeasured) == 1 else 'are'} not "
                f"measurable{self._where(unmeasured, judged)}{why}."
            )
        return [capital(sentence) for sentence in sentences]

    def _margin(self, metric: str) -> float:
        return self.latency_margin if metric.startswith("latency_") else self.summary.margin

    def _by_control(self, metric: str) -> dict[str, list[EffectRecord]]:
        found: dict[str, list[EffectRecord]] = {self.summary.control: []}
        for effect in self.summary.effects:
            if effect.metric == metric and effect.verdict:
                found.setdefault(effect.control, []).append(effect)
        return {control: effects for control, effects in found.items() if effects}

    def _clauses(
        self, metric: str, control: str, effects: list[EffectRecord], cost: str | None, merged: set[str]
    ) -> list[str]:
        words = self.summary.phrase(metric)
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
            within = margin_text(self._margin(metric))
            clauses.append(
                f"{who} {'is' if _arms(same) == 1 else 'are'} equivalent to {control} within {within} in "
                f"{words.short_noun}{self._where(same, effects)}{less_work(self.summary, same)}"
            )
        return clauses

    def _clause(
        self, metric: str, control: str, group: Sequence[EffectRecord], effects: Sequence[EffectRecord],
        cost: str | None, merged: set[str],
    ) -> str:  # fmt: skip
        """What arms of one verdict do more or less of than the control, and by how much."""
        words = self.summary.phrase(metric)
        who = self._who([effect.arm for effect in group], [effect.arm for effect in effects])
        verb = words.one if _arms(group) == 1 else words.several
        where = self._where(group, effects)
        if words.cost and metric not in (self.summary.primary, *self.summary.also_primary):
            beside = "of" if _times(group) else "than"
            amount = _amount(group, words.short_noun)
            return f"{who} {verb} {amount} {beside} {control}{where}{less_work(self.summary, group)}"
        size, with_workloads = _span(group), self._with_workloads(group)
        if with_workloads:
            size, where = with_workloads, ""
        each = self._each_with_size(group, effects)
        clause = f"{each or who} {verb} {_direction(words, group)} than {control}{where}"
        clause += "" if each else f": {size}"
        if metric == self.summary.primary and cost is not None:
            clause += self._at_cost(cost, control, group, merged)
        return clause + less_work(self.summary, group)

    def _clause_of_level(
        self, metric: str, control: str, level: str, most: Sequence[EffectRecord], rest: Sequence[EffectRecord]
    ) -> str:
        """The same of a factor's level whose arms stand apart from the others."""
        words = self.summary.phrase(metric)
        return agreed(
            f"all {_arms(most)} arms with {level} {words.several} {_direction(words, most)} than {control}: "
            f"{_span(most)}; {_arms(rest)} other arms: {_span(rest)}"
        ) + less_work(self.summary, [*most, *rest])

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
        return f", at {_amount(found, self.summary.phrase(cost).short_noun)}"

    def _each_with_size(self, group: Sequence[EffectRecord], among: Sequence[EffectRecord]) -> str:
        """ "a (−27 %) and b (−83 %)" of a few arms without a common level and with one effect each; else empty."""
        order = {arm: index for index, arm in enumerate(self.summary.arms)}
        effects = sorted(group, key=lambda effect: order.get(effect.arm, len(order)))
        names = [effect.arm for effect in effects]
        sizes = [signed((effect.ratio or 1.0) - 1) for effect in effects]
        alike = len(set(sizes)) == 1 or (len(names) > 2 and self._level(names, [effect.arm for effect in among]))
        if alike or len(set(names)) != len(names) or len(names) > MOST_SIZES:
            return ""
        return listing([f"{arm} ({size})" for arm, size in zip(names, sizes, strict=True)])

    def _with_workloads(self, group: Sequence[EffectRecord]) -> str:
        """ "−94 % with kv_set and −67 % with kv_mixed" of one arm that has one effect on each workload; else empty."""
        workloads = {step.id: step.workload for step in self.summary.steps}
        named = {workloads.get(effect.step, effect.step): effect for effect in group}
        alike = len({signed((effect.ratio or 1.0) - 1) for effect in group}) == 1
        if alike or _arms(group) > 1 or not len(group) == len(named) <= MOST_NAMES:
            return ""
        return listing([f"{signed((effect.ratio or 1.0) - 1)} with {workload}" for workload, effect in named.items()])

    def _who(self, arms: Sequence[str], among: Sequence[str]) -> str:
        """The arms by name; of many the factor's level that they share, or their number."""
        order = {arm: index for index, arm in enumerate(self.summary.arms)}
        names = sorted(dict.fromkeys(arms), key=lambda arm: order.get(arm, len(order)))
        all_names = list(dict.fromkeys(among))
        if len(names) <= MOST_NAMES:
            level = self._level(names, all_names) if len(names) > 2 else None
            return _all_with(names, level) if level else listing(names)
        if len(names) == len(all_names):
            return agreed(f"all {len(names)} arms")
        level = self._level(names, all_names)
        if level:
            return _all_with(names, level)
        return agreed(f"{len(names)} of {len(all_names)} arms")

    def _whose(self, open_: Sequence[EffectRecord], judged: Sequence[EffectRecord]) -> str:
        """The arms of contrasts; where some are not with the experiment's control, these with theirs."""
        if all(effect.control == self.summary.control for effect in open_):
            return self._who([effect.arm for effect in open_], [effect.arm for effect in judged])
        names = dict.fromkeys(
            effect.arm if effect.control == self.summary.control else f"{effect.arm} against {effect.control}"
            for effect in open_
        )
        if len(names) > MOST_NAMES:
            return agreed(f"{len(open_)} of {len(judged)} comparisons")
        return listing(list(names))

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
        levels = {name: step.level for name, step in found.items()}
        workloads = {name: step.workload for name, step in found.items()}
        for level in dict.fromkeys(levels.values()):
            if {step for step, of in levels.items() if of == level} == chosen:
                return f" at {level}"
        for workload in dict.fromkeys(workloads.values()):
            if {step for step, of in workloads.items() if of == workload} == chosen:
                return f" with {workload}"
        if len(chosen) == 1:
            (only,) = chosen
            if only not in levels:
                return f" at {only}"
            return f" at {levels[only]} ({workloads[only]})"
        return agreed(f" at {len(chosen)} of {len(among)} load levels")

    def _by_steps(self, group: Sequence[EffectRecord], among: Sequence[EffectRecord]) -> list[list[EffectRecord]]:
        """Split the group by the steps at which its arms have the verdict; unsplit where that makes too many parts."""
        parts: dict[frozenset[str], list[EffectRecord]] = {}
        for arm in dict.fromkeys(effect.arm for effect in group):
            of_arm = [effect for effect in group if effect.arm == arm]
            steps = {effect.step for effect in of_arm}
            whole = steps == {effect.step for effect in among if effect.arm == arm}
            parts.setdefault(frozenset() if whole else frozenset(steps), []).extend(of_arm)
        return list(parts.values()) if len(parts) <= MOST_PARTS else [list(group)]


def _direction(words: Phrase, effects: Sequence[EffectRecord]) -> str:
    """What arms of one verdict do more or less of."""
    return words.more if effects[0].verdict == "higher" else words.less


def _amount(effects: Sequence[EffectRecord], noun: str) -> str:
    """A cost of arms of one verdict: "5 % less CPU per query", "3 times the CPU per query"."""
    if times := _times(effects):
        return agreed(f"{times} times the {noun}")
    shares = [effect.ratio - 1 for effect in effects if effect.ratio is not None]
    return f"{size_range(shares)} {'more' if effects[0].verdict == 'higher' else 'less'} {noun}"


def _arms(effects: Sequence[EffectRecord]) -> int:
    """How many arms they are of."""
    return len({effect.arm for effect in effects})


def _all_with(names: Sequence[str], level: str) -> str:
    return agreed(f"all {len(names)} arms with {level}")


def _joined(clauses: Sequence[str]) -> list[str]:
    """Clauses as sentences; neighbours that are short together share one."""
    sentences: list[str] = []
    for clause in clauses:
        if sentences and len(sentences[-1]) + len(clause) <= LONGEST:
            sentences[-1] = f"{sentences[-1]}; {clause}"
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
        return change_words(1 + ratios[0], only.ci_low, only.ci_high)
    low, high = signed(ratios[0]), signed(ratios[-1])
    return f"about {low}" if low == high else f"{low} to {high}"


def _largest_difference(effects: Sequence[EffectRecord]) -> float | None:
    """The end of an interval that is farthest from no difference, as a share; None if one has no interval."""
    ends = [end for effect in effects for end in (effect.ci_low, effect.ci_high)]
    known = [abs(end - 1.0) for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _times(effects: Sequence[EffectRecord]) -> str:
    """Ratios as factors, "1.5 to 17", where none is below 1 and one is SEVERAL_TIMES or more; else empty."""
    ratios = sorted(effect.ratio for effect in effects if effect.ratio is not None)
    if ratios[0] < 1 or ratios[-1] < SEVERAL_TIMES:
        return ""
    low, high = f"{ratios[0]:.2g}", f"{ratios[-1]:.2g}"
    return high if low == high else f"{low} to {high}"
