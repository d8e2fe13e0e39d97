"""The gate of a study in words: what its thresholds show, and how long a decision would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import metric_source
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.gate import MOST_BLOCKS, GateFacts, Needed, gate_facts
from mydyno.results.precision import finished_blocks
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts.threshold import Comparison, Outcome
from mydyno.wording.advice import further
from mydyno.wording.numbers import blocks, limit_text, metric_name, signed
from mydyno.wording.reasons import alarm_clause, cut, failure_clause
from mydyno.wording.scope_line import scope_line

TITLES = {Outcome.PASSED: "Passed", Outcome.WORSE: "Worse", Outcome.UNDECIDED: "Undecided"}
MOST_LISTED = 3
"""Comparisons that the answer names; the table has all of them."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What reports print of a gate.

    `next_step` is a sentence with the time after which a decision can be expected if the effects are what they seem,
    and the command for it; empty where it is decided or not known. `alpha` is the error rate of this look; `late`:
    thresholds were given that the study did not declare before its first run.
    """

    study: str
    experiment: str
    question: str
    outcome: Outcome
    comparisons: tuple[Comparison, ...]
    obstacle: str
    """Why nothing, or not everything, may be examined: the study is interrupted, before its first look, not valid."""
    alpha: float
    error_rate: float
    """Error rate of all looks together."""
    look: int | None
    blocks: int
    next_step: str
    scope: str
    late: bool
    duration_s: float
    builds: str = ""
    """Each arm's commit, where arms are built from source: "base: d9e1d3b3763d (Begin), head: …"."""


def gate_study(folder: StudyFolder, summary: Summary, thresholds: Sequence[ThresholdSpec] | None = None) -> GateResult:
    """The gate of a study from its folder and its summary; `thresholds` in place of those that it declared."""
    study, plan, records = folder.study(), folder.plan(), list(folder.runs())
    experiment = study.experiment
    used = experiment.thresholds if thresholds is None else tuple(thresholds)
    found = gate_facts(folder, summary, used)
    return GateResult(
        study=study.study,
        experiment=experiment.name,
        question=experiment.question,
        outcome=found.outcome,
        comparisons=tuple(_with_reason(one, found.measured) for one in found.comparisons),
        obstacle=_obstacle(plan, records, found.look, found.interrupted),
        alpha=found.alpha,
        error_rate=experiment.verdict.error_rate,
        look=found.look,
        blocks=finished_blocks(summary),
        next_step=_next_step(folder.name, found),
        scope=scope_line(summary, study, records, with_tests=False),
        late=used != experiment.thresholds,
        duration_s=_duration_s(records),
        builds=_builds(records),
    )


def _with_reason(one: Comparison, measured: Sequence[str]) -> Comparison:
    """The comparison with why it is undecided."""
    if one.reason:
        return replace(one, reason=agreed(one.reason))
    if one.outcome is Outcome.UNDECIDED and measured and one.metric.name not in measured:
        return replace(one, reason=f"was not measured; measured: {', '.join(filter(_has_better, measured))}")
    return replace(one, reason=reason_words(one))


def reason_words(one: Comparison) -> str:
    """Why a comparison is undecided, or what failed; empty if it passed or is worse."""
    match one.why:
        case "":
            return ""
        case "failure":
            return failure_clause(one.failure, one.arm, one.control)
        case "alarm":
            return alarm_clause(one.alarm)
        case "no look":
            return "no interim analysis has been reached yet"
        case "no block" if one.lost:
            lost = ", ".join(f"{reason} ({count})" for reason, count in sorted(one.lost.items()))
            return f"no valid block: {lost}"
        case "no block":
            return "no valid block: nothing was measured"
        case "few blocks":
            return agreed(f"only {one.n} of the {FEWEST_BLOCKS} blocks required")
        case "open":
            return "the interval contains the limit"
        case "lasts":
            return (
                'an effect that lasts longer than a slice is in all arms: decide with design.kind = "interleaved" or '
                '"blocks"'
            )
        case "unmeasured":
            return "was not measured at this load level"


def _has_better(metric: str) -> bool:
    source = metric_source(metric)
    return source is not None and source.better != "none"


def _builds(records: Sequence[RunRecord]) -> str:
    """Each arm's commit, by the evidence of each arm's first run."""
    found: dict[str, str] = {}
    for record in sorted(records, key=lambda one: one.started_unix_ns):
        for evidence in record.evidence:
            facts = evidence.facts.get("build")
            if evidence.treatment == "server" and isinstance(facts, dict):
                subject = f" ({facts['subject']})" if facts["subject"] else ""
                found.setdefault(record.arm, f"{str(facts['commit']).removeprefix('tree-')[:12]}{subject}")
    return ", ".join(f"{arm}: {commit}" for arm, commit in sorted(found.items()))


