"""What published studies concluded, compared with this study's own verdicts and limits.

Conclusions, their rules and the rules' numbers are in experiments/published/*.toml; this module knows no study.

Only pairs of arms that differ in one treatment count, and only what was declared before the first run has a verdict.
Where the condition of a conclusion (a full link, a load above 32 connections) did not occur here, the answer is
"cannot tell", with what occurred instead. Growth over connections and the traffic of a full link are no contrasts of
arms; they are decided by the interval of one number per block, from 6 blocks on. Where two copies of the control
differ (the A/A alarm), every answer is "cannot tell".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from mydyno.analysis.published.figures import AGREEMENT, Agreement, all_of, compare
from mydyno.experiment_file.published_studies import (
    Conclusion,
    FlatAtFullLink,
    FullLinkShare,
    RatioAtConnections,
    StopsGrowing,
    StudyPart,
    VerdictOfPairs,
    published_studies,
)
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.factors import only_difference
from mydyno.model.definition.quantities import parse_bits_per_s
from mydyno.model.stored.reasons import Fact, FactEffect, FactValue, Figure, fact
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, LimitRecord, RunSummary
from mydyno.results.precision import alarm_of, used_logs
from mydyno.stats.paired import paired
from mydyno.stats.tost import FEWEST_BLOCKS

AGREES, DISAGREES, CANNOT_TELL = Agreement.AGREES, Agreement.DISAGREES, Agreement.CANNOT_TELL


Answer = tuple[Agreement, tuple[Fact, ...]]


@dataclass(frozen=True)
class Facts:
    """What a conclusion is compared with."""

    experiment: Experiment
    runs: Sequence[RunSummary]
    effects: Sequence[EffectRecord]
    limits: Mapping[tuple[str, str], LimitRecord]
    """{(arm, step): limit}."""

    def contrasts(self, treatment: str) -> Iterator[tuple[EffectRecord, Step]]:
        """Effects with a verdict on the primary metric of arms that differ in this treatment alone."""
        steps = {step.id: step for step in self.experiment.resolved_steps}
        for effect in self.effects:
            if effect.metric == self.experiment.verdict.leading and effect.verdict and effect.step in steps:
                arms = self.experiment.arm(effect.arm), self.experiment.arm(effect.control)
                if only_difference(*arms) == treatment:
                    yield effect, steps[effect.step]

    def pairs(self, treatment: str, where: str) -> list[EffectRecord]:
        """Those of the contrasts whose links were, or were not, the limit."""
        found = []
        for effect, _ in self.contrasts(treatment):
            of_control = self.limit(effect.control, effect.step)
            holds = {
                "away_from_full_link": of_control not in ("link", "unknown"),
                "control_at_full_link": of_control == "link",
                "both_at_full_link": of_control == self.limit(effect.arm, effect.step) == "link",
            }
            found += [effect] if holds[where] else []
        return found

    def limit(self, arm: str, step: str) -> str:
        """What limited an arm at a step; "unknown" where its link was not proved."""
        found = self.limits.get((arm, step))
        return found.limit if found else "unknown"

    def logs(self, metric: str, arm: str) -> dict[str, dict[int, float]]:
        """{step: {block: log of the value}} of an arm's runs that count; steps without one are absent."""
        every = {step.id: used_logs(self.runs, metric, step.id) for step in self.experiment.resolved_steps}
        found = {step: {block: of[arm] for block, of in logs.items() if arm in of} for step, logs in every.items()}
        return {step: logs for step, logs in found.items() if logs}

    def growth(self, metric: str, arm: str, low: str, high: str) -> Figure:
        """How much the metric grows from one step to another, one number per block."""
        logs = self.logs(metric, arm)
        first, last = logs.get(low, {}), logs.get(high, {})
        return figure_of([last[block] - first[block] for block in sorted(first.keys() & last.keys())])


def figure_of(log_ratios: Sequence[float]) -> Figure:
    """The figure from one log ratio per block."""
    answer = paired(log_ratios)
    if answer.n < FEWEST_BLOCKS:
        return Figure(ratio=answer.ratio, low=None, high=None)
    return Figure(ratio=answer.ratio, low=answer.interval.low, high=answer.interval.high)


