"""Times of studies that depend on the number of blocks made, not on a clock; blocks have a fixed number of cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from mydyno.execution.interleaved.order import BlockOrder
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.planning.time_plan import PREPARATION_RESERVE_S, shape_of
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import EARLY

ENOUGH_CYCLES, FEW_CYCLES = 4.1, 1.2
"""In each block: for a look that is aimed for as no later one fits; for the early look."""


@dataclass
class _Counted(StudyTime):
    @property
    def left_s(self) -> float:
        return self.left_after(self.done)

    def left_after(self, done: int) -> float:
        raise NotImplementedError

    def order(self, block: int, waiting: int) -> BlockOrder:
        return replace(super().order(block, waiting), length_s=None)


def left_after_blocks(left_s: Callable[[int], float]) -> type[StudyTime]:
    """So much is left after this number of blocks."""

    class Left(_Counted):
        def left_after(self, done: int) -> float:
            return left_s(done)

    return Left


def allowing(blocks: Sequence[int], late_s: Callable[[int], float | None] = lambda _: None) -> type[StudyTime]:
    """It allows so many blocks before the first one, after it, and so on; or it is late by so much."""

    class Allowing(_Counted):
        def left_after(self, done: int) -> float:
            late = late_s(done)
            if late is not None:
                return -late
            allowed = blocks[min(done, len(blocks) - 1)]
            rounds = ceil(max(0, allowed - done) / self.groups)
            overhead_s = median(self.overheads_s) if self.overheads_s else None
            cycles = FEW_CYCLES if allowed == EARLY else ENOUGH_CYCLES
            return PREPARATION_RESERVE_S + rounds * self.shape.block_s(cycles, overhead_s)

    return Allowing


def with_time(asked: Experiment, blocks: int, cycles: int = 2, groups: int = 1) -> Experiment:
    """The experiment with a time that allows so many blocks on that many groups, and so many cycles of each step."""
    slice_s = max(step.measure_s for step in asked.resolved_steps) / cycles
    design = asked.design.model_copy(update={"cycles": None, "slice": slice_s})
    shape = shape_of(asked.model_copy(update={"design": design}))
    time_s = PREPARATION_RESERVE_S + ceil(blocks / groups) * shape.block_s(ENOUGH_CYCLES)
    return asked.model_copy(update={"design": design.model_copy(update={"time": time_s})})
