"""What published studies claim beside what this study shows; of figures also a chart, as ratios.

Each answer says what it rests on; and which host, which loads or how much time would decide a claim that cannot be
compared yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from mydyno.analysis.base import Analysis, Examined
from mydyno.analysis.published.conclusions import Facts, conclusions_of
from mydyno.analysis.published.figures import compare_with_published, figures_of
from mydyno.document.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.experiment_file.published_studies import (
    Conclusion,
    FlatAtFullLink,
    FullLinkShare,
    RatioAtConnections,
    StopsGrowing,
    VerdictOfPairs,
    published_studies,
)
from mydyno.language import agreed
from mydyno.model.definition.plan import instances_of_each
from mydyno.model.stored.analyses import PublishedEntry
from mydyno.model.stored.reasons import ComparedRatio, Fact, FactEffect, FactValue
from mydyno.model.stored.reasons import Figure as FoundFigure
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, Summary
from mydyno.results.precision import answered_metrics, block_duration_s, is_sequential, outlook
from mydyno.wording.advice import further
from mydyno.wording.numbers import NONE, plus_minus, ratio_interval, signed_percent, size
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdicts import counted_claims, flat

SIGNED = {"agrees": "= agrees", "partly": "~ partly", "disagrees": "≠ disagrees", "cannot tell": "? undecided"}
"""The answers in a table, with a sign, so that no colour is needed to read them."""
TREATMENT_NAMES = {"tls": "TLS"}
"""Treatments that sentences do not call by their key."""
FACTS = {
    "table": "{table}",
    "whole sweep": "the largest over the sweep, in both studies",
    "as queries": "published as TPS, which has the same ratio",
    "other load": "published at {published} connections, here at {here}: another load may have another effect",
    "of the mean": "published of instance {instance}, here of the mean of the instances",
    "ratio": "{ratio}",
    "no link full": "the published ratio is that of a full link, and here the link of neither arm was full",
    "alarm": "{alarm}",
    "copies differ": "two copies of {control} differ, although they are identical",
    "sent": "{arm} at {step} sent {share} of its nominal speed",
    "no proved link": "no arm has a proved link",
    "no full link": "no link was full: the fullest was that of {arm} at {step}, {share}",
    "grew": "{arm} from {first} to {last} connections: {growth}",
    "no link full at two loads": "no arm filled its link at two loads",
    "effect": "{effect}",
    "no pair away from a full link": "no pair of arms differs in {treatment} alone away from a full link",
    "no control at a full link": (
        "no pair of arms that differ in {treatment} alone had its control at a full link; the full links were those of "
        "{full}"
    ),
    "no pair at a full link": (
        "no pair of arms that differ in {treatment} alone was together at a full link; the full links were those of "
        "{full}"
    ),
    "no pair at": "no pair of arms differs in {treatment} alone at {connections}",
    "compared": "{arm}: {ratio}",
    "grew apart": "from {low} to {high} {control} grew by {untreated}, {arm} by {treated}",
    "no growth without it": (
        "from {low} to {high} {control} grew by {untreated}, {arm} by {treated}: growth of {share} without {treatment} "
        "is not shown"
    ),
    "no two loads": "no two loads of {least} connections and more away from a full link",
}


def fact_clauses(facts: Sequence[Fact]) -> str:
    """What an answer rests on, or what is noted of a figure, as clauses in English."""
    clauses = "; ".join(
        FACTS[one.fact].format(**{name: _value(name, value) for name, value in one.values.items()}) for one in facts
    )
    return agreed(clauses)


def _value(name: str, value: FactValue) -> str:
    match value:
        case FoundFigure():
            return _figure_words(value)
        case FactEffect():
            return _effect_words(value)
        case ComparedRatio():
            return _comparison(value)
        case float():
            return size(value)
        case int() if name == "connections":
            return "one connection" if value == 1 else f"{value} connections"
    return TREATMENT_NAMES.get(str(value), str(value)) if name == "treatment" else str(value)


def _figure_words(one: FoundFigure) -> str:
    """+3.2 % (+1.0 … +5.4 %)."""
    if one.ratio is None:
        return "not measured"
    if one.low is None or one.high is None:
        from mydyno.stats.tost import FEWEST_BLOCKS  # the statistics take a third of a second to load

        return f"{_signed(one.ratio)} in fewer than {FEWEST_BLOCKS} blocks"
    return f"{_signed(one.ratio)} ({flat(ratio_interval(one.low, one.high))})"


def _effect_words(one: FactEffect) -> str:
    size = "no estimate" if one.ratio is None else _signed(one.ratio)
    if one.ci_low is not None and one.ci_high is not None:
        size = _figure_words(FoundFigure(ratio=one.ratio, low=one.ci_low, high=one.ci_high))
    return f"{one.arm} against {one.control} at {one.step}: {size}, {one.verdict.replace('_', ' ')}"


def _comparison(one: ComparedRatio) -> str:
    """The fact that a comparison of ratios rests on."""
    published, ours = _signed(one.published), flat(ratio_interval(one.low, one.high))
    match one.because:
        case "exploratory":
            return "the metric is exploratory in this study, and its interval does not decide"
        case "undecided":
            return f"this study's own verdict is {one.verdict.replace('_', ' ')}"
        case "both within":
            return f"both are within {plus_minus(one.margin)}: here {ours}"
        case "equivalent":
            return f"the published {published} lies outside {ours}, equivalent here"
        case "contains both":
            return f"the interval {ours} contains the published {published} and no change"
        case "opposite":
            return f"the published {published} points the other way: measured here {ours}, {one.verdict}"
        case "near":
            return f"the published {published} is within {plus_minus(one.margin)} of what was measured here: {ours}"
        case "another size":
            return f"the same direction, another size: published {published}, measured here {ours}"
        case "outside":
            return f"the published {published} lies outside: measured here {ours}, {one.verdict}"
        case "inside":
            return f"the published {published} lies inside {ours}, {one.verdict}"


def _signed(ratio: float) -> str:
    return flat(signed_percent(ratio - 1))


CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class NextSteps:
    """What would decide the claims of one study; empty text for a claim that is decided."""

    summary: Summary
    study: StudyRecord
    records: Sequence[RunRecord]

    def of_figure(self, entry: PublishedEntry) -> str:
        """What would decide a published figure."""
        if entry.agreement != CANNOT_TELL:
            return ""
        contrast = (entry.metric, entry.step, entry.arm, entry.control)
        effect = next((one for one in self.summary.effects if one.contrast == contrast), None)
        if any(one.fact == "no link full" for one in entry.facts):
            return self._full_link()
        if effect is None or effect.ratio is None:
            return ""
        if effect.verdict is None:
            return f"a study with verdicts on it: {self._primary(entry.metric)}"
        loads = [value for one in entry.notes if isinstance(value := one.values.get("published"), int)]
        if loads:
            return self._at(loads[0])
        return self._time([effect])

    def of_conclusion(self, one: ConclusionRecord) -> str:
        """What would decide a published conclusion."""
        known = published_studies().get(one.study)
        parts = [part for part in known.parts if part.name == one.part] if known else []
        found = [(part.treatment, claim) for part in parts for claim in part.conclusions if claim.claim == one.claim]
        if one.answer != CANNOT_TELL or not found:
            return ""
        return self._of_test(*found[0])

    def _of_test(self, treatment: str, conclusion: Conclusion) -> str:
        facts, summary = self._facts, self.summary
        match conclusion.test:
            case FullLinkShare():
                full = any(limit.limit == "link" for limit in summary.limits)
                return "more blocks: at least 6" if full else self._full_link()
            case FlatAtFullLink():
                return "two loads at which a link is full: --set 'steps.connections=[64,256]'"
            case VerdictOfPairs() as test:
                wanted = facts.pairs(treatment, test.where)
                return self._time(wanted) if wanted else self._full_link()
            case RatioAtConnections() as test:
                wanted = [one for one, step in facts.contrasts(treatment) if step.connections == test.connections]
                return self._time(wanted) if wanted else self._at(test.connections)
            case StopsGrowing() as test:
                option = f"--set 'steps.connections=[{test.from_connections},{8 * test.from_connections}]'"
                return f"loads at which throughput grows without it ({option}), on a host with more CPUs"

    def _at(self, connections: int) -> str:
        return agreed(f"a study at {connections} connections: --set 'steps.connections=[{connections}]'")

    @property
    def _facts(self) -> Facts:
        limits = {(limit.arm, limit.step): limit for limit in self.summary.limits}
        return Facts(self.study.experiment, self.summary.runs, self.summary.effects, limits)

    def _full_link(self) -> str:
        if not any("link" in limit.shares for limit in self.summary.limits):
            return "arms with a link whose speed is proved"
        return "a host with more CPUs, or a slower link"

    def _primary(self, metric: str) -> str:
        """The option that adds a metric to those of the question."""
        wanted = dict.fromkeys((self.summary.primary, *self.summary.also_primary, metric))
        names = ",".join(f'"{one}"' for one in wanted)
        return f"--set 'verdict.primary=[{names}]'"

    def _time(self, effects: Sequence[EffectRecord]) -> str:
        """The time after which these contrasts should be decided."""
        if any(effect.details.alarm for effect in effects):
            return "a quieter host: here two copies of the control differ"
        open_ = [effect for effect in effects if effect.verdict == "inconclusive"]
        if not open_:
            return "more blocks, for a narrower interval"
        if instances_of_each(self.study.experiment) > 1:
            return "more instances of each arm"
        sequential = is_sequential(self.summary, self.study.experiment)
        found = outlook(self.summary, open_, block_duration_s(self.records), sequential)
        if found is None or (found.every_s is None and found.every is not None):
            return "more blocks, for a narrower interval"
        if found.every is None or found.every_s is None:
            return "a quieter host: with the noise of this one, more blocks do not decide it"
        seems = any(one.fact == "seems_different" for effect in open_ for one in effect.details.facts)
        condition = ", if the difference is of this size" if seems else ""
        return f"about {further(self.summary.study, found.every, found.every_s, sequential)}{condition}"


def _has_claims(result: StudyResult) -> bool:
    return bool(not result.before_first_look and (result.summary.conclusions or result.summary.published))


def part(result: StudyResult) -> Part | None:
    """The section, or None if the experiment repeats no published study."""
    if not _has_claims(result):
        return None
    entries = [one for one in result.summary.published if one.arm in result.styles]
    charts = [
        FigureGroup(study, [_figure(result, study, [entry for entry in entries if entry.study == study])])
        for study in dict.fromkeys(entry.study for entry in entries)
    ]
    ratios = "Absolute figures of another host cannot be compared; ratios of arm to control can."
    intro = "The hollow diamond is the published ratio, the mark with its interval is that of this study."
    return Part(
        id="published", heading="What published studies claim", says=counted_claims(result.summary), folded=True,
        body=[Note(ratios, "intro"), _table(result), Figures(charts, intro=intro)],
    )  # fmt: skip


def lines(result: StudyResult) -> list[str]:
    """For a terminal: how many claims are confirmed."""
    studies, answers = ", ".join(_studies(result.summary)), counted_claims(result.summary)
    return [f"Claims of {studies}, compared in the report: {answers}."] if _has_claims(result) else []


def _studies(summary: Summary) -> list[str]:
    return list(dict.fromkeys([*(one.study for one in summary.conclusions), *(one.study for one in summary.published)]))


def _table(result: StudyResult) -> Table:
    """Conclusions first, then figures on the metrics of the answer, then those on other metrics."""
    summary = result.summary
    steps = NextSteps(summary, result.study, tuple(result.records.values()))
    rows: list[list[str | Cell]] = [
        _row(one.study, one.claim, one.answer, fact_clauses(one.facts), "", steps.of_conclusion(one))
        for one in summary.conclusions
    ]
    answered = answered_metrics(summary)
    for one in sorted(summary.published, key=lambda one: one.metric not in answered):
        because = "; ".join(filter(None, (fact_clauses(one.facts), fact_clauses(one.notes))))
        because = f"{because[:1].upper()}{because[1:]}." if because else ""
        rows.append(_row(one.study, _claim(result, one), one.agreement, _effect(one), because, steps.of_figure(one)))
    caption = f"Claims of published studies, and what this host shows: {counted_claims(summary)}"
    return Table(caption, ("claim", "agreement", "what this host shows"), rows, _conditions(result), look="claims")


def _row(study: str, claim: str, answer: str, here: str, because: str, next_step: str) -> list[str | Cell]:
    below = " ".join(filter(None, (because, f"It would take {next_step}." if next_step else "")))
    return [f"{claim} ({study})", Cell(SIGNED[answer], "word"), Cell(here, "prose", below=below)]


def _claim(result: StoredResult, one: PublishedEntry) -> str:
    where = (one.step,) if len(result.steps) > 1 else ()
    figure = ", ".join((result.metric_name(one.metric), *where))
    claim = f"{figure}: {one.arm} against {one.control} {signed_percent(one.published_ratio - 1)}"
    other = next((note.values["published"] for note in one.notes if note.fact == "other load"), None)
    return claim if other is None else agreed(f"{claim}, published at {other} connections")


def _effect(one: PublishedEntry) -> str:
    if one.ratio is None:
        return NONE
    size, interval = signed_percent(one.ratio - 1), ratio_interval(one.ci_low, one.ci_high)
    return f"{size} ({interval})" if interval else size


def _conditions(result: StoredResult) -> str:
    """Under what conditions each study's claims were found: where this host, scale or version is another one."""
    known, summary, experiment = published_studies(), result.summary, result.study.experiment
    found = [f"{name}: {known[name].title}; {known[name].host}." for name in _studies(summary) if name in known]
    if not found:
        return ""
    asked = [known[name] for name in experiment.published if name in known]
    left = sum(len(list(figures_of(one))) for one in asked) - len(summary.published)
    if left == 1:
        found.append("1 more published figure is of an arm, a load or a metric that this study does not have.")
    elif left > 0:
        found.append(f"{left} more published figures are of arms, loads or metrics that this study does not have.")
    return " ".join([*found, f"This study: scale {experiment.scale}."])


