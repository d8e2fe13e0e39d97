"""Which experiments have one server whose variables are switched, and why another cannot."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno import experiments
from mydyno.errors import UserError
from mydyno.execution.planning.design_choice import choose_design
from mydyno.execution.planning.time_plan import shape_of
from mydyno.experiments import built_in
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.treatments.coexistence import is_switched, lasting_names, switched_variables, switching_obstacles
from tests.support.fake_script import experiment

SWITCHED_AT_QUICK_SCALE = ["variable"]
"""Built-in experiments whose arms differ in nothing but variables that a running server takes over at once."""


def two_arms(first: dict[str, Any], second: dict[str, Any], **more: Any) -> Experiment:
    return experiment(("a", "b"), treatments={"a": first, "b": second}, **more)


def flush(value: int, **more: Any) -> dict[str, Any]:
    return {"variables": {"innodb-flush-log-at-trx-commit": value, **more}}


def test_only_what_differs_is_switched() -> None:
    asked = two_arms(flush(1, innodb_page_size="8k"), flush(2, innodb_page_size="8k", sync_binlog=0))
    assert switched_variables(asked) == {
        "a": {"innodb_flush_log_at_trx_commit": 1},
        "b": {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0},
    }
    assert switching_obstacles(asked) == []


def test_an_external_server_is_switched_between_using_its_statistics_and_not() -> None:
    asked = two_arms({"variables": {"use_stat_tables": "never"}}, {"variables": {"use_stat_tables": "preferably"}})
    words = "use_stat_tables: data are made once, with one value"
    assert words in switching_obstacles(asked)
    asked = asked.model_copy(update={"server": ServerSpec(dsn="mysql://bench@db/sbtest")})
    assert words not in switching_obstacles(asked)


def test_built_in_experiments_that_are_switched() -> None:
    found = [name for name in sorted(built_in()) if is_switched(experiments.load(name, scale="quick")[0])]
    assert found == SWITCHED_AT_QUICK_SCALE


@pytest.mark.parametrize(
    ("first", "second", "more", "words"),
    [
        ({"allocator": "glibc"}, {"allocator": "jemalloc"}, {}, "allocator is not the same in all arms"),
        (flush(1), {**flush(2), "huge_pages": "4k"}, {}, "huge_pages is not the same in all arms"),
        ({"network": "1gbit"}, {}, {}, "network is not in all arms"),
        (flush(1), flush(2, innodb_page_size="8k"), {}, "innodb_page_size: data are made once, with one value"),
        (flush(1), flush(1, innodb_stats_method="nulls_unequal"), {}, "innodb_stats_method: data are made once"),
        (flush(1), flush(1), {}, "the arms are all the same"),
        (
            flush(1),
            flush(2),
            {"verdict": {"primary": ("server_rss_bytes",)}},
            "the arms of one server share its memory",
        ),
        (flush(1), flush(2), {"instances": 2}, "a block has one server"),
    ],
)
def test_what_a_running_server_keeps_is_not_switched(
    first: dict[str, Any], second: dict[str, Any], more: dict[str, Any], words: str, paths: HostPaths
) -> None:
    asked = two_arms(first, second, design={"kind": "switchback"}, **more)
    assert any(words in one for one in switching_obstacles(asked))
    with pytest.raises(UserError, match="switchback"):
        choose_design(asked, paths)


@pytest.mark.parametrize(
    ("first", "second", "otherwise"),
    [
        ({"variables": {"innodb_buffer_pool_size": "64M"}}, {}, "interleaved"),
        ({"cgroup": {"cpu_quota": 1.5, "memory_high": "1G"}}, {}, "interleaved"),
        ({"sysctl": {"vm.swappiness": 1}}, {"sysctl": {"vm.swappiness": 60}}, "blocks"),
        ({"sysctl": {"/sys/kernel/mm/transparent_hugepage/enabled": "never"}}, {}, "blocks"),
        ({"sysctl": {"/sys/block/vda/queue/scheduler": "bfq"}}, {}, "blocks"),
        ({"sysctl": {"/sys/block/vda/queue/scheduler": "none"}}, {}, "blocks"),
        ({"affinity": "one"}, {"affinity": "apart"}, "interleaved"),
        ({}, {"affinity": "apart"}, "interleaved"),
        ({"network": "1gbit"}, {"network": {}}, "interleaved"),
    ],
)
def test_what_takes_effect_later_is_switched_on_demand_only(
    first: dict[str, Any], second: dict[str, Any], otherwise: str, paths: HostPaths
) -> None:
    assert choose_design(two_arms(first, second, design={"kind": "auto"}), paths).kind == otherwise
    assert choose_design(two_arms(first, second, design={"kind": "switchback"}), paths).kind == "switchback"


@pytest.mark.parametrize(
    "treatments",
    [
        {"cgroup": {"cpu_quota": 1.5}},
        {"sysctl": {"net.core.busy_poll": 50, "/sys/block/vda/queue/nr_requests": 64}},
    ],
)
def test_what_the_kernel_changes_at_once_is_switched(treatments: dict[str, Any], paths: HostPaths) -> None:
    asked = two_arms({}, treatments, design={"kind": "auto"})
    assert choose_design(asked, paths).kind == "switchback"
    assert lasting_names(asked) == []


def test_a_switched_block_has_one_server(paths: HostPaths) -> None:
    asked = two_arms(flush(1), flush(2), design={"kind": "auto"})
    assert choose_design(asked, paths).kind == "switchback"
    assert (shape_of(asked).servers, shape_of(asked).lanes) == (1, 3)
