"""The blocks of an interleaved study one after another: time, pilot, looks, and when it ends.

With a time (design.time, --time) blocks are added until a look decides every contrast or the time is spent. Effects are
examined at looks alone (model/definition/looks.py); between them only the precision is shown. Without a time the
planned blocks are made, each with the same number of cycles, and examined once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.block import ALONE_SLICES, BlockResult, SliceWatcher, make_block
from mydyno.execution.interleaved.capacity_search import BlockSearches, known_of
from mydyno.execution.interleaved.pilot import PILOT_EVENT, PilotPlan, expected_half_widths, words
from mydyno.execution.interleaved.washout import lengthen_washout, washout_of_next_block
from mydyno.execution.looks import Decided, decided_at, ended, extended, is_decided
from mydyno.execution.planning.pace import FixedCycles, UntilDeadline
from mydyno.execution.planning.time_plan import (
    LATE_SHARE,
    SLICE_GAP_S,
    Shape,
    TimePlan,
    cycles_of,
    is_over,
    plan_time,
    replanned,
    shape_of,
)
from mydyno.execution.stopping import Stopping
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.families import expected_contrasts
from mydyno.results.projection import Precision, precision_so_far, slices_so_far
from mydyno.results.values.interleaved import RATIO_METRIC
from mydyno.servers.templates import Template
from mydyno.store.study_folder import StudyFolder

GIVEN_UP_AFTER = 2
"""Number of consecutive failed blocks after which an arm is not started any more."""
STOP_RESERVE_S = 2.0
"""Reserved in a block for stopping, for each server."""
PRECISION_EVENT = "precision"
ALONE_FROM_S = 300.0
ALONE_FROM_BLOCKS = 6
"""Studies with so much time, or so many blocks, load the control alone at the end of their first block."""
ALONE_STOP_S = 3.0


class BlockWatcher(SliceWatcher, Protocol):
    """Receives the progress of an interleaved study while it runs."""

    def say(self, text: str) -> None:
        """A line for the user."""

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:
        """A block begins."""

    def pilot_ended(self, of: int, half_widths: Mapping[str, float]) -> None:
        """The precision to be expected at `of` blocks, from the pilot; empty: it showed none."""

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        """A block is finished and saved."""


@dataclass
class Blocks:
    """The execution of a study's blocks."""

    environment: StudyEnvironment
    folder: StudyFolder
    plan: Plan
    watcher: BlockWatcher
    began_s: float
    """When the study's time began (monotonic)."""
    time_s: float | None
    """None: without a time."""
    more: bool = True
    """Whether blocks may be added beyond the plan's."""
    decided: Decided = is_decided
    """Whether the study may end at the look that was just summarised."""
    overheads_s: list[float] = field(default_factory=list)
    """Time that each block made so far took besides its cycles."""
    _late_to: int = 0
    """The look that was announced as the next one."""

    async def run(self, templates: dict[str, Template | None]) -> Summary:
        """Make the blocks that are missing; the summary of the last look (or of all blocks, without a time)."""
        steps = {step.id: step for step in self.environment.experiment.resolved_steps}
        done = self._done()
        target = self._aim(done)
        stopping = Stopping(self.folder)
        while done < target.blocks and not self._is_over(done):
            number = done + 1
            result = await self._block(number, target, steps, templates)
            done = number
            self.overheads_s.append(result.overhead_s)
            target = self._replanned(target, done)
            self._say_late(done, target)
            stopping.stop(stopping.block_ended(result.runs, self.environment.experiment.control))
            precision = precision_so_far(self.folder, self.plan, target.blocks)
            if precision is not None:
                self.folder.journal.append(
                    PRECISION_EVENT, block=number, of=target.blocks, half_widths=precision.half_widths
                )
            self.watcher.block_ended(number, result, precision)
            lengthen_washout(self.folder, self.plan, self.environment.experiment, number, self.watcher.say)
            if done < target.blocks and decided_at(self.folder, self.plan, done, self.decided, self.watcher.say):
                break
        return ended(self.folder, self.plan, done)

    def _done(self) -> int:
        done = 0
        while self.folder.block_path(done + 1).is_dir():
            done += 1
        return done

    @property
    def washout_s(self) -> float:
        """The washout of the next block."""
        return washout_of_next_block(self.folder, self.environment.experiment)

    def _shape(self) -> Shape:
        return replace(shape_of(self.environment.experiment), washout_s=self.washout_s)

    def _alone_s(self, block: int) -> float:
        """The time for loading the control alone in a block; 0 where that is not done."""
        design = self.environment.experiment.design
        long_enough = len(self.plan.blocks) >= ALONE_FROM_BLOCKS if self.time_s is None else self.time_s >= ALONE_FROM_S
        if block != 1 or not long_enough or self.environment.experiment.is_search:
            return 0.0
        return ALONE_STOP_S + ALONE_SLICES * (design.slice + self.washout_s + SLICE_GAP_S)

    def _left_s(self) -> float:
        assert self.time_s is not None
        return self.time_s - (time.monotonic() - self.began_s)

    def _aim(self, done: int) -> TimePlan:
        experiment = self.environment.experiment
        if self.time_s is None:
            cycles = cycles_of(experiment)
            return TimePlan(len(self.plan.blocks), self._shape().block_s(cycles), cycles, True)
        if not self.more:
            shape, left = self._shape(), max(1, len(self.plan.blocks) - done)
            block_s = self._left_s() / left
            return TimePlan(len(self.plan.blocks), block_s, max(1.0, shape.cycles_in(block_s)), True)
        target = plan_time(self._left_s(), self._shape(), done)
        self.plan = extended(self.folder, self.plan, experiment, target, done)
        return target

    def _is_over(self, done: int) -> bool:
        if self.time_s is None or done == 0 or not self.overheads_s or self.plan.schedule is None:
            return False
        overhead_s = median(self.overheads_s)
        return is_over(self._left_s(), self.time_s, done, self.plan.schedule, self._shape(), overhead_s)

    def _replanned(self, target: TimePlan, done: int) -> TimePlan:
        looks = self.plan.schedule
        if self.time_s is None or not self.more or looks is None or self._is_over(done) or done >= target.blocks:
            return target
        found = replanned(target, self._left_s(), done, looks, self._shape(), median(self.overheads_s))
        if found is not target:
            self.plan = extended(self.folder, self.plan, self.environment.experiment, found, done)
        return found

    def _say_late(self, done: int, target: TimePlan) -> None:
        """Once for each look, when the time is spent before it."""
        looks = self.plan.schedule
        if self.time_s is None or looks is None or self._left_s() > 0 or done >= target.blocks or self._is_over(done):
            return
        if target.blocks == self._late_to:
            return
        self._late_to = target.blocks
        more_s = (target.blocks - done) * self._shape().block_s(1, median(self.overheads_s)) - self._left_s()
        if done < looks.first:
            how_long = f"its first look, at {target.blocks} blocks, about {format_duration(more_s)}"
        else:
            most_s = min(more_s, LATE_SHARE * self.time_s)
            how_long = f"its next look, at {target.blocks} blocks, for {format_duration(most_s)} at most"
        self.watcher.say(f"blocks take longer here than planned: the study continues to {how_long} beyond its time")

    async def _block(
        self, number: int, target: TimePlan, steps: dict[str, Step], templates: dict[str, Template | None]
    ) -> BlockResult:
        block = self.plan.blocks[number - 1]
        left_s, alone_s = None, self._alone_s(number)
        if self.time_s is None:
            pace: FixedCycles | UntilDeadline = FixedCycles(round(target.cycles))
        else:
            left_s = self._left_s() - 5.0
            length_s = max(1.0, left_s) / (target.blocks - number + 1)
            shape = self._shape()
            length_s = min(max(1.0, left_s), length_s + alone_s)
            pace = UntilDeadline(time.monotonic() + length_s, STOP_RESERVE_S + 0.5 * shape.servers + alone_s)
        self.watcher.block_begins(number, target.blocks, left_s, target.cycles)
        self.folder.journal.append("block_began", block=number)
        order = [steps[step_id] for step_id in block.step_order]
        search = self.environment.experiment.is_search
        pilot = (lambda slices: self._pilot(slices, target)) if number == 1 and not search else None
        searches = BlockSearches(known_of(self.environment.experiment, slices_so_far(self.folder)) if search else {})
        return await make_block(
            self.environment, block, order, templates, self.folder, pace, self.watcher, self.washout_s,
            given_up(self.folder, self.environment.experiment.control, number), pilot, alone_s > 0, searches,
        )  # fmt: skip

    def _pilot(self, slices: Sequence[SliceRecord], target: TimePlan) -> None:
        """Report beforehand the precision to expect."""
        experiment = self.environment.experiment
        ratio_exists = self.plan.client_untouched  # else no verdict is given on the ratio of CPU times
        unmeasured = () if ratio_exists else (RATIO_METRIC,)
        plan = PilotPlan(
            target.blocks, target.cycles, len(experiment.arms) + 1, expected_contrasts(experiment, without=unmeasured),
            self.plan.schedule, experiment.design.slice, experiment.verdict.error_rate,
        )  # fmt: skip
        expected = expected_half_widths(slices, experiment.control, plan)
        self.folder.journal.append(PILOT_EVENT, of=target.blocks, half_widths=expected)
        self.watcher.pilot_ended(target.blocks, expected)
        self.watcher.say(words(expected, plan))


def given_up(folder: StudyFolder, control: str, number: int) -> frozenset[str]:
    """Arms that are not started in a block, because they failed in every one of the last blocks."""
    recent = range(max(1, number - GIVEN_UP_AFTER), number)
    if len(recent) < GIVEN_UP_AFTER:
        return frozenset()
    failed = [
        {
            run.arm
            for run in folder.runs()
            if run.block == block and run.failed and not any(step.driver.transactions for step in run.steps)
        }
        for block in recent
    ]
    return frozenset(set.intersection(*failed) - {control})


def remaining_s(plan: Plan, folder: StudyFolder, experiment: Experiment) -> float:
    """The time that an interrupted study had left: its own time, less the share of its blocks that were made."""
    made = sum(folder.block_path(block.block).is_dir() for block in plan.blocks)
    time_s = experiment.design.time or 0.0
    return max(time_s / 10, time_s * (1 - made / max(1, len(plan.blocks))))
