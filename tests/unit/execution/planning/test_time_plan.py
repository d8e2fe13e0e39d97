"""How a study fits into its time: which look it aims for, and how many cycles its blocks have."""

from __future__ import annotations

import pytest

from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.plan_text import plan_parts
from mydyno.execution.planning.time_plan import FEWEST_CYCLES, Shape, plan_time, shape_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.plan import Design, make_plan
from tests.support.fake_script import experiment

ALLOCATORS = Shape(servers=5, lanes=5, steps=1, slice_s=2.0, washout_s=0.5, warmup_s=1.0)


@pytest.mark.parametrize(("minutes", "blocks"), [(1, 1), (5, 6), (10, 10), (60, 40), (600, 40)])
def test_the_largest_look_is_aimed_for_whose_blocks_have_two_cycles(minutes: int, blocks: int) -> None:
    target = plan_time(60.0 * minutes, ALLOCATORS)
    assert (target.blocks, target.reaches_look) == (blocks, minutes > 1)
    assert target.cycles >= (FEWEST_CYCLES if minutes > 5 else 1)


def test_blocks_that_start_faster_allow_a_larger_look() -> None:
    assert plan_time(570.0, ALLOCATORS, done=1, overhead_s=6.0).blocks == 16
    assert plan_time(570.0, ALLOCATORS, done=1, overhead_s=40.0).blocks == 6


@pytest.mark.parametrize("blocks", [5, 6])
def test_a_plan_that_ends_before_the_first_look_says_so_and_how_long_that_takes(paths: HostPaths, blocks: int) -> None:
    asked = experiment(design={"kind": "interleaved", "time": "1m"})
    plan = make_plan(asked, Design("interleaved"), blocks)
    *_, last = plan_parts(asked, plan, forecast(asked, plan, paths))
    notes = [line for entry in last if entry.label == "note" for line in entry.lines if "no verdict" in line]
    assert bool(notes) == (blocks == 5)
    for note in notes:
        assert note.startswith("no verdict is given before 6 blocks, and the time allows 5; they take about --time ")
        minutes = int(note.rpartition(" ")[2].removesuffix("m"))
        assert plan_time(60.0 * minutes, shape_of(asked)).reaches_look


def test_a_look_that_was_made_is_not_aimed_for_again() -> None:
    assert plan_time(600.0, ALLOCATORS, done=10).blocks == 16
