"""How an interleaved study fits into a time: blocks, cycles of each step, which look it can reach, and what a replay
plays.

More blocks mean more starts of every server, and a better estimate of the noise; more cycles a better number of each
start. Aimed for are as many blocks as give the narrowest intervals by what a start takes and by its variance, which is
START_VARIANCE of that of a slice (two-stage sampling: Cochran, Sampling Techniques (1977), chapter 10); the look falls
where the time ends. A study that is late continues to its first look. Each step of a block gets a fixed number of
cycles, or as many as fit until a deadline.

Every decision here depends on durations and numbers of blocks, never on an effect.

The slices of a block play a capture from its start, one part after the other; a slice's part is the same for all lanes
of a cycle. Each block begins anew, on data as they were. A capture that writes is played once: a second pass would
insert keys that are there, and change rows that are gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Protocol

from scipy.special import stdtrit

from mydyno.errors import UserError
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.plan import (
    AIMED,
    EARLY,
    INTERIM_BLOCKS,
    InterimAnalyses,
    Plan,
    lanes_of_block,
    servers_together,
)
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.special_steps import compares_memory, speed_of
from mydyno.model.definition.specs import PROFILE_EVERY, apart_slice_s
from mydyno.model.definition.specs import PROFILE_EVERY as EVERY
from mydyno.model.metrics import GROWTH
from mydyno.treatments.coexistence import is_switched
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import Captured, captured

START_VARIANCE = 0.04
"""Variance of starts as a share of that of slices, of 0.5 as of 1 s: starts differ by 0 to 1.3 %, slices by 3 to 11 %
(ten studies)."""
FEWEST_CYCLES = 4
"""Fewest cycles of each step in a block that are aimed for."""
FEWEST_CYCLES_OVER_TIME = 12
"""The same where a start must be under load for long: fewer slices show neither its capacity
(docs/guides/capacity.md) nor how its memory grows."""
WIDER = 1.05
"""Times the narrowest interval: a target stays while it promises no wider one, else each block would move it by one."""
SLICE_GAP_S = 0.12
"""Between two slices: readings, and the end of what is in flight (measured)."""
PROFILE_GAP_S = 1.0
"""The same around a profiled slice: the profiler begins and ends, and stacks are made (measured)."""
START_S_PER_SERVER = 1.2
"""Start, prove, prewarm and stop, with small data and two CPUs. With BLOCK_FIXED_S it is 1.3 to 2 times what blocks of
5 to 15 servers took on an idle host (5 to 16 s, measured). What blocks take replaces it.
"""
LINK_S_PER_SERVER = 1.1
"""What a link between network namespaces and its proof add (measured)."""
COPY_BYTES_PER_S = 400e6
"""Speed at which a data folder is copied."""
BLOCK_FIXED_S = 4.0
LATE_SHARE = 0.1
"""The share of its time by which a study may exceed it to reach a look that is not its first."""
PREPARATION_RESERVE_S = 5.0
"""For the summary and the report."""
LEAST_CYCLES = 2


@dataclass(frozen=True)
class Shape:
    """What a block consists of."""

    servers: int
    lanes: int
    """Arms and their copies: each has one slice in a cycle."""
    steps: int
    slice_s: float
    washout_s: float
    warmup_s: float
    """Load on each lane before the first cycle, of all steps together."""
    start_s: float = START_S_PER_SERVER
    """Time for one server, from the copy of its data to its stop, without any load."""
    over_time: bool = False
    """Whether each start must be under load for long."""
    one_server: bool = False
    """Whether all arms share one server."""
    contrasts: int = 1
    """Arms that are compared."""
    least_cycles: int = 1
    """Fewer give no answer at all."""
    extra_cycles: int = 0
    """Cycles of slices apart (CPU profiles, waits, the kernel view) that follow some of the cycles."""

    @property
    def cycle_s(self) -> float:
        """One cycle of one step, with its share of the slices apart."""
        extra_s = self.extra_cycles * (apart_slice_s(self.slice_s) + self.washout_s + PROFILE_GAP_S) / EVERY
        return self.lanes * (self.slice_s + self.washout_s + SLICE_GAP_S + extra_s)

    @property
    def overhead_s(self) -> float:
        """The duration of a block besides its cycles, before any block was measured."""
        return BLOCK_FIXED_S + self.start_s * self.servers + self.lanes * self.warmup_s

    @property
    def aimed_cycles(self) -> int:
        """Cycles of each step that a block should have at least."""
        return FEWEST_CYCLES_OVER_TIME if self.over_time else FEWEST_CYCLES

    def half_width(self, blocks: int, cycles: float, done: int) -> float:
        """Half of an effect's interval after so many blocks, where the noise of a slice is 1. The `done` ones have the
        cycles that they should have. A start is no part of the difference of arms that share one server.
        """
        of_starts = 0.0 if self.one_server else START_VARIANCE
        of_slices = ((blocks - done) / cycles + done / self.aimed_cycles) / blocks
        return float(stdtrit(blocks - 1, 1 - AIMED / self.contrasts / 2)) * sqrt((of_starts + of_slices) / blocks)

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
    kind = kind_of(experiment.data)
    store_s = 0.0 if kind.store_s is None else kind.store_s(experiment.data)
    growth = GROWTH in experiment.verdict.primary
    links = any("network" in arm.treatments for arm in experiment.arms)
    return Shape(
        servers=0
        if experiment.server.dsn is not None
        else 1
        if is_switched(experiment)
        else servers_together(experiment),
        lanes=lanes_of_block(experiment),
        steps=len(steps),
        slice_s=experiment.design.slice,
        washout_s=experiment.design.washout,
        warmup_s=sum(step.warmup_s for step in steps),
        start_s=START_S_PER_SERVER
        + LINK_S_PER_SERVER * links
        + store_s / 2  # servers store at the same time
        + kind.size_bytes(experiment.data) / COPY_BYTES_PER_S,
        over_time=experiment.is_search or experiment.compares_statements or compares_memory(experiment),
        one_server=is_switched(experiment),
        contrasts=max(1, len(experiment.arms) - 1),
        least_cycles=FEWEST_CYCLES_OVER_TIME if growth else 1,
        extra_cycles=len(experiment.profile.kinds),
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


def plan_time(
    time_s: float, shape: Shape, done: int = 0, overhead_s: float | None = None, groups: int = 1, aimed: bool = False
) -> TimePlan:
    """The blocks to make in `time_s`, after `done` blocks were made before, by so many host groups at the same time.

    `aimed`: the look aimed for was examined, and only those at fixed numbers of blocks are left.
    """
    usable_s = max(1.0, time_s - PREPARATION_RESERVE_S)

    def look_at(blocks: int) -> TimePlan:
        block_s = usable_s / ceil((blocks - done) / groups)
        return TimePlan(blocks, block_s, shape.cycles_in(block_s, overhead_s), True)

    looks = [
        look_at(look) for look in (INTERIM_BLOCKS if aimed else range(EARLY, INTERIM_BLOCKS[-1] + 1)) if look > done
    ]
    possible = [one for one in looks if one.cycles >= shape.least_cycles]
    whole = [one for one in possible if one.blocks >= INTERIM_BLOCKS[0]]
    ample = [one for one in whole if one.cycles >= shape.aimed_cycles]
    if ample:
        return min(ample, key=lambda one: shape.half_width(one.blocks, one.cycles, done))
    if possible:
        return whole[0] if whole else possible[-1]
    least_s = shape.block_s(shape.least_cycles, overhead_s)
    rounds = max(1, int(usable_s / least_s))
    block_s = usable_s / rounds
    return TimePlan(done + rounds * groups, block_s, max(1.0, shape.cycles_in(block_s, overhead_s)), False)


def time_of_blocks(time_s: float, shape: Shape, blocks: int) -> TimePlan:
    """So many blocks in `time_s`, neither more nor fewer."""
    block_s = max(1.0, time_s - PREPARATION_RESERVE_S) / blocks
    cycles = shape.cycles_in(block_s)
    return TimePlan(blocks, block_s, cycles, cycles >= shape.least_cycles)


def check_time(time_s: float, shape: Shape, groups: int = 1, instances: int = 1) -> None:
    """Raise UserError where a new study of this length would end before its first look, or before each of the arms'
    `instances` was loaded.
    """
    least = EARLY if instances == 1 else instances
    found = plan_time(time_s, shape, groups=groups) if instances == 1 else time_of_blocks(time_s, shape, instances)
    if found.reaches_look:
        return
    least_s = PREPARATION_RESERVE_S + ceil(least / groups) * shape.block_s(shape.least_cycles)
    warmup_s = ceil(least / groups) * shape.lanes * shape.warmup_s
    cause, cure = "", ""
    if warmup_s > least_s / 4:
        cause, cure = f", {format_duration(warmup_s)} of them warm-up", " a shorter warm-up (--set steps.warmup=2s),"
    lanes = f"{shape.servers} servers" if shape.servers else f"{shape.lanes} runs"
    raise UserError(
        f"{format_duration(time_s)} are too short for a verdict: {least} blocks of {lanes} and {shape.steps} "
        f"load level{'s' * (shape.steps > 1)} take about {format_duration(least_s)}{cause}",
        f"use --time {ceil(least_s / 60)}m,{cure} fewer arms, or fewer load levels",
    )


def next_look_s(shape: Shape, done: int, overhead_s: float | None = None, groups: int = 1) -> float:
    """The shortest time from `done` blocks to the next look, the early one where there are no blocks yet.

    Infinite if there is none.
    """
    look = next((look for look in ((EARLY,) if done == 0 else INTERIM_BLOCKS) if look > done), None)
    rounds = inf if look is None else ceil((look - done) / groups)
    return PREPARATION_RESERVE_S + rounds * shape.block_s(shape.least_cycles, overhead_s)


def is_over(
    left_s: float, time_s: float, done: int, looks: InterimAnalyses, shape: Shape, overhead_s: float, groups: int = 1
) -> bool:
    """Whether a study with a time ends after `done` blocks, the median of which took `overhead_s` besides its cycles.

    Until the look aimed for: if not one more block fits; that look then falls here. A study that is late continues,
    with one cycle in each block, for as long as its time at most until the first look. Beyond the look aimed for: at a
    look, if the blocks of the next one do not fit; between two, when a tenth of its time is spent in addition.
    """
    if done < looks.first:
        return left_s < -time_s
    if done < looks.aim or done in looks.rates:
        return not plan_time(left_s, shape, done, overhead_s, groups, done >= looks.aim).reaches_look
    return left_s < 0.5 * overhead_s - LATE_SHARE * time_s


def replanned(
    target: TimePlan, left_s: float, done: int, looks: InterimAnalyses, shape: Shape, overhead_s: float, groups: int = 1
) -> TimePlan:
    """The target with what blocks really take: the look that can be reached in what is left; where none can, and none
    was, the next one. It stays while its blocks have half of the cycles that they should have, and no other number of
    blocks makes intervals much narrower.
    """
    if done >= looks.aim:
        return target
    block_s = max(1.0, left_s - PREPARATION_RESERVE_S) / ceil(max(1, target.blocks - done) / groups)
    cycles, found = shape.cycles_in(block_s, overhead_s), plan_time(left_s, shape, done, overhead_s, groups)
    if target.reaches_look and cycles >= 0.5 * shape.aimed_cycles:
        narrowest = shape.half_width(found.blocks, found.cycles, done) if found.reaches_look else inf
        if shape.half_width(target.blocks, cycles, done) <= WIDER * narrowest:
            return target
    if found.reaches_look or done >= looks.first:
        return found if found.reaches_look else target
    nearest = next(look for look in (EARLY, *INTERIM_BLOCKS) if look > done)
    return TimePlan(nearest, shape.block_s(1, overhead_s), 1.0, True)


class Pace(Protocol):
    """How many cycles a step gets."""

    def step_begins(self, steps_left: int) -> None:
        """A step begins; `steps_left` counts it."""

    def left_s(self, cycle_s: float) -> float:
        """The time of the step that has begun, if it has cycles of this length."""

    def another_cycle(self, made: int, last_s: float) -> bool:
        """Whether to run another cycle after `made` of this step, the last of which took `last_s`."""


@dataclass
class FixedCycles:
    """The same number of cycles for every step."""

    cycles: int

    def step_begins(self, steps_left: int) -> None:
        """Nothing to prepare."""

    def left_s(self, cycle_s: float) -> float:
        """All of its cycles."""
        return self.cycles * cycle_s

    def another_cycle(self, made: int, last_s: float) -> bool:  # noqa: ARG002
        """Until the number is reached."""
        return made < self.cycles


@dataclass
class UntilDeadline:
    """As many cycles as fit until a moment of the monotonic clock, shared equally among the block's steps."""

    deadline_s: float
    reserve_s: float
    """Reserved for stopping the servers."""
    _step_end_s: float = 0.0

    def step_begins(self, steps_left: int) -> None:
        """Divide what is left."""
        now_s = time.monotonic()
        self._step_end_s = now_s + max(0.0, self.deadline_s - self.reserve_s - now_s) / steps_left

    def left_s(self, cycle_s: float) -> float:
        """Until its end; one cycle in any case."""
        return max(cycle_s, self._step_end_s - time.monotonic())

    def another_cycle(self, made: int, last_s: float) -> bool:
        """While another one fits; one in any case, and two while the block's time is not over."""
        now_s = time.monotonic()
        if made < LEAST_CYCLES:
            return made == 0 or now_s < self.deadline_s
        return now_s + last_s <= self._step_end_s


