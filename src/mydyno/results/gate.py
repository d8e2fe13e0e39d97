"""The decision of `mydyno gate`: a study's thresholds, what each comparison shows, and what a decision would take.

Only what the study's design allows is examined: all blocks of a finished study with a fixed number, or those of the
latest look (model/definition/interim.py). The method is in verdicts/threshold.py.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import SLOWEST_STATEMENT, ordered
from mydyno.model.stored.analyses import StatementVerdict
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.families import contrast_family, families
from mydyno.results.precision import MOST_S, alarm_of, block_duration_s, first_finished, interim_analysis_of
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.coexistence import lasting_names
from mydyno.verdicts import Metric
from mydyno.verdicts.threshold import Bound, Comparison, Outcome, judge, overall

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


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What a gate is decided by."""

    comparisons: tuple[Comparison, ...]
    outcome: Outcome
    look: int | None
    alpha: float
    interrupted: bool
    measured: tuple[str, ...]
    """The metrics of the examined runs."""
    needed: Needed | None
    """None: decided, interrupted, or not known."""


def gate_facts(folder: StudyFolder, summary: Summary, thresholds: Sequence[ThresholdSpec]) -> GateFacts:
    """The gate of a study from its folder and its summary."""
    plan, records, experiment = folder.plan(), list(folder.runs()), folder.study().experiment
    look, alpha = interim_analysis_of(plan, records, experiment)
    interrupted = is_interrupted(folder, plan)
    examined = first_finished(records, look)
    comparisons = _comparisons(
        experiment, summary, thresholds, examined, None if interrupted or not summary.due else alpha, plan
    )
    outcome = overall(comparisons)
    runs = [run for run in summary.runs if run.block in examined]
    return GateFacts(
        comparisons=comparisons,
        outcome=outcome,
        look=look,
        alpha=alpha,
        interrupted=interrupted,
        measured=tuple(ordered({name for run in runs for values in run.values.values() for name in values})),
        needed=_needed(plan, records, comparisons) if outcome is Outcome.UNDECIDED and not interrupted else None,
    )


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
    names = ordered({name for run in runs for values in run.values.values() for name in values})
    judged = [one for one in families(experiment, runs, names) if one.primary]
    answers = judge(bounds, alpha, alarm_of(summary.effects), plan.schedule, experiment.verdict.error_rate, judged)
    if plan.design == "switchback" and lasting_names(experiment):
        answers = tuple(
            replace(one, outcome=Outcome.UNDECIDED, why="lasts") if one.outcome is Outcome.PASSED else one
            for one in answers
        )
    found = {(one.metric, one.step, one.arm, one.control, one.limit): one for one in answers}
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
    reason = f"{len(open_)} of {len(times)} statements may be beyond it"
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
