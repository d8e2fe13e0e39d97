"""The decision of `mydyno gate`: a study's thresholds, what each comparison shows, and how long a decision would take.

Only what the study's design allows is examined: all blocks of a finished study with a fixed number, or those of the
latest look (model/definition/looks.py). The method is in verdicts/threshold.py.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.looks import Looks
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import metric_source, ordered
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.families import contrast_family
from mydyno.results.precision import (
    MOST_S,
    block_duration_s,
    duration_option,
    duration_words,
    finished_blocks,
)
from mydyno.results.summarise import first_finished, look_of
from mydyno.results.words.answer import alarm_of
from mydyno.results.words.plain import blocks, cut
from mydyno.results.words.scope_line import scope_line
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts.threshold import Bound, Comparison, Outcome, judge, overall

MOST_BLOCKS = 1000
"""Most blocks proposed for a study with a fixed number of blocks (design.blocks)."""
BEGIN_EVENTS = ("study_created", "study_resumed")
FINISHED_EVENT = "study_finished"


@dataclass(frozen=True, slots=True)
class GateResult:
    """What reports print of a gate.

    `more_s` is the further time, or of a study with a fixed number of blocks the time of a new one, after which a
    decision can be expected if the effects are what they seem: None where it is decided or not known. `next_step` is a
    sentence with the command for it. `alpha` is the error rate of this look; `late`: thresholds were given that the
    study did not declare before its first run.
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
    more_s: float | None
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
    look, alpha = look_of(plan, records, experiment)
    interrupted = is_interrupted(folder, plan)
    before_look = plan.sequential and look is None
    comparisons = _comparisons(
        experiment, summary, used, first_finished(records, look), None if interrupted or before_look else alpha,
        plan.schedule,
    )  # fmt: skip
    outcome = overall(comparisons)
    more_s, step = None, ""
    if interrupted:
        step = f"To continue: mydyno resume {folder.name}"
    elif outcome is Outcome.UNDECIDED:
        more_s, step = _time(folder.name, plan, records, comparisons)
    return GateResult(
        study=study.study,
        experiment=experiment.name,
        question=experiment.question,
        outcome=outcome,
        comparisons=comparisons,
        obstacle=_obstacle(plan, records, look, interrupted),
        alpha=alpha,
        error_rate=experiment.verdict.error_rate,
        look=look,
        blocks=finished_blocks(summary),
        more_s=more_s,
        next_step=step,
        scope=scope_line(summary, study, records, with_tests=False),
        late=used != experiment.thresholds,
        duration_s=_duration_s(records),
        builds=_builds(records),
    )


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


def is_gate_decided(folder: StudyFolder, summary: Summary) -> bool:
    """Whether every threshold that the study declares is decided at its latest look, so that the study may end."""
    experiment, plan, records = folder.study().experiment, folder.plan(), list(folder.runs())
    look, alpha = look_of(plan, records, experiment)
    if look is None:
        return False
    due = first_finished(records, look)
    comparisons = _comparisons(experiment, summary, experiment.thresholds, due, alpha, plan.schedule)
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
    looks: Looks | None,
) -> tuple[Comparison, ...]:
    """Every comparison that the thresholds mean, in their order; undecided where nothing was measured."""
    runs = [run for run in summary.runs if run.block in examined]
    bounds, meant = [], []
    for one in thresholds:
        steps = tuple(step.id for step in experiment.resolved_steps if one.holds_at(step))
        for control, every_arm in experiment.contrasts().items():
            arms = tuple(arm for arm in every_arm if not one.arms or arm in one.arms)
            family = contrast_family(experiment, runs, one.metric, control, every_arm, True, {})
            bounds.append(Bound(family, one.ratio, arms, steps))
            meant += [(family.metric, step, arm, control, one.ratio) for step in steps for arm in arms]
    judged = judge(bounds, alpha, alarm_of(summary.effects), looks, experiment.verdict.error_rate)
    found = {(one.metric, one.step, one.arm, one.control, one.limit): one for one in judged}
    measured = ordered({name for run in runs for values in run.values.values() for name in values})
    comparisons = []
    for key in dict.fromkeys(meant):
        done = found.get(key) or Comparison(*key, Outcome.UNDECIDED, "was not measured at this step", 0)
        if runs and done.outcome is Outcome.UNDECIDED and measured and done.metric.name not in measured:
            done = replace(done, reason=f"was not measured; measured: {', '.join(filter(_has_better, measured))}")
        comparisons.append(done)
    return tuple(comparisons)


def _has_better(metric: str) -> bool:
    source = metric_source(metric)
    return source is not None and source.better != "none"


def _obstacle(plan: Plan, records: Sequence[RunRecord], look: int | None, interrupted: bool) -> str:
    done = len({record.block for record in records})
    if interrupted:
        return f"the study is interrupted: {done} of {len(plan.blocks)} blocks are finished"
    if not any(run.valid for run in records):
        why = next((reason.sentence for run in records for reason in run.reasons[:1]), "")
        return f"no run of the study is valid{': ' + cut(why) if why else ''}"
    if plan.schedule is not None and look is None:
        return f"effects are examined from {plan.schedule.first} blocks on, and the study has {blocks(done)}"
    return ""


def _time(
    study: str, plan: Plan, records: Sequence[RunRecord], comparisons: Sequence[Comparison]
) -> tuple[float | None, str]:
    """(the further time that a decision takes, a sentence with the command); None and "" where neither is known.

    One worse comparison decides the gate; it passes only if all comparisons pass.
    """
    length = block_duration_s(records)
    done = len({record.block for record in records})
    open_ = [one for one in comparisons if one.outcome is Outcome.UNDECIDED]
    next_look = plan.schedule.next_after(done) if plan.schedule is not None else None
    if next_look is not None and not any(one.n for one in open_ if one.ratio is not None):
        needed: int | None = next_look
        begin = "A decision takes about"
    else:
        needed = _blocks_needed(open_)
        begin = "If the effects are as estimated, a decision takes about"
    if needed is None or length is None:
        return None, ""
    if plan.schedule is not None and needed <= plan.schedule.last:
        more_s = max(1, needed - done) * length
        command = f"mydyno resume {study} --time {duration_option(more_s)}"
        return more_s, f"{begin} {duration_words(more_s)} more: {command}"
    if needed > MOST_BLOCKS or needed * length > MOST_S:
        return None, (
            f"The effect is too close to the limit, or this host too noisy: a decision takes more than {MOST_BLOCKS} "
            "blocks or two months. Use a quieter host, or another limit."
        )
    whole_s = needed * length
    return whole_s, (
        f"{begin} {blocks(needed)}, {duration_words(whole_s)}, in a new study with a fixed number of blocks: "
        f"--blocks {needed}"
    )


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


def _duration_s(records: Sequence[RunRecord]) -> float:
    if not records:
        return 0.0
    return (max(one.ended_unix_ns for one in records) - min(one.started_unix_ns for one in records)) / 1e9
