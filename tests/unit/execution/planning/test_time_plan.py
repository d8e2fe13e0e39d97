"""How a study fits into its time: which look it aims for, and how many cycles its blocks have."""

from __future__ import annotations

import re
from random import Random
from statistics import median

import numpy as np
import pytest
from scipy.special import stdtrit

from mydyno.errors import UserError
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.time_plan import (
    FEWEST_CYCLES,
    FEWEST_CYCLES_OVER_TIME,
    START_VARIANCE,
    Shape,
    is_over,
    plan_time,
    replanned,
    shape_of,
)
from mydyno.experiments import built_in, load
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec, StepSpec
from mydyno.model.definition.plan import AIMED, InterimAnalyses, interim_aimed_at
from mydyno.model.metrics import GROWTH
from tests.support.fake_script import experiment

EXAMPLE_SETTINGS = {"variable": ("vary.variables.innodb_flush_log_at_trx_commit=[1, 2]",)}
ALLOCATORS = Shape(servers=5, lanes=5, steps=1, slice_s=2.0, washout_s=0.5, warmup_s=1.0, contrasts=3)


@pytest.mark.parametrize(("minutes", "blocks"), [(1, 1), (5, 6), (10, 8), (20, 17), (60, 40), (600, 40)])
def test_blocks_have_enough_cycles_where_the_time_allows_it(minutes: int, blocks: int) -> None:
    target = plan_time(60.0 * minutes, ALLOCATORS)
    assert (target.blocks, target.reaches_look) == (blocks, minutes > 1)
    assert target.cycles >= (FEWEST_CYCLES if minutes > 5 else 1)


def test_blocks_that_start_faster_allow_a_larger_look() -> None:
    assert plan_time(570.0, ALLOCATORS, done=1, overhead_s=6.0).blocks == 10
    assert plan_time(570.0, ALLOCATORS, done=1, overhead_s=40.0).blocks == 7


@pytest.mark.parametrize("one_server", [False, True])
@pytest.mark.parametrize("overhead_s", [5.0, 20.0])
def test_no_other_number_of_blocks_gives_narrower_intervals_in_the_same_time(
    overhead_s: float, one_server: bool
) -> None:
    """Simulated: blocks with the noise of starts and of slices, and t intervals from them."""
    shape = Shape(servers=3, lanes=3, steps=1, slice_s=1.0, washout_s=0.3, warmup_s=0.0, one_server=one_server)
    noise = np.random.default_rng(1)

    def half_width(blocks: int) -> float:
        cycles = shape.cycles_in(595.0 / blocks, overhead_s)
        variance = START_VARIANCE * (not one_server) + 1 / cycles
        spreads = noise.normal(0.0, variance**0.5, (20_000, blocks)).std(axis=1, ddof=1)
        return float(stdtrit(blocks - 1, 1 - AIMED / 2) * spreads.mean() / blocks**0.5)

    target = plan_time(600.0, shape, overhead_s=overhead_s)
    best = min(half_width(blocks) for blocks in range(6, 41) if shape.cycles_in(595.0 / blocks, overhead_s) >= 4)
    assert half_width(target.blocks) < 1.02 * best


def test_servers_whose_memory_is_compared_are_loaded_for_long() -> None:
    asked = experiment(design={"kind": "interleaved", "time": "10m"})
    memory = asked.verdict.model_copy(update={"primary": ("qps", "server_rss_bytes")})
    assert shape_of(asked).aimed_cycles == FEWEST_CYCLES
    assert shape_of(asked.model_copy(update={"verdict": memory})).aimed_cycles == FEWEST_CYCLES_OVER_TIME


def test_a_time_that_ends_before_a_look_is_refused_with_the_shortest_that_does_not(paths: HostPaths) -> None:
    asked = experiment(design={"kind": "interleaved", "time": "1m"})
    with pytest.raises(UserError, match=r"^1 min are too short for a verdict: 4 blocks of 3 servers and ") as refused:
        plan_study(asked, paths)
    assert refused.value.hint is not None
    minutes = int(re.findall(r"--time (\d+)m", refused.value.hint)[0])
    assert plan_time(60.0 * minutes, shape_of(asked)).reaches_look
    assert not plan_time(60.0 * (minutes - 1), shape_of(asked)).reaches_look


@pytest.mark.parametrize(("warmup", "named"), [(10.0, True), (0.0, False)])
def test_a_time_that_warm_up_takes_is_refused_with_that_cause(paths: HostPaths, warmup: float, named: bool) -> None:
    asked = experiment(
        design={"kind": "interleaved", "time": "20s"}, steps=(StepSpec(workload="oltp_read_only", warmup=warmup),)
    )
    with pytest.raises(UserError, match="are too short for a verdict") as refused:
        plan_study(asked, paths)
    assert ("2 min of them warm-up" in refused.value.message) is named  # 4 blocks, 3 lanes, 10 s
    assert ("a shorter warm-up" in str(refused.value.hint)) is named


