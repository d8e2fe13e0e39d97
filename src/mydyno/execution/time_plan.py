"""How an interleaved study fits into a time: blocks, cycles of each step, and which look it can reach.

More blocks mean more starts of every server, more cycles a better number of each start. The look that is aimed for is
the largest one whose blocks still have FEWEST_CYCLES cycles of each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mydyno.model.experiment import Experiment
from mydyno.stats.looks import LOOKS

FEWEST_CYCLES = 4
"""Of each step in a block, where there is a choice."""
SLICE_GAP_S = 0.12
"""Between two slices: readings, and the end of what is in flight (measured)."""
START_S_PER_SERVER = 1.8
"""Restore, start, prove, prewarm and stop, with small data and two CPUs (measured; replaced by what blocks take)."""
BLOCK_FIXED_S = 4.0
PREPARATION_RESERVE_S = 5.0
"""For the summary and the report."""


@dataclass(frozen=True)
class Shape:
    """What a block consists of."""

    servers: int
    lanes: int
    """Arms and A′: each has one slice in a cycle."""
    steps: int
    slice_s: float
    washout_s: float
    warmup_s: float
    """Load on each lane before the first cycle, of all steps together."""

    @property
    def cycle_s(self) -> float:
        """One cycle of one step."""
        return self.lanes * (self.slice_s + self.washout_s + SLICE_GAP_S)

    @property
    def overhead_s(self) -> float:
        """The duration of a block besides its cycles, before any block was measured."""
        return BLOCK_FIXED_S + START_S_PER_SERVER * self.servers + self.lanes * self.warmup_s

    def block_s(self, cycles: float, overhead_s: float | None = None) -> float:
        """One block with so many cycles of each step."""
        return (self.overhead_s if overhead_s is None else overhead_s) + cycles * self.steps * self.cycle_s

    def cycles_in(self, block_s: float, overhead_s: float | None = None) -> float:
        """Cycles of each step that fit into a block of that length; not less than 0."""
        over = self.overhead_s if overhead_s is None else overhead_s
        return max(0.0, (block_s - over) / (self.steps * self.cycle_s))


def shape_of(experiment: Experiment) -> Shape:
    """What one block of the experiment consists of."""
    steps = experiment.resolved_steps
    of_control = experiment.instances_of(experiment.arm(experiment.control))
    return Shape(
        servers=sum(experiment.instances_of(arm) for arm in experiment.arms) + of_control,
        lanes=len(experiment.arms) + 1,
        steps=len(steps),
        slice_s=experiment.design.slice,
        washout_s=experiment.design.washout,
        warmup_s=sum(step.warmup_s for step in steps),
    )


def cycles_of(experiment: Experiment) -> int:
    """Cycles of each step in a block of a study without a time: design.cycles, or as many as `measure` has slices."""
    if experiment.design.cycles is not None:
        return experiment.design.cycles
    return max(1, ceil(max(step.measure_s for step in experiment.resolved_steps) / experiment.design.slice))


@dataclass(frozen=True)
class TimePlan:
    """What is aimed for."""

    blocks: int
    """In all, those that were made before included; a look, where the time allows one."""
    block_s: float
    cycles: float
    reaches_look: bool


def plan_time(time_s: float, shape: Shape, done: int = 0, overhead_s: float | None = None, groups: int = 1) -> TimePlan:
    """The blocks to make in `time_s`, after `done` blocks were made before, by so many host groups at the same time."""
    usable_s = max(1.0, time_s - PREPARATION_RESERVE_S)
    ahead = [look for look in LOOKS if look > done]
    for least in (FEWEST_CYCLES, 2, 1):
        for look in reversed(ahead):
            block_s = usable_s / ceil((look - done) / groups)
            cycles = shape.cycles_in(block_s, overhead_s)
            if cycles >= least:
                return TimePlan(look, block_s, cycles, True)
    least_s = shape.block_s(1, overhead_s)
    rounds = max(1, int(usable_s / least_s))
    block_s = usable_s / rounds
    return TimePlan(done + rounds * groups, block_s, max(1.0, shape.cycles_in(block_s, overhead_s)), False)
