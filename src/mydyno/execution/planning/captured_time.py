"""Replays at captured times: which part of a capture each slice plays, and what a plan says of it.

The slices of a block play a capture from its start, one part after the other; a slice's part is the same for all lanes
of a cycle. Each block begins anew, on data as they were. A capture that writes is played once: a second pass would
insert keys that are there, and change rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mydyno.execution.planning.time_plan import LEAST_CYCLES, cycles_of, plan_time, shape_of
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.special_steps import speed_of
from mydyno.model.definition.specs import PROFILE_EVERY, apart_slice_s
from mydyno.workloads.captures import Captured, captured

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
