"""The plan: complete blocks in random order, the same from the same seed on every machine."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.model.definition.plan import Plan, make_plan
from tests.support.fake_script import experiment
from tests.support.golden import check_golden


def plan(blocks: int, seed: int, arms: int = 4) -> Plan:
    names = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "other", "another")[:arms]
    return make_plan(experiment(names, design={"blocks": blocks, "seed": seed}))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**70), st.integers(2, 6))
def test_every_block_holds_each_arm_once_and_the_control_twice(blocks: int, seed: int, arms: int) -> None:
    made = plan(blocks, seed, arms)
    assert [block.block for block in made.blocks] == list(range(1, blocks + 1))
    for block in made.blocks:
        runs = Counter((run.arm, run.copy_number) for run in block.runs)
        assert runs == Counter({("glibc", 2): 1, **{(run.arm, 1): 1 for run in block.runs if run.copy_number == 1}})
        assert len(runs) == arms + 1
        assert [run.position for run in block.runs] == list(range(1, arms + 2))
        assert sorted(block.step_order) == ["oltp_read_only-4", "oltp_read_only-8"]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_over_whole_rounds_each_run_is_first_equally_often(rounds: int, seed: int) -> None:
    firsts = Counter((block.runs[0].arm, block.runs[0].copy_number) for block in plan(5 * rounds, seed).blocks)
    assert set(firsts.values()) == {rounds}
    assert len(firsts) == 5


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert plan(8, 1) == plan(8, 1)
    assert plan(8, 1) != plan(8, 2)


def test_more_blocks_only_add_to_a_plan() -> None:
    assert plan(8, 1).blocks == plan(12, 1).blocks[:8]


def test_positions_are_balanced_by_chance_and_the_a_a_copy_is_not_always_behind() -> None:
    made = plan(400, 1)
    positions = Counter(run.position for run in made.runs if run.copy_number == 2)
    assert all(50 <= positions[position] <= 110 for position in range(1, 6)), positions


def test_the_environment_is_padded_differently_from_run_to_run() -> None:
    paddings = [run.environment_padding_bytes for run in plan(20, 1).runs]
    assert all(0 <= padding < 4096 and padding % 16 == 0 for padding in paddings)
    assert len(set(paddings)) > 60


def test_no_two_runs_share_a_folder() -> None:
    folders = [run.folder for run in plan(30, 3).runs]
    assert len(set(folders)) == len(folders) == 150
    assert folders[0].startswith("blocks/01/1-")


def test_a_plan_read_back_is_the_same() -> None:
    made = plan(3, 9)
    assert Plan.model_validate_json(made.model_dump_json(by_alias=True)) == made


@pytest.mark.parametrize("seed", [1])
def test_the_plan_of_a_seed_never_changes(seed: int) -> None:
    lines = [
        f"{run.folder} padding {run.environment_padding_bytes} steps {' '.join(block.step_order)}\n"
        for block in plan(3, seed).blocks
        for run in block.runs
    ]
    check_golden("plan-seed-1.txt", "".join(lines))
