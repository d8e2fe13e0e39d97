"""vary: one setting, its values as arms; and what can be wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.experiment_file.arms import NAME_CHARACTERS, arm_name, varied_arms
from mydyno.experiments import load


def test_each_value_is_an_arm_and_the_first_one_the_control() -> None:
    asked, _ = load("variable")
    assert asked.control == "innodb_flush_log_at_trx_commit-1"
    assert asked.question == "What does the setting innodb_flush_log_at_trx_commit change?"
    assert [arm.treatments for arm in asked.arms] == [
        {"variables": {"innodb_flush_log_at_trx_commit": value}} for value in (1, 2)
    ]


def test_a_set_takes_the_place_of_what_the_file_varies() -> None:
    asked, _ = load("variable", "quick", ["vary.sysctl.vm.swappiness=[60,1]"])
    assert {arm.name: arm.treatments for arm in asked.arms} == {
        "swappiness-60": {"sysctl": {"vm.swappiness": 60}},
        "swappiness-1": {"sysctl": {"vm.swappiness": 1}},
    }
    assert asked.question == "What does the setting vm.swappiness change?"
    asked, _ = load("variable", "quick", ['vary.sysctl./sys/block/vda/queue/scheduler=["none","bfq"]'])
    assert [arm.name for arm in asked.arms] == ["scheduler-none", "scheduler-bfq"]
    asked, _ = load("variable", "quick", ["vary.environment.MALLOC_ARENA_MAX=[8,1]"])
    assert asked.arm("MALLOC_ARENA_MAX-8").treatments == {"environment": {"MALLOC_ARENA_MAX": 8}}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("vary.variables.sort_buffer_size=[1,2] vary.sysctl.vm.swappiness=[60,1]", "takes one setting"),
        ("vary.variables.sort_buffer_size=1", "needs a list of two values or more"),
        ("vary.variables.sort_buffer_size=[1]", "needs a list of two values or more"),
        ("vary.variables.sort_buffer_size=[[1],[2]]", "takes plain values"),
        ('vary.variables.sort_buffer_size=["a b","a-b"]', "results in two arms of the same name"),
        ("vary.allocator.name=[1,2]", "cannot be used with vary"),
        ("vary=3", "must be a table"),
        ("arms.control=a", r"exactly one of \[arms\], \[factors\], \[vary\] and \[screen\]"),
        ("vary.sysctl.swappiness=[1,2]", "swappiness"),
    ],
)
def test_mistakes_are_named(said: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load("variable", "quick", re.split(r" (?=vary)", said))


@pytest.mark.parametrize(
    ("value", "name"),
    [(True, "x-on"), (False, "x-off"), (-1, "x-minus-1"), ("a b:c", "x-a-b-c"), ("", "x-empty"), (0.5, "x-0.5")],
)
def test_names_hold_what_names_can(value: object, name: str) -> None:
    assert arm_name("x", value) == name


def test_a_long_setting_leaves_the_value_alone_in_the_name() -> None:
    assert arm_name("x" * NAME_CHARACTERS, 7) == "7"
    assert len(arm_name("x", "y" * 100)) == NAME_CHARACTERS
    arms, problems = varied_arms({"variables": {"a": [1, 2]}})
    assert problems == []
    assert arms["control"] == "a-1"


def test_a_file_may_vary_too(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "own"\nquestion = "Does it?"\nserver.name = "mariadb-10.11"\n'
        'vary.variables.innodb_flush_neighbors = [0, 1]\n[[steps]]\nworkload = "oltp_read_write"\n'
    )
    assert load(str(file))[0].control == "innodb_flush_neighbors-0"


def test_a_file_of_three_lines_takes_the_rest_from_its_base(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('base = "variable"\nname = "neighbors"\nvary.variables.innodb_flush_neighbors = [0, 1]\n')
    asked, source = load(str(file), "quick")
    assert (asked.name, asked.control) == ("neighbors", "innodb_flush_neighbors-0")
    assert [arm.name for arm in asked.arms] == ["innodb_flush_neighbors-0", "innodb_flush_neighbors-1"]
    assert asked.design.blocks == load("variable", "quick")[0].design.blocks
    assert source.text.startswith('base = "variable"'), "a study keeps the file as it was"


def test_arms_of_a_file_take_the_place_of_all_of_its_bases(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'base = "network"\nname = "own"\n[arms]\ncontrol = "fast"\nfast = { network = "10gbit" }\n'
        'slow = { network = "1gbit" }\n'
    )
    for scale in ("quick", "standard"):
        asked, _ = load(str(file), scale)
        assert [arm.name for arm in asked.arms] == ["fast", "slow"]
        assert asked.verdict.compare == ()
    assert asked.verdict.primary[0] == "tps"


@pytest.mark.parametrize("base", ['"variabel"', "7", "[1]"])
def test_a_base_that_is_not_built_in_is_named(tmp_path: Path, base: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f"base = {base}\n")
    with pytest.raises(UserError, match="no built-in experiment"):
        load(str(file))


def test_the_question_may_have_several_metrics_by_the_names_that_people_use() -> None:
    asked, _ = load("allocators", "quick", ["verdict.primary=['throughput', 'rss', 'server_rss_bytes', 'vsz']"])
    assert asked.verdict.primary == ("qps", "server_rss_bytes", "server_vsize_bytes")