MS_PER_S = 1000


class CapturedTime:
    """The place that each step of a block has reached in its capture."""

    def __init__(self, steps: Iterable[Step]) -> None:
        found = {step.id: captured(step) for step in steps if speed_of(step) is not None}
        self._captured = {step: one for step, one in found.items() if one is not None}
        self._place_ms: dict[str, int] = {}

    def take(self, step: Step, *lengths_s: float) -> int | None:
        """Where the next slice begins, ms; later ones follow by their lengths. None without captured times."""
        if step.id not in self._captured:
            return None
        place_ms = self._place_ms.get(step.id, 0)
        self._place_ms[step.id] = place_ms + sum(round(one * MS_PER_S) for one in lengths_s)
        return place_ms

    def has_room(self, step: Step, length_s: float) -> bool:
        """Whether so much more can be played: a capture that writes is not played twice."""
        one = self._captured.get(step.id)
        if one is None or not one.writes:
            return True
        return self._place_ms.get(step.id, 0) / MS_PER_S + length_s <= one.length_s


def replay_problem(experiment: Experiment, number: int, design: str) -> str:
    """Why the step of this number cannot be replayed at captured times; empty if it can. Raises OSError."""
    steps = experiment.resolved_steps
    step = steps[number]
    one = captured(step)
    if one is None or one.speed is None or not one.writes or step.statements:
        return ""
    ways = "set options.read_only = true, or use a longer capture"
    if any(other.replay == step.replay for other in steps[:number]):
        return f"{_writing(one)}, and an earlier step of the block has played it already: make it two experiments"
    server = experiment.server
    if server.dsn is not None and (server.hooks is None or server.hooks.restore is None):
        return f"{_writing(one)}, and the data of an external server are not restored: set server.hooks.restore"
    if design == "blocks":
        needed_s, what = step.warmup_s + step.measure_s, "warm-up and measurement"
    else:
        shape = shape_of(experiment)
        needed_s = step.warmup_s + LEAST_CYCLES * (shape.slice_s + shape.washout_s)
        what = f"the warm-up and {LEAST_CYCLES} slices"
    if needed_s <= one.length_s:
        return ""
    lasts = f"it lasts {format_duration(one.length_s)} at this speed, {what} need {format_duration(needed_s)}"
    return f"{_writing(one)}, so it cannot begin again, and {lasts}: {ways}"


