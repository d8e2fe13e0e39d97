"""The decision of `mydyno gate`, and its words: a study's thresholds, what each comparison shows, and how long a
decision would take.

Only what the study's design allows is examined: all blocks of a finished study with a fixed number, or those of the
latest look (model/definition/plan.py). The method is in verdicts/threshold.py.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import SLOWEST_STATEMENT, metric_source, ordered
from mydyno.model.stored.analyses import StatementVerdict
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import RunSummary, Summary
from mydyno.results.families import contrast_family, families
from mydyno.results.precision import (
    MOST_S,
    alarm_of,
    block_duration_s,
    finished_blocks,
    first_finished,
    interim_analysis_of,
)
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.coexistence import lasting_names
from mydyno.verdicts import Metric
from mydyno.verdicts.threshold import Bound, Comparison, Outcome, judge, overall
from mydyno.wording.advice import further
from mydyno.wording.numbers import blocks, limit_text, metric_name, signed
from mydyno.wording.scope_line import scope_line
from mydyno.wording.verdicts import alarm_clause, cut, failure_clause

MOST_BLOCKS = 1000
"""Most blocks proposed for a study with a fixed number of blocks (design.blocks)."""
BEGIN_EVENTS = ("study_created", "study_resumed")
FINISHED_EVENT = "study_finished"


@dataclass(frozen=True, slots=True)
class Needed:
    """What a decision needs: so many blocks in all, by the estimated effects or because a look is due there."""

    blocks: int
    by_estimate: bool
    resumes: bool
    """Whether more blocks of this study are enough; else it takes a new one with a fixed number of blocks."""
    time_s: float | None
    """Of the further blocks, or of the new study; None: more than anybody would wait."""


def is_gate_decided(folder: StudyFolder, summary: Summary) -> bool:
    """Whether every threshold that the study declares is decided at its latest look, so that the study may end."""
    experiment, plan, records = folder.study().experiment, folder.plan(), list(folder.runs())
    look, alpha = interim_analysis_of(plan, records, experiment)
    if look is None:
        return False
    due = first_finished(records, look)
    comparisons = _comparisons(experiment, summary, experiment.thresholds, due, alpha, plan)
    return bool(comparisons) and all(one.outcome is not Outcome.UNDECIDED for one in comparisons)


def is_interrupted(folder: StudyFolder, plan: Plan) -> bool:
    """Whether runs are missing and the study did not end by itself after it was begun or resumed last."""
    if all((folder.path / run.folder / "run.json").is_file() for run in plan.runs):
        return False
    events = [event["event"] for event in folder.journal.read()]
    began = max((at for at, name in enumerate(events) if name in BEGIN_EVENTS), default=-1)
    return FINISHED_EVENT not in events[began + 1 :]


def _comparisons(
    experiment: Experiment,
    summary: Summary,
    thresholds: Sequence[ThresholdSpec],
    examined: Set[int],
    alpha: float | None,
    plan: Plan,
) -> tuple[Comparison, ...]:
    """Every comparison that the thresholds mean, in their order; undecided where nothing was measured, and not passed
    where settings are switched whose effect may last longer than a slice: it is in the control's slices, too.
    """
    runs = [run for run in summary.runs if run.block in examined]
    bounds, meant = [], []
    of_statements: list[Comparison] = []
    for one in thresholds:
        steps = tuple(step.id for step in experiment.resolved_steps if one.holds_at(step))
        for control, every_arm in experiment.contrasts().items():
            arms = tuple(arm for arm in every_arm if not one.arms or arm in one.arms)
            if one.metric == SLOWEST_STATEMENT:
                of_statements += [_slowest(summary, one, step, arm, control) for step in steps for arm in arms]
                continue
            family = contrast_family(experiment, runs, one.metric, control, every_arm, True)
            bounds.append(Bound(family, one.ratio, arms, steps))
            meant += [(family.metric, step, arm, control, one.ratio) for step in steps for arm in arms]
    judged = [one for one in families(experiment, runs, _measured(runs)) if one.primary]
    answers = judge(bounds, alpha, alarm_of(summary.effects), plan.schedule, experiment.verdict.error_rate, judged)
    if plan.design == "switchback" and lasting_names(experiment):
        answers = tuple(
            replace(one, outcome=Outcome.UNDECIDED, why="lasts") if one.outcome is Outcome.PASSED else one
            for one in answers
        )
    plain = {
        (one.metric, one.step, one.arm, one.control): one.unadjusted[0]
        for one in summary.effects
        if one.unadjusted is not None and one.unadjusted[0] != one.ratio
    }
    found = {
        (one.metric, one.step, one.arm, one.control, one.limit): replace(
            one, plain=one.ratio and plain.get((one.metric.name, one.step, one.arm, one.control))
        )
        for one in answers
    }
    return tuple(
        found.get(key) or Comparison(*key, Outcome.UNDECIDED, 0, why="unmeasured") for key in dict.fromkeys(meant)
    ) + tuple(of_statements)


def _slowest(summary: Summary, one: ThresholdSpec, step: str, arm: str, control: str) -> Comparison:
    """All statements of an arm against one limit, by intervals that hold for all of them together."""
    metric = Metric(SLOWEST_STATEMENT, "", "lower")
    record = summary.statements
    of = next((own for own in record.arms if (own.arm, own.control) == (arm, control)), None) if record else None
    if record is None or of is None:
        return Comparison(metric, step, arm, control, one.ratio, Outcome.UNDECIDED, 0, why="unmeasured")
    made = partial(Comparison, metric, step, arm, control, one.ratio, n=record.blocks)
    does: tuple[tuple[StatementVerdict, str], ...] = (("fails", "fails"), ("other_rows", "returns other rows"))
    for verdict, words in does:
        if broken := of.having(verdict):
            first, count = broken[0], f"{len(broken)} statements"
            return made(outcome=Outcome.FAILED, reason=f"{arm} {words} in {count}, e.g. {first.label} ({first.why})")
    times = [
        (statement, [each for each in (statement.service, statement.cpu) if each is not None])
        for statement in of.statements
        if statement.verdict != "not_compared"
    ]
    judged = [(statement, each) for statement, both in times for each in both if each.ci_low is not None]
    beyond = [pair for pair in judged if (pair[1].ci_low or 0.0) > one.ratio]
    worst, interval = max(beyond or judged, key=lambda pair: pair[1].ratio, default=(None, None))
    if worst is None or interval is None:
        return made(outcome=Outcome.UNDECIDED, why="no look")
    found = partial(made, ratio=interval.ratio, low=interval.ci_low, high=interval.ci_high)
    if beyond:
        return found(outcome=Outcome.WORSE, reason=worst.label)
    open_ = [
        statement for statement, both in times if not any(each.ci_high and each.ci_high <= one.ratio for each in both)
    ]
    if not open_:
        return found(outcome=Outcome.PASSED)
    reason = agreed(f"{len(open_)} of {len(times)} statements may be beyond it")
    return found(outcome=Outcome.UNDECIDED, why="open", reason=reason)


def _needed(plan: Plan, records: Sequence[RunRecord], comparisons: Sequence[Comparison]) -> Needed | None:
    """What a decision needs; None where that is not known.

    One worse comparison decides the gate; it passes only if all comparisons pass.
    """
    length = block_duration_s(records)
    done = len({record.block for record in records})
    open_ = [one for one in comparisons if one.outcome is Outcome.UNDECIDED]
    next_look = plan.schedule.next_after(done) if plan.schedule is not None else None
    by_estimate = next_look is None or any(one.n for one in open_ if one.ratio is not None)
    needed = _blocks_needed(open_) if by_estimate else next_look
    if needed is None or length is None:
        return None
    if plan.schedule is not None and needed <= plan.schedule.last:
        return Needed(needed, by_estimate, True, max(1, needed - done) * length)
    hopeless = needed > MOST_BLOCKS or needed * length > MOST_S
    return Needed(needed, by_estimate, False, None if hopeless else needed * length)


def _blocks_needed(open_: Sequence[Comparison]) -> int | None:
    worse = [one.blocks_needed for one in open_ if one.ratio is not None and _is_beyond(one)]
    known_worse = [needed for needed in worse if needed is not None]
    if known_worse:
        return min(known_worse)
    every = [one.blocks_needed for one in open_]
    known = [needed for needed in every if needed is not None]
    return max(known) if known and len(known) == len(every) else None


def _is_beyond(one: Comparison) -> bool:
    """Whether the ratio itself, whatever its noise, is beyond the limit."""
    assert one.ratio is not None
    return one.ratio < one.limit if one.metric.better == "higher" else one.ratio > one.limit


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
    needed: Needed | None = None
    """None: decided, interrupted, or not known."""
    builds: str = ""
    """Each arm's commit, where arms are built from source: "base: d9e1d3b3763d (Begin), head: …"."""