def _obstacle(plan: Plan, records: Sequence[RunRecord], look: int | None, interrupted: bool) -> str:
    done = len({record.block for record in records})
    if interrupted:
        return agreed(f"the study is interrupted: {done} of {len(plan.blocks)} blocks are finished")
    if not any(run.valid for run in records):
        why = next((reason.sentence for run in records for reason in run.reasons[:1]), "")
        return f"no run of the study is valid{': ' + cut(why) if why else ''}"
    if plan.schedule is not None and look is None:
        return agreed(f"effects are examined from {plan.schedule.first} blocks on, and the study has {blocks(done)}")
    return ""


def _next_step(study: str, found: GateFacts) -> str:
    """A sentence with the command that continues the study or decides the gate; empty where none does."""
    if found.interrupted:
        return f"To continue: mydyno resume {study}"
    return _time(study, found.needed) if found.needed else ""


def _time(study: str, needed: Needed) -> str:
    begin = (
        "If the effects are as estimated, a decision takes about" if needed.by_estimate else "A decision takes about"
    )
    if needed.time_s is None:
        return agreed(
            f"The effect is too close to the limit, or this host too noisy: a decision takes more than {MOST_BLOCKS} "
            "blocks or a week. Use a quieter host, or another limit."
        )
    return f"{begin} {further(study, needed.blocks, needed.time_s, needed.resumes)}"


def _duration_s(records: Sequence[RunRecord]) -> float:
    if not records:
        return 0.0
    return (max(one.ended_unix_ns for one in records) - min(one.started_unix_ns for one in records)) / 1e9


def answer(result: GateResult) -> str:
    """What was asked, answered in one or two sentences."""
    count, open_ = len(result.comparisons), of(result, Outcome.UNDECIDED)
    if result.outcome is Outcome.PASSED:
        if count == 2:
            return "Both comparisons are within their limits."
        return (
            "The comparison is within its limit."
            if count == 1
            else agreed(f"All {count} comparisons are within their limits.")
        )
    if result.outcome is Outcome.WORSE:
        undecided = _undecided(len(open_), count, "") if open_ else ""
        return " ".join(filter(None, (_worse(result, count), _failed(result), undecided)))
    if result.obstacle:
        return f"{result.obstacle[:1].upper()}{result.obstacle[1:]}."
    reasons = list(dict.fromkeys(one.reason for one in open_))
    why = ": " + reasons[0] if len(reasons) == 1 else ""
    if count == 1:
        return f"The comparison is undecided{why}."
    return _undecided(len(open_), count, why)


def of(result: GateResult, outcome: Outcome) -> list[Comparison]:
    """The comparisons with this outcome."""
    return [one for one in result.comparisons if one.outcome is outcome]


def _worse(result: GateResult, count: int) -> str:
    worse = of(result, Outcome.WORSE)
    if not worse:
        return ""
    named = [
        f"{metric_name(one.metric.name)} of {one.arm} at {one.step} ({effect_text(one)}, limit {limit_text(one.limit)}"
        + (f": {one.reason})" if one.reason else ")")
        for one in worse[:MOST_LISTED]
    ]
    more = [f"{len(worse) - MOST_LISTED} more"] if len(worse) > MOST_LISTED else []
    which = listing(named + more)
    if count == 1:
        return f"The comparison exceeds its limit: {which}."
    return (
        agreed(f"{len(worse)} of {count} comparisons exceeds its limit: {which}.")
        if len(worse) == 1
        else agreed(f"{len(worse)} of {count} comparisons exceed their limits: {which}.")
    )


def _failed(result: GateResult) -> str:
    found = {one.arm: one for one in of(result, Outcome.FAILED)}
    return " ".join(f"{one.reason}; {one.control} did not." for one in found.values())


def _undecided(open_: int, count: int, why: str) -> str:
    return agreed(f"{open_} of {count} comparisons {'is' if open_ == 1 else 'are'} undecided{why}.")


def notes(result: GateResult) -> list[str]:
    """How the answer was reached, in sentences: tests, error rate, and what weakens it."""
    at = ""
    if result.look is not None:
        at = agreed(
            f" at the interim analysis after {result.look} blocks (error rate of all analyses together: "
            f"{result.error_rate * 100:.3g} %)"
        )
    found = []
    if any(one.ratio is not None for one in result.comparisons):
        found.append(
            f"One-sided tests of each limit at {result.alpha * 100:.3g} %{at}; the bounds are one-sided and "
            "not adjusted. The probability that a study wrongly passes is at most "
            f"{result.error_rate * 100:.3g} %; so is the probability that it is wrongly called worse."
        )
    if result.obstacle and result.outcome is not Outcome.UNDECIDED:
        found.append(f"{result.obstacle[:1].upper()}{result.obstacle[1:]}.")
    if result.late:
        found.append("Thresholds were set on the command line; the study did not declare them before its first run.")
    return found


def effect_text(one: Comparison) -> str:
    """The effect as a signed change; empty without one."""
    return "" if one.ratio is None else signed(one.ratio - 1.0)


def bounds_text(one: Comparison) -> str:
    """Its one-sided bounds; empty without them."""
    if one.low is None or one.high is None:
        return ""
    return f"{signed(one.low - 1.0)} … {signed(one.high - 1.0)}"
