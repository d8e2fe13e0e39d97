"""The time of an interleaved study, on this host and over host groups: how many blocks it has, how long each of them
is, and when it is over.

With a time (design.time, --time) blocks are added until a look decides every contrast or the time is spent. Without one
the planned blocks are made, each with the same number of cycles. What decides are durations and numbers of blocks,
never an effect.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median

from mydyno.execution.interim import extended
from mydyno.execution.interleaved.order import BlockOrder, alone_s, given_up, washout_of_next_block
from mydyno.execution.planning.time_plan import (
    LATE_SHARE,
    Shape,
    TimePlan,
    cycles_of,
    is_over,
    plan_time,
    replanned,
    shape_of,
)
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.quantities import format_duration
from mydyno.store.samples import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder

BLOCK_RESERVE_S = 5.0
"""Reserved of the time that is left, for what follows the last block."""


@dataclass
class StudyTime:
    """The plan of a study that is executed, and its time."""

    folder: StudyFolder
    experiment: Experiment
    plan: Plan
    time_s: float | None
    """For the blocks that are missing; None: without a time."""
    more: bool = True
    """Whether blocks may be added beyond the plan's."""
    groups: int = 1
    """Host groups that execute blocks at the same time now."""
    began_s: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - as it is then: tests move it
    """When the study's time began (monotonic)."""
    overheads_s: list[float] = field(default_factory=list)
    """Time that each block made so far took besides its cycles."""
    _late_to: int = 0
    """The look that was announced as the next one."""

    @property
    def left_s(self) -> float:
        """Remaining time; negative if the study is late."""
        assert self.time_s is not None
        return self.time_s - (time.monotonic() - self.began_s)

    @property
    def usable_s(self) -> float:
        """Remaining time for blocks."""
        return max(1.0, self.left_s - BLOCK_RESERVE_S)

    @property
    def shape(self) -> Shape:
        """What the next block consists of."""
        return replace(shape_of(self.experiment), washout_s=washout_of_next_block(self.folder, self.experiment))

    def missing(self, up_to: int | None = None) -> list[int]:
        """Blocks of the plan that are not made, in its order."""
        return [block.block for block in self.plan.blocks[:up_to] if not self.folder.block_path(block.block).is_dir()]

    @property
    def done(self) -> int:
        """Number of blocks that are made."""
        return len(self.plan.blocks) - len(self.missing())

    def aim(self) -> TimePlan:
        """What to aim for when the blocks begin."""
        done, planned = self.done, len(self.plan.blocks)
        if self.time_s is None:
            cycles = cycles_of(self.experiment)
            return TimePlan(planned, self.shape.block_s(cycles), cycles, True)
        if not self.more:
            block_s = self.left_s / ceil(max(1, planned - done) / self.groups)
            return TimePlan(planned, block_s, max(1.0, self.shape.cycles_in(block_s)), True)
        if (known_s := overhead_s(self.folder)) is not None:
            self.overheads_s.append(known_s)
            # Preparations are not of the time that was given for blocks: it may be the shortest that leads to a look.
            self.began_s = time.monotonic()
        aimed = self.plan.schedule is not None and 0 < self.plan.schedule.aim <= done
        return self._extended(plan_time(self.left_s, self.shape, done, known_s, self.groups, aimed), done)

    def replan(self, target: TimePlan, done: int, at_least: int = 0) -> TimePlan:
        """What to aim for after `done` blocks, with what blocks really take; `at_least` so many blocks."""
        looks = self.plan.schedule
        if self.time_s is None or not self.more or looks is None or done >= target.blocks or not self.overheads_s:
            return target
        if self.is_over(done):
            here = TimePlan(done, target.block_s, target.cycles, True)
            return self._extended(here, done) if looks.first <= done < looks.aim else target
        found = replanned(target, self.left_s, done, looks, self.shape, median(self.overheads_s), self.groups)
        return target if found is target or found.blocks < at_least else self._extended(found, done)

    def is_over(self, done: int) -> bool:
        """Whether the study ends after `done` blocks because its time is spent."""
        if self.time_s is None or done == 0 or not self.overheads_s or self.plan.schedule is None:
            return False
        overhead_s = median(self.overheads_s)
        return is_over(self.left_s, self.time_s, done, self.plan.schedule, self.shape, overhead_s, self.groups)

    def late(self, look: int, done: int) -> str | None:
        """What to say when the time is spent before `look`, the next one: once for each."""
        looks = self.plan.schedule
        if self.time_s is None or looks is None or not self.overheads_s:
            return None
        if self.left_s > 0 or done >= look or look == self._late_to or (done >= looks.aim and self.is_over(done)):
            return None
        self._late_to = look
        rounds = ceil((look - done) / self.groups)
        more_s = rounds * self.shape.block_s(1, median(self.overheads_s)) - self.left_s
        if done < looks.first:
            how_long = f"its first interim analysis, at {look} blocks, about {format_duration(more_s)}"
        else:
            most_s = min(more_s, LATE_SHARE * self.time_s)
            how_long = f"its next interim analysis, at {look} blocks, for {format_duration(most_s)} at most"
        return f"blocks take longer here than planned: the study continues to {how_long} beyond its time"

    def order(self, block: int, waiting: int) -> BlockOrder:
        """The order for a block, one of `waiting` that no group has begun."""
        washout_s = washout_of_next_block(self.folder, self.experiment)
        length_s = None
        if self.time_s is not None:
            rounds = ceil(max(1, waiting) / self.groups)
            length_s = min(
                self.usable_s, self.usable_s / rounds + alone_s(self.plan, self.experiment, block, washout_s)
            )
        return BlockOrder(block, length_s, washout_s, given_up(self.folder, self.experiment.control, block))

    def _extended(self, target: TimePlan, done: int) -> TimePlan:
        self.plan = extended(self.folder, self.plan, self.experiment, target, done)
        return target


def overhead_s(folder: StudyFolder) -> float | None:
    """The median time that the finished blocks of a study took besides its slices; None without any."""
    found = []
    for block, (began, ended) in folder.block_spans_ns().items():
        slices = read_slices(folder.block_path(block) / SLICES_FILE)
        if slices:
            first = min(one.started_unix_ns - round((one.washout_s or 0.0) * 1e9) for one in slices)
            last = max(one.started_unix_ns + round(one.length_s * 1e9) for one in slices)
            found.append(max(0, first - began + ended - last) / 1e9)
    return median(found) if found else None


def remaining_s(plan: Plan, folder: StudyFolder, experiment: Experiment) -> float:
    """The time that an interrupted study had left: its own time, less the share of its blocks that were made."""
    made = sum(folder.block_path(block.block).is_dir() for block in plan.blocks)
    time_s = experiment.design.time or 0.0
    return max(time_s / 10, time_s * (1 - made / max(1, len(plan.blocks))))
