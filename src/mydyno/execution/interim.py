"""Interim analyses on this host and over host groups: how many blocks lead to one, and when the study ends.

With a time (design.time, --time) effects are examined at these alone (model/definition/plan.py), and the study ends
at the first one that decides every comparison. Without a time the planned blocks are made and examined once.

A study also stops because more runs would not help: see Stopping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from mydyno.errors import StudyError, UserError
from mydyno.evaluation.facts import state_of, summarise
from mydyno.execution.planning.time_plan import TimePlan
from mydyno.execution.validity import refused_variables
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Design, Plan, interim_aimed_at, make_plan
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.values.blocks import is_host_noise
from mydyno.store.study_folder import FINISHED_EVENT, StudyFolder

AIM_EVENT = "aim"

Decided = Callable[[StudyFolder, Summary], bool]
"""Whether a study may end, from its folder and the summary of an interim analysis."""
FAILED_RUNS_IN_A_ROW = 4
"""Number of consecutive invalid runs after which a study in blocks stops."""
FAILED_CONTROLS_IN_A_ROW = 3
"""Number of consecutive blocks without the control after which an interleaved study stops."""


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
    return contrasts and (summary.gate is None or is_gate_decided(folder, summary))


def is_gate_decided(_: StudyFolder, summary: Summary) -> bool:
    """Whether every threshold that the study declares is decided."""
    gate = summary.gate
    return gate is not None and bool(gate.comparisons) and not gate.having("undecided")


def extended(folder: StudyFolder, plan: Plan, experiment: Experiment, target: TimePlan, done: int) -> Plan:
    """The plan, also on disk, with the blocks of `target` if it has fewer; `done` of them are made.

    The analysis that the time allows gets most of the error rate, unless it was made already. What decides are
    durations alone, never an effect (model/definition/plan.py).
    """
    if target.blocks > len(plan.blocks):
        longer = make_plan(experiment, Design(plan.design), target.blocks).blocks
        if longer[: len(plan.blocks)] != plan.blocks:
            raise UserError(
                "the study was planned by another version of mydyno, which orders runs otherwise", "begin a new study"
            )
        plan = plan.model_copy(update={"blocks": longer})
        folder.write_plan(plan)
    looks = plan.schedule
    if looks is None or not target.reaches_look or done >= looks.aim or target.blocks == looks.aim:
        return plan
    plan = plan.model_copy(update={"looks": dict(interim_aimed_at(target.blocks, experiment.verdict.error_rate).rates)})
    folder.write_plan(plan)
    folder.journal.append(AIM_EVENT, blocks=target.blocks, after=done)
    return plan


def decided_at(folder: StudyFolder, plan: Plan, done: int, decided: Decided, say: Callable[[str], None]) -> bool:
    """Whether there is an interim analysis at `done` blocks, and it shows that no more are needed."""
    if not _is_look(plan, done) or not decided(folder, summarise(folder, running=True)):
        return False
    say(f"every comparison is decided after {done} blocks")
    return True


def ended(folder: StudyFolder, plan: Plan, done: int) -> Summary:
    """The summary of a study without more than these blocks, where its plan ends if there is an interim analysis."""
    # Over several hosts a later block may be made before an earlier one.
    last = max((run.block for run in plan.runs if folder.is_finished(run)), default=0)
    if _is_look(plan, done) and max(done, last) < len(plan.blocks):
        folder.write_plan(plan.ending_at(max(done, last)))
    folder.journal.append(FINISHED_EVENT, state=state_of(list(folder.runs()), len(folder.plan().runs)))
    return summarise(folder)


def _is_look(plan: Plan, done: int) -> bool:
    return plan.schedule is not None and plan.schedule.alpha_at(done) is not None


class Stopping:
    """Counts failures in a row on each host group, in the order in which runs or blocks end."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._in_a_row: Counter[str] = Counter()

    def block_ended(self, runs: Iterable[RunRecord], control: str) -> str | None:
        """Note the runs of one block in the interleaved design: why the host should make no more of them, or None."""
        first = next(run for run in runs if run.arm == control and run.copy_number == 1)
        in_a_row = self._noted(first, bool(first.failed) or not (first.valid or is_host_noise(first)))
        if in_a_row < FAILED_CONTROLS_IN_A_ROW:
            return None
        did, why = ("failed", first.failed) if first.failed else ("is invalid", joined(first.reasons[:1]))
        return f"the control {control} {did} in {in_a_row} blocks in a row{_where(first)}: {why}"

    def run_ended(self, run: RunRecord) -> str | None:
        """Note a run in the design of blocks; returns what block_ended does."""
        if run.block == 1 and (words := refused_variables(run.evidence)):
            return f"arm {run.arm}{_where(run)}: variables: {words}"
        in_a_row = self._noted(run, not run.valid and not is_host_noise(run))
        if in_a_row < FAILED_RUNS_IN_A_ROW:
            return None
        last = joined(run.reasons[:1]) or "no reason was recorded"
        return f"{in_a_row} runs in a row are invalid; the last one{_where(run)}: {last}"

    def _noted(self, run: RunRecord, failed: bool) -> int:
        self._in_a_row[run.host_group] = self._in_a_row[run.host_group] + 1 if failed else 0
        return self._in_a_row[run.host_group]

    def stop(self, why: str | None) -> None:
        """End the study, which can be resumed, if there is a reason to: summarises it and raises StudyError."""
        if why is not None:
            summarise(self._folder)
            raise StudyError(why, f"correct the cause, then run: mydyno resume {self._folder.path}")


def _where(run: RunRecord) -> str:
    return f" (on {run.host_group})" if run.host_group else ""