def _within(figure: Figure, tolerance: float) -> Agreement:
    """Agrees where the interval lies inside 1 ± tolerance, disagrees where it lies outside."""
    if figure.low is None or figure.high is None:
        return CANNOT_TELL
    if 1 - tolerance <= figure.low and figure.high <= 1 + tolerance:
        return AGREES
    return DISAGREES if figure.low > 1 + tolerance or figure.high < 1 - tolerance else CANNOT_TELL


def conclusions_of(
    experiment: Experiment, runs: Sequence[RunSummary], effects: Sequence[EffectRecord], limits: Sequence[LimitRecord]
) -> tuple[ConclusionRecord, ...]:
    """Every conclusion with its answer, in the study's order; empty where the experiment does not repeat it."""
    facts = Facts(experiment, runs, effects, {(limit.arm, limit.step): limit for limit in limits})
    known, alarm = published_studies(), alarm_of(effects)
    differ = (fact("copies differ", control=alarm.control),) if alarm else ()
    found = []
    for name in experiment.published:
        published = known.get(name)
        for part in published.parts if published is not None and published.concludes_on(experiment) else ():
            for conclusion in part.conclusions:
                answer, why = (CANNOT_TELL, differ) if differ else _answer(facts, part, conclusion)
                found.append(
                    ConclusionRecord(study=name, part=part.name, claim=conclusion.claim, answer=answer.value, facts=why)
                )
    return tuple(found)


def _answer(facts: Facts, part: StudyPart, conclusion: Conclusion) -> Answer:
    match conclusion.test:
        case FullLinkShare() as test:
            return _full_link_share(facts, test)
        case FlatAtFullLink() as test:
            return _flat_at_full_link(facts, test)
        case VerdictOfPairs() as test:
            return _verdict_of_pairs(facts, part.treatment, test)
        case RatioAtConnections() as test:
            return _ratio_at_connections(facts, part.treatment, test)
        case StopsGrowing() as test:
            return _stops_growing(facts, part.treatment, test)


def _full_link_share(facts: Facts, test: FullLinkShare) -> Answer:
    """The most that any arm carried on each bandwidth: a link counts as full from 90 % on."""
    outside = facts.experiment.server.dsn is not None  # then the load's interface is sampled
    metric = f"network_{'rx' if outside else 'tx'}_bytes_per_s"
    most: dict[float, tuple[float, str, str, Figure]] = {}
    for (arm, step), limit in facts.limits.items():
        speed = _bits_per_s(facts.experiment.arm(arm).treatments.get("network"))
        sent = list(facts.logs(metric, arm).get(step, {}).values())
        if limit.limit == "link" and speed and sent:
            share = exp(fmean(sent)) * 8 / speed
            figure = figure_of([one + log(8 / speed / test.share) for one in sent])
            if share > most.get(speed, (0.0, ""))[0]:
                most[speed] = share, arm, step, figure
    if not most:
        return CANNOT_TELL, (_no_full_link(facts),)
    why = tuple(fact("sent", arm=arm, step=step, share=share) for share, arm, step, _ in most.values())
    return all_of([_within(figure, test.tolerance) for *_, figure in most.values()]), why


def _no_full_link(facts: Facts) -> Fact:
    if not facts.limits:
        return fact("no proved link")
    fullest = max(facts.limits.values(), key=lambda limit: limit.shares.get("link", 0.0))
    share = fullest.shares.get("link", 0.0)
    return fact("no full link", arm=fullest.arm, step=fullest.step, share=share)


def _no_pair_at_a_full_link(facts: Facts, name: str, treatment: str) -> Fact:
    """What was there instead of pairs at a full link."""
    full = [f"{arm} at {step}" for (arm, step), limit in facts.limits.items() if limit.limit == "link"]
    return fact(name, treatment=treatment, full=", ".join(full)) if full else _no_full_link(facts)