def gate_study(folder: StudyFolder, summary: Summary, thresholds: Sequence[ThresholdSpec] | None = None) -> GateResult:
    """The gate of a study from its folder and its summary; `thresholds` in place of those that it declared."""
    study, plan, records = folder.study(), folder.plan(), list(folder.runs())
    experiment = study.experiment
    used = experiment.thresholds if thresholds is None else tuple(thresholds)
    look, alpha = interim_analysis_of(plan, records, experiment)
    interrupted = is_interrupted(folder, plan)
    examined = first_finished(records, look)
    comparisons = _comparisons(
        experiment, summary, used, examined, None if interrupted or not summary.due else alpha, plan
    )
    outcome = overall(comparisons)
    measured = _measured([run for run in summary.runs if run.block in examined])
    needed = None
    if outcome is Outcome.UNDECIDED and not interrupted:
        needed = _needed(plan, records, comparisons)
    return GateResult(
        study=study.study,
        experiment=experiment.name,
        question=experiment.question,
        outcome=outcome,
        comparisons=tuple(_with_reason(one, measured) for one in comparisons),
        obstacle=_obstacle(plan, records, look, interrupted),
        alpha=alpha,
        error_rate=experiment.verdict.error_rate,
        look=look,
        blocks=finished_blocks(summary),
        needed=needed,
        next_step=_next_step(folder.name, interrupted, needed),
        scope=scope_line(summary, study, records, with_tests=False),
        late=used != experiment.thresholds,
        duration_s=_duration_s(records),
        builds=_builds(records),
    )


