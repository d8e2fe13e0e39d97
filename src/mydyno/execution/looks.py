"""Looks at a study's effects, on this host and over host groups: how many blocks lead to one, and when the study ends.

With a time (design.time, --time) effects are examined at looks alone (model/definition/looks.py), and the study ends at
the first one that decides every comparison. Without a time the planned blocks are made and examined once.
"""

from __future__ import annotations

from collections.abc import Callable

from mydyno.evaluation.facts import summarise
from mydyno.execution.planning.time_plan import TimePlan
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.looks import looks_aimed_at
from mydyno.model.definition.plan import Plan, make_plan
from mydyno.model.stored.summary import Summary
from mydyno.results.gate import is_gate_decided
from mydyno.store.study_folder import StudyFolder

AIM_EVENT = "aim"

Decided = Callable[[StudyFolder, Summary], bool]
"""Whether a study may end, from its folder and the summary of a look."""


def is_decided(folder: StudyFolder, summary: Summary) -> bool:
    """Whether every contrast with a verdict is higher, lower or equivalent, or arm or control failed, and whether the
    thresholds are decided that the study declares.
    """
    if folder.study().experiment.compares_statements:
        return False  # every statement gains by the time that is left
    judged = [effect for effect in summary.effects if effect.primary]
    contrasts = bool(judged) and all(
        effect.verdict in ("higher", "lower", "equivalent") or effect.details.failure for effect in judged
    )
    return contrasts and (not folder.study().experiment.thresholds or is_gate_decided(folder, summary))


def extended(folder: StudyFolder, plan: Plan, experiment: Experiment, target: TimePlan, done: int) -> Plan:
    """The plan, also on disk, with the blocks of `target` if it has fewer; `done` of them are made.

    The look that the time allows gets most of the error rate, unless that look was examined already. What decides are
    durations alone, never an effect (model/definition/looks.py).
    """
    if target.blocks > len(plan.blocks):
        plan = plan.model_copy(update={"blocks": make_plan(experiment, blocks=target.blocks).blocks})
        folder.write_plan(plan)
    looks = plan.schedule
    if looks is None or not target.reaches_look or done >= looks.aim or target.blocks == looks.aim:
        return plan
    plan = plan.model_copy(update={"looks": dict(looks_aimed_at(target.blocks, experiment.verdict.error_rate).rates)})
    folder.write_plan(plan)
    folder.journal.append(AIM_EVENT, blocks=target.blocks, after=done)
    return plan


def decided_at(folder: StudyFolder, plan: Plan, done: int, decided: Decided, say: Callable[[str], None]) -> bool:
    """Whether there is a look at `done` blocks, and it shows that no more are needed."""
    if not _is_look(plan, done) or not decided(folder, summarise(folder)):
        return False
    say(f"every comparison is decided after {done} blocks")
    return True


def ended(folder: StudyFolder, plan: Plan, done: int) -> Summary:
    """The summary of a study that makes no more than these blocks; if that is at a look, its plan ends there."""
    if _is_look(plan, done) and done < len(plan.blocks):
        folder.write_plan(plan.ending_at(done))
    summary = summarise(folder)
    folder.journal.append("study_finished", state=summary.state)
    return summary


def _is_look(plan: Plan, done: int) -> bool:
    return plan.schedule is not None and plan.schedule.alpha_at(done) is not None