def _figure(result: StudyResult, study: str, entries: Sequence[PublishedEntry]) -> Figure:
    by_group: dict[str, list[ForestRow]] = {}
    for entry in entries:
        published, ours, low, high = map(_share, (entry.published_ratio, entry.ratio, entry.ci_low, entry.ci_high))
        row = ForestRow(result.styles[entry.arm], ours, low, high, (), SIGNED[entry.agreement], published)
        by_group.setdefault(", ".join((result.metric_name(entry.metric), entry.step)), []).append(row)
    forest = [ForestGroup(label, tuple(of_group)) for label, of_group in by_group.items()]
    title = f"{study}: published and measured effects"
    described = "Hollow diamonds are published ratios; marks with intervals are this study's."
    return Figure(forest_charts(f"published:{study}", title, described, forest, result.summary.margin), css="double")


def _share(ratio: float | None) -> float | None:
    return ratio - 1 if ratio is not None and isfinite(ratio) else None


def _conclusions(study: Examined) -> tuple[ConclusionRecord, ...]:
    return conclusions_of(study.experiment, study.every_run, study.effects, study.found["limits"])


def _compared(study: Examined) -> tuple[PublishedEntry, ...]:
    return tuple(compare_with_published(study.experiment, study.effects, study.found["limits"]))


CONCLUSIONS = Analysis(stored="conclusions", analyse=_conclusions)
ANALYSIS = Analysis(chapter="trust", part=part, comment=part, stored="published", analyse=_compared, lines=lines)