def test_blocks_are_as_many_as_the_instances_of_each_arm_and_examined_once(paths: HostPaths) -> None:
    dsns = {arm: {"dsn": [f"mysql://u@h{number}-{arm}/s" for number in range(5)]} for arm in ("glibc", "jemalloc")}
    design = {"kind": "interleaved", "time": "10m"}
    asked = experiment(treatments=dsns, server=ServerSpec(dsn="mysql://u@h0-glibc/s"), design=design)
    plan = plan_study(asked, paths)
    assert plan.looks == {5: 0.05}
    for arm in dsns:
        assert sorted(run.build for run in plan.runs if (run.arm, run.copy_number) == (arm, 1)) == [1, 2, 3, 4, 5]
    for block in plan.blocks:
        assert len({run.build for run in block.runs if run.arm == "glibc"}) == 2
    late = asked.model_copy(update={"design": asked.design.model_copy(update={"time": 20.0})})
    with pytest.raises(UserError, match="20 s are too short for a verdict: 5 blocks of 3 runs and 2 load levels"):
        plan_study(late, paths)
    other = experiment(treatments=dsns, server=ServerSpec(dsn="mysql://u@h0-glibc/s"), design={**design, "blocks": 4})
    with pytest.raises(UserError, match=r"design\.blocks is 4, and each arm has 5 instances"):
        plan_study(other, paths)


def growing(**design: object) -> Experiment:
    """A question about the growth of memory."""
    asked = experiment(design=design)
    return asked.model_copy(update={"verdict": asked.verdict.model_copy(update={"primary": ("qps", GROWTH)})})


def test_a_study_of_growth_has_blocks_that_are_long_enough_for_it(paths: HostPaths) -> None:
    ten_minutes = shape_of(growing(kind="interleaved", time="10m"))
    target = plan_time(600.0, ten_minutes)
    assert target.reaches_look and target.cycles >= FEWEST_CYCLES_OVER_TIME
    with pytest.raises(UserError, match=r"^2 min are too short for a verdict: ") as refused:
        plan_study(growing(kind="interleaved", time="2m"), paths)
    minutes = int(re.findall(r"--time (\d+)m", str(refused.value.hint))[0])
    assert plan_time(60.0 * minutes, ten_minutes).cycles >= FEWEST_CYCLES_OVER_TIME
    assert not plan_time(60.0 * (minutes - 1), ten_minutes).reaches_look


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"kind": "interleaved", "blocks": 6, "cycles": 5}, f"{GROWTH} needs 6 cycles in a block, not 5"),
        (
            {"kind": "blocks", "blocks": 6},
            f"{GROWTH} is measured in the interleaved design only; this study",
        ),
    ],
)
def test_a_design_that_cannot_show_growth_is_refused(paths: HostPaths, design: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        plan_study(growing(**design), paths)
    assert plan_study(growing(kind="interleaved", blocks=6, cycles=6), paths).design == "interleaved"


def made(random: Random, shape: Shape, time_s: float, lost: float) -> tuple[int, float, InterimAnalyses]:
    """A study on a host with its own duration of starts and slices, as execution/interleaved/study.py executes it:
    (blocks, seconds, the looks of its plan). A lost block's time is spent, and the block counts.
    """
    starts, slices = random.uniform(0.5, 3), random.uniform(1, 1.2)
    target = plan_time(time_s, shape)
    looks, now_s, done, overheads = interim_aimed_at(target.blocks), 0.0, 0, list[float]()
    while done < target.blocks and not (
        overheads and is_over(time_s - now_s, time_s, done, looks, shape, median(overheads))
    ):
        overheads.append(shape.overhead_s * starts * random.uniform(0.9, 1.2))
        length_s = max(1.0, time_s - now_s - 5.0) / (target.blocks - done)
        cycles = max(1.0, shape.cycles_in(length_s, overheads[-1])) * (random.random() > lost)
        now_s += overheads[-1] + cycles * shape.steps * shape.cycle_s * slices
        done += 1
        left_s = time_s - now_s
        if done >= target.blocks:
            continue
        if is_over(left_s, time_s, done, looks, shape, median(overheads)):
            return done, now_s, interim_aimed_at(done) if looks.first <= done < looks.aim else looks
        found = replanned(target, left_s, done, looks, shape, median(overheads))
        if found is not target and found.blocks != looks.aim:
            looks = interim_aimed_at(found.blocks)
        target = found
    return done, now_s, looks


@pytest.mark.parametrize("name", built_in())
def test_every_study_with_a_time_ends_at_a_look(name: str) -> None:
    """Starts of half to three times the planned duration, lost blocks; from the shortest time that is taken on."""
    settings = EXAMPLE_SETTINGS.get(name, ())
    shape = shape_of(load(name, settings=settings)[0])
    shortest_s = next(60.0 * m for m in range(1, 600) if plan_time(60.0 * m, shape).reaches_look)
    random = Random(name)
    for _ in range(1000):
        time_s = random.uniform(shortest_s, 4 * shortest_s)
        done, took_s, looks = made(random, shape, time_s, lost=0.05)
        assert done in looks.rates, (time_s, done, looks)
        assert took_s <= 3.2 * time_s


def test_a_look_that_was_made_is_not_aimed_for_again() -> None:
    assert plan_time(600.0, ALLOCATORS, done=8).blocks == 16
    assert plan_time(600.0, ALLOCATORS, done=8, aimed=True).blocks == 16
    assert plan_time(900.0, ALLOCATORS, done=8, aimed=True).blocks == 16
    assert plan_time(900.0, ALLOCATORS, done=8).blocks == 21


def test_a_target_stays_while_no_other_promises_much_narrower_intervals() -> None:
    """Else each block would move the goal by one."""
    target, looks = plan_time(600.0, ALLOCATORS), interim_aimed_at(8)
    assert replanned(target, 500.0, 1, looks, ALLOCATORS, ALLOCATORS.overhead_s * 1.3) is target
    assert replanned(target, 500.0, 1, looks, ALLOCATORS, ALLOCATORS.overhead_s * 4).blocks < target.blocks
    assert replanned(target, 1500.0, 1, looks, ALLOCATORS, ALLOCATORS.overhead_s).blocks > target.blocks