def _measured(runs: Sequence[RunSummary]) -> list[str]:
    """The metrics of these runs."""
    return ordered({name for run in runs for values in run.values.values() for name in values})


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
                "an effect that lasts longer than a slice reaches the other arms too: decide with design.kind = "
                '"interleaved" or "blocks"'
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


def _next_step(study: str, interrupted: bool, needed: Needed | None) -> str:
    """A sentence with the command that continues the study or decides the gate; empty where none does."""
    if interrupted:
        return f"To continue: mydyno resume {study}"
    return _time(study, needed) if needed else ""


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
    if shows_plain(result):
        found.append("Plain effects are without the adjustment for the host's speed.")
    elif any(map(plain_text, result.comparisons)):
        found.append("Without the adjustment for the host's speed the effects are the same.")
    if result.obstacle and result.outcome is not Outcome.UNDECIDED:
        found.append(f"{result.obstacle[:1].upper()}{result.obstacle[1:]}.")
    if result.late:
        found.append("Thresholds were set on the command line; the study did not declare them before its first run.")
    return found


def effect_text(one: Comparison) -> str:
    """The effect as a signed change; empty without one."""
    return "" if one.ratio is None else signed(one.ratio - 1.0)


def plain_text(one: Comparison) -> str:
    """The effect without the adjustment for the host's speed; empty where nothing is adjusted."""
    return "" if one.plain is None else signed(one.plain - 1.0)


def shows_plain(result: GateResult) -> bool:
    """Whether the adjustment changed any effect as it is printed."""
    return any(plain_text(one) not in ("", effect_text(one)) for one in result.comparisons)


def bounds_text(one: Comparison) -> str:
    """Its one-sided bounds; empty without them."""
    if one.low is None or one.high is None:
        return ""
    return f"{signed(one.low - 1.0)} … {signed(one.high - 1.0)}"