def _flat_at_full_link(facts: Facts, test: FlatAtFullLink) -> Answer:
    growth: list[tuple[Figure, Fact]] = []
    for arm in facts.experiment.arms:
        measured = facts.logs("tps", arm.name)
        full = [step for step in facts.experiment.resolved_steps if facts.limit(arm.name, step.id) == "link"]
        full = sorted((step for step in full if step.id in measured), key=lambda step: step.connections)
        if len(full) > 1 and full[0].workload == full[-1].workload:
            first, last = full[0], full[-1]
            figure = facts.growth("tps", arm.name, first.id, last.id)
            why = fact("grew", arm=arm.name, first=first.connections, last=last.connections, growth=figure)
            growth.append((figure, why))
    if not growth:
        return CANNOT_TELL, (fact("no link full at two loads"),)
    return all_of([_within(figure, test.tolerance) for figure, _ in growth]), tuple(why for _, why in growth)


def _by_verdict(effects: Sequence[EffectRecord], wanted: str, absent: Fact) -> Answer:
    """Agrees where the verdicts are the wanted one, partly where some are."""
    if not effects:
        return CANNOT_TELL, (absent,)
    why = tuple(fact("effect", effect=FactEffect.like(one, verdict=str(one.verdict))) for one in effects)
    decided = [effect.verdict for effect in effects if effect.verdict in ("higher", "lower", "equivalent")]
    if not decided:
        return CANNOT_TELL, why
    return all_of([AGREES if verdict == wanted else DISAGREES for verdict in decided]), why


def _verdict_of_pairs(facts: Facts, treatment: str, test: VerdictOfPairs) -> Answer:
    if test.where == "away_from_full_link":
        absent = fact("no pair away from a full link", treatment=treatment)
    else:
        name = "no control at a full link" if test.where == "control_at_full_link" else "no pair at a full link"
        absent = _no_pair_at_a_full_link(facts, name, treatment)
    return _by_verdict(facts.pairs(treatment, test.where), test.verdict, absent)


def _ratio_at_connections(facts: Facts, treatment: str, test: RatioAtConnections) -> Answer:
    pairs = [effect for effect, step in facts.contrasts(treatment) if step.connections == test.connections]
    if not pairs:
        return CANNOT_TELL, (fact("no pair at", treatment=treatment, connections=test.connections),)
    margin = facts.experiment.verdict.margin
    answers = [compare(test.ratio, one, test.rounding, margin) for one in pairs]
    why = tuple(fact("compared", arm=e.arm, ratio=answer) for e, answer in zip(pairs, answers, strict=True))
    agreements = [AGREEMENT[answer.because] for answer in answers]
    return all_of([one for one in agreements if one != CANNOT_TELL]), why


def _stops_growing(facts: Facts, treatment: str, test: StopsGrowing) -> Answer:
    found: list[tuple[Agreement, Fact]] = []
    for control, arm in dict.fromkeys((effect.control, effect.arm) for effect, _ in facts.contrasts(treatment)):
        without_it, with_it = facts.logs("tps", control), facts.logs("tps", arm)
        free = sorted(
            (
                step
                for step in facts.experiment.resolved_steps
                if step.connections >= test.from_connections
                and step.id in without_it
                and step.id in with_it
                and facts.limit(control, step.id) != "link"
            ),
            key=lambda step: step.connections,
        )
        if len(free) < 2:
            continue
        low, high = free[0].id, free[-1].id
        untreated, treated = (facts.growth("tps", one, low, high) for one in (control, arm))
        grew: dict[str, FactValue] = {
            "low": low,
            "high": high,
            "control": control,
            "untreated": untreated,
            "arm": arm,
            "treated": treated,
        }
        if (
            untreated.low is None
            or untreated.low - 1 < test.control_grows
            or treated.low is None
            or treated.high is None
        ):
            least = fact("no growth without it", **grew, share=test.control_grows, treatment=treatment)
            found.append((CANNOT_TELL, least))
        elif treated.high - 1 <= test.at_most:
            found.append((AGREES, fact("grew apart", **grew)))
        else:
            answer = DISAGREES if treated.low - 1 > test.at_most else CANNOT_TELL
            found.append((answer, fact("grew apart", **grew)))
    if not found:
        return CANNOT_TELL, (fact("no two loads", least=test.from_connections),)
    return all_of([answer for answer, _ in found if answer != CANNOT_TELL]), tuple(why for _, why in found)


def _bits_per_s(network: object) -> float | None:
    """The nominal speed of a network treatment; None if it is not shaped."""
    wanted = network.get("bandwidth") if isinstance(network, dict) else network
    return None if wanted is None else parse_bits_per_s(wanted)
