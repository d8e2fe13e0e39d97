"""The answer in one to three short sentences, where it holds, and what would make it better.

Pure: made from the summary's effects with their verdicts. A sentence claims what a verdict says and nothing beyond it.
The sentences in full, one for each contrast, are in Summary.sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.model.factors import Factors, factors_of
from mydyno.model.records import EffectRecord, RunRecord, StudyRecord, Summary
from mydyno.results.plain_words import MOST_NAMES, blocks, listing, metric_words, plus_minus, signed, size
from mydyno.results.precision import (
    FIRST_LOOK,
    block_duration_s,
    blocks_for,
    cost_metric,
    duration_option,
    duration_words,
    failed_blocks,
    finished_blocks,
    precision,
    steal_share,
)
from mydyno.results.scope_line import scope_line
from mydyno.results.sharpen import sharpen_lines

MUCH_STEAL = 0.5
"""From this share on the answer begins with what the host gives."""
DECIDED = ("higher", "lower", "equivalent")
ALARM_WORDS = "although they are the same"
LONGEST = 170
"""Characters up to which two clauses make one sentence."""
MOST_SENTENCES = 3
TARGET = 0.02
REASON_CHARACTERS = 90


@dataclass(frozen=True, slots=True)
class Answer:
    """What a report begins with."""

    answer: tuple[str, ...]
    scope: str
    sharpen: tuple[str, ...]


def answer_study(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> Answer:
    """The answer of a study from its summary; `records` are its finished runs, for times and server versions."""
    return Answer(
        answer_sentences(summary, study, records),
        scope_line(summary, study, records),
        sharpen_lines(summary, records),
    )


def with_answer(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> Summary:
    """The summary with answer, scope and sharpen filled in."""
    found = answer_study(summary, study, records)
    return summary.model_copy(update={"answer": found.answer, "scope": found.scope, "sharpen": found.sharpen})


def answer_sentences(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> tuple[str, ...]:
    """One to three sentences, the most important ones where there are more."""
    nothing = _nothing(summary, study, records)
    failures = _failures(summary)
    alarm = alarm_of(summary.effects)
    if alarm:
        found = [f"The control differs from its own copy, so nothing is concluded: {_short_alarm(alarm)}."]
        return tuple([*found, *failures][:MOST_SENTENCES])
    lead = _host_first(summary, records)
    if nothing:
        return tuple([*lead, nothing, *failures][:MOST_SENTENCES])
    writer = _Writer(summary, factors_of(study.experiment.arms), study.experiment.verdict.latency_margin)
    decided, open_ = writer.decided(), writer.undecided(bool(lead))
    room = max(1, MOST_SENTENCES - len(lead) - len(failures))
    said = [*decided[: max(1, room - len(open_[:1]))], *open_][:room]
    return tuple([*lead, *said, *failures][:MOST_SENTENCES])


def alarm_of(effects: Sequence[EffectRecord]) -> str:
    """The A/A alarm in words; empty where there is none."""
    for effect in effects:
        if effect.verdict == "not_measurable":
            if told := effect.details.get("alarm"):
                return str(told)
            if ALARM_WORDS in effect.sentence:
                return effect.sentence.rpartition(";")[2].strip().rstrip(".")
    return ""


def _short_alarm(alarm: str) -> str:
    """The alarm without what the sentence around it has said."""
    return alarm.partition(f" {ALARM_WORDS}")[0]


def _nothing(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> str:
    """Why there is no answer at all; empty where there are contrasts with verdicts to speak of."""
    if len(study.experiment.arms) == 1:
        return f"{summary.control} is the only arm: this study shows the noise of this host and compares nothing."
    if not summary.runs:
        return "No answer: no run has finished."
    if not any(run.valid for run in summary.runs) and not any(run.failures for run in summary.runs):
        reasons = Counter(reason for run in summary.runs for reason in run.reasons[:1])
        why = f" ({_cut(reasons.most_common(1)[0][0])})" if reasons else ""
        return f"No answer: no run is valid{why}."
    done = finished_blocks(summary)
    if summary.design == "interleaved" and summary.look is None and done < FIRST_LOOK:
        length = block_duration_s(records)
        time = duration_option((FIRST_LOOK - done) * length) if length else "10m"
        return (
            f"No answer yet: {done} of {FIRST_LOOK} blocks; continue with: mydyno resume {summary.study} --time {time}."
        )
    if not any(effect.verdict for effect in summary.effects):
        return "No answer: the study has no evaluated effect."
    return ""


def _host_first(summary: Summary, records: Sequence[RunRecord]) -> list[str]:
    """What a host gives whose hypervisor takes half of the CPU time or more."""
    steal = steal_share(summary)
    if steal is None or steal < MUCH_STEAL:
        return []
    shows, needed = [], 0
    for metric in filter(None, (summary.primary, cost_metric(summary))):
        effects = [effect for effect in summary.effects if effect.metric == metric and effect.verdict]
        width = precision(effects)
        if width is not None:
            shows.append(f"{plus_minus(width)} of {metric_words(metric).noun}")
            looks = summary.design == "interleaved"
            needed = max(needed, blocks_for(TARGET, effects, finished_blocks(summary), summary.alpha, looks) or 0)
    told = f"The hypervisor took {steal:.0%} of this host's CPU time".replace("%", " %")
    if not shows:
        return [f"{told}."]
    length = block_duration_s(records)
    more = needed - finished_blocks(summary)
    time = (
        f"; {plus_minus(TARGET)} would take about {duration_words(more * length)} more" if length and more > 0 else ""
    )
    return [f"{told}: it shows differences from about {listing(shows)}{time}."]


def _failures(summary: Summary) -> list[str]:
    """Every arm that failed, in one sentence: in how many blocks, and why."""
    told = []
    for arm in dict.fromkeys((summary.control, *summary.arms)):
        failed = failed_blocks(summary.runs, arm)
        if failed:
            of = len({run.block for run in summary.runs if run.arm == arm})
            reason = Counter(failed.values()).most_common(1)[0][0]
            name = f"The control {arm}" if arm == summary.control else arm
            told.append(f"{name} failed in {len(failed)} of {blocks(of)} ({_cut(reason)})")
    if len(told) > MOST_NAMES:
        told = [*told[: MOST_NAMES - 1], f"{len(told) - MOST_NAMES + 1} more arms failed"]
    return [f"{'; '.join(told)}."] if told else []


def _cut(reason: str) -> str:
    text = " ".join(reason.split()).rstrip(".")
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True)
class _Writer:
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
            metrics = {metric: None for metric in metrics if metric == cost or not metric_words(metric).unit_of_cost
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
            noun = metric_words(self.summary.primary).noun
            width = precision(open_)
            hidden = f"differences in {noun} below about {plus_minus(width)} are hidden by its noise" if width else ""
            if len(open_) == len([effect for effect in judged if effect.verdict != "not_measurable"]):
                told = f"This host cannot tell yet: {hidden}" if hidden else "This host cannot tell yet"
                sentences.append(f"{told}." if not host_is_told else f"All comparisons of {noun} are inconclusive.")
            else:
                who = self._who([effect.arm for effect in open_], [effect.arm for effect in judged])
                where = self._where(open_, judged)
                tail = f": {hidden}" if hidden and not host_is_told else ""
                sentences.append(f"{who} {'is' if _is_one(open_) else 'are'} inconclusive{where}{tail}.")
        unmeasured = [
            effect for effect in judged
            if effect.verdict == "not_measurable" and not failed_blocks(self.summary.runs, effect.arm, effect.step)
            and not failed_blocks(self.summary.runs, effect.control, effect.step)
        ]  # fmt: skip
        if unmeasured:
            who = self._who([effect.arm for effect in unmeasured], [effect.arm for effect in judged])
            reasons = Counter(str(reason) for effect in unmeasured for reason in effect.details.get("reasons") or ())
            why = f": {_cut(reasons.most_common(1)[0][0])}" if reasons else ""
            verb = "is" if _is_one(unmeasured) else "are"
            sentences.append(f"{who} {verb} not measurable{self._where(unmeasured, judged)}{why}.")
        return sentences

    def _by_control(self, metric: str) -> dict[str, list[EffectRecord]]:
        found: dict[str, list[EffectRecord]] = {self.summary.control: []}
        for effect in self.summary.effects:
            if effect.metric == metric and effect.verdict:
                found.setdefault(effect.control, []).append(effect)
        return {control: effects for control, effects in found.items() if effects}

    def _clauses(
        self, metric: str, control: str, effects: list[EffectRecord], cost: str | None, merged: set[str]
    ) -> list[str]:
        words = metric_words(metric)
        clauses: list[str] = []
        for verdict in ("higher", "lower"):
            group = [effect for effect in effects if effect.verdict == verdict and effect.ratio is not None]
            if metric == cost:
                group = [effect for effect in group if effect.arm not in merged]
            if not group:
                continue
            who = self._who([effect.arm for effect in group], [effect.arm for effect in effects])
            verb = words.one if _is_one(group) else words.several
            clause = f"{who} {verb} {words.more if verdict == 'higher' else words.less} than {control}"
            strongest = self._strongest(group)
            if strongest is not None:
                level, most, rest = strongest
                more = words.more if verdict == "higher" else words.less
                others = len({effect.arm for effect in rest})
                tail = f"; {others} other arm{'s' if others > 1 else ''}: {_span(rest)}"
                who = f"all {len({effect.arm for effect in most})} arms with {level}"
                clauses.append(f"{who} {words.several} {more} than {control}: {_span(most)}{tail}")
                continue
            if words.unit_of_cost and clauses == [] and metric != self.summary.primary:
                clause = f"{who} {verb} {_spread(group)} {'more' if verdict == 'higher' else 'less'} {words.noun}"
                clauses.append(f"{clause} than {control}{self._where(group, effects)}")
                continue
            clause += f"{self._where(group, effects)}: {_span(group)}"
            if metric == self.summary.primary and cost is not None:
                clause += self._at_cost(cost, control, group, merged)
            clauses.append(clause)
        same = [effect for effect in effects if effect.verdict == "equivalent"]
        if same:
            who = self._who([effect.arm for effect in same], [effect.arm for effect in effects])
            within = plus_minus(self.latency_margin if metric.startswith("latency_") else self.summary.margin)
            verb = "is" if _is_one(same) else "are"
            where = self._where(same, effects)
            clauses.append(f"{who} {verb} equivalent to {control} within {within} in {words.noun}{where}")
        return clauses

    def _strongest(self, group: Sequence[EffectRecord]) -> tuple[str, list[EffectRecord], list[EffectRecord]] | None:
        """(level of a factor, its arms' effects, the others) where all arms of that level, and they alone, are beyond
        every other arm of a large group; None where no level is.
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

    def _at_cost(self, cost: str, control: str, group: list[EffectRecord], merged: set[str]) -> str:
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
        return f", at {_spread(found)} {more} {metric_words(cost).unit_of_cost}"

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
        if all(of == of_arm[0] for of in of_arm) and len(of_arm[0]) == 1:
            return f" at {next(iter(of_arm[0]))}"
        if all(of == of_arm[0] for of in of_arm):
            return f" at {len(of_arm[0])} of {len(steps)} load levels"
        return " at some load levels"


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
    return [f"{sentence[0].upper()}{sentence[1:]}." if sentence.startswith("all ") else f"{sentence}."
            for sentence in sentences]  # fmt: skip


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