def replay_lines(experiment: Experiment, plan: Plan, step: Step) -> Iterator[str]:
    """What is replayed, in a plan. Raises OSError."""
    one = captured(step)
    if step.statements:
        yield "each statement on every server within milliseconds, again and again; what writes is rolled back"
        yield from (() if one is None else (f"of the log: {problem}" for problem in one.problems))
        return
    for problem in () if one is None else one.problems:
        yield f"of the log: {problem}"
    if one is not None and one.left_out:
        yield f"read_only leaves out {one.left_out} of {one.statements} captured statements, which write"
    if one is not None and one.speed is not None:
        yield from _captured_times(experiment, plan, step, one)
        return
    begin = "each slice" if plan.design != "blocks" else "each run"
    yield "the captured transactions in their order, on whichever connection is free, without the captured times"
    yield f"{begin} begins at a place that is the same for all arms; after the last transaction comes the first"
    if one is not None and one.writes:
        yield (
            f"{_writing(one)}, and the same statements come again: inserts of captured keys fail then (error 1062), "
            "deletes find no rows"
        )
        yield 'to avoid that: options.read_only = true, or options.speed = "original"'


def _captured_times(experiment: Experiment, plan: Plan, step: Step, one: Captured) -> Iterator[str]:
    pace = "at" if one.speed == 1 else f"{one.speed:g} times as fast as"
    yield (
        f"the captured sessions, each on a connection of its own, at most {step.connections} at a time; their "
        f"transactions {pace} the captured times, late ones counted from when they were due"
    )
    shape = shape_of(experiment)
    if plan.design == "blocks":
        played_s, who = step.warmup_s + step.measure_s, "each run"
    else:
        time_s = experiment.design.time if plan.sequential else None
        cycles = float(cycles_of(experiment)) if time_s is None else plan_time(time_s, shape).cycles
        apart_s = shape.extra_cycles * (apart_slice_s(shape.slice_s) + shape.washout_s) / PROFILE_EVERY
        played_s = step.warmup_s + cycles * (shape.slice_s + shape.washout_s + apart_s)
        who = "each block, and in it the slices of every arm,"
    lasts = f"the capture lasts {format_duration(one.length_s)} at this speed"
    if played_s <= one.length_s:
        share = f"{played_s / one.length_s:.0%}"
        yield f"{lasts}; {who} plays its first {format_duration(played_s)} ({share}), from the start"
    elif one.writes and plan.design != "blocks":
        yield f"{lasts}, and the time would be enough for {format_duration(played_s)}"
        yield f"{_writing(one)}, so it is not played twice: {who} ends where the capture ends"
    else:
        yield f"{lasts}; {who} plays {format_duration(played_s)}: after the end it begins again"


def _writing(one: Captured) -> str:
    if one.writing is None:
        return "the capture may write (it was made by a version that did not count that)"
    return f"{one.writing} of {one.statements} captured statements write"
