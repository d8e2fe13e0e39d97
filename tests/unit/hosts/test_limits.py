"""What control groups of both versions leave of the host's CPUs and memory, and how often a quota was used up."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from mydyno.hosts.limits import (
    OPEN_FILES,
    Usable,
    open_files,
    open_files_of,
    open_files_shortage,
    quota_periods,
    set_open_files,
    tasks_shortage,
    throttled_since,
    usable_cpus,
    usable_memory,
)
from tests.support.fake_cgroups import version_1, version_2
from tests.support.fake_host import GIB, FakeHost

HOST = Usable(24 * GIB)


def v1_group(folder: Path, quota_us: str, period_us: str = "100000") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "cpu.cfs_quota_us").write_text(quota_us + "\n")
    (folder / "cpu.cfs_period_us").write_text(period_us + "\n")


def test_without_control_groups_the_host_and_the_affinity_are_the_limit(tmp_path: Path) -> None:
    assert usable_cpus(FakeHost(tmp_path)) == Usable(2)
    assert usable_memory(FakeHost(tmp_path)) == HOST
    assert quota_periods(FakeHost(tmp_path)) == {}


def test_an_affinity_for_fewer_cpus_is_named(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, cpus={3}, cpu_count=4)
    assert usable_cpus(host) == Usable(1, "CPU affinity or cpuset")


@pytest.mark.parametrize("folder", ["", "a", "a/b"], ids=["mount", "parent", "own"])
def test_the_least_of_all_ancestors_holds_in_version_2(tmp_path: Path, folder: str) -> None:
    mount = version_2(tmp_path, own="/a/b")
    for group in (mount, mount / "a", mount / "a/b"):
        group.mkdir(exist_ok=True)
        (group / "cpu.max").write_text("max 100000\n")
        (group / "memory.max").write_text("max\n")
        (group / "memory.high").write_text(f"{HOST.amount * 2}\n")
    assert usable_memory(FakeHost(tmp_path)) == HOST
    (mount / folder / "cpu.max").write_text("25000 50000\n")
    (mount / folder / "memory.max").write_text(f"{2 * GIB}\n")
    assert usable_cpus(FakeHost(tmp_path)) == Usable(0.5, str(mount / folder / "cpu.max"))
    assert usable_memory(FakeHost(tmp_path)) == Usable(2 * GIB, str(mount / folder / "memory.max"))
    (mount / "a/memory.high").write_text(f"{GIB}\n")
    assert usable_memory(FakeHost(tmp_path)) == Usable(GIB, str(mount / "a/memory.high"))


def test_the_least_of_all_ancestors_holds_in_version_1(tmp_path: Path) -> None:
    above = version_1(tmp_path, own="/box")
    v1_group(above / "cpu", "-1")
    v1_group(above / "cpu/box", "50000")
    (above / "memory/box").mkdir()
    (above / "memory/memory.limit_in_bytes").write_text(f"{GIB}\n")
    (above / "memory/box/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert usable_cpus(FakeHost(tmp_path)) == Usable(0.5, str(above / "cpu/box/cpu.cfs_quota_us"))
    assert usable_memory(FakeHost(tmp_path)) == Usable(GIB, str(above / "memory/memory.limit_in_bytes"))


def test_a_hybrid_host_has_each_controller_where_it_is_mounted(tmp_path: Path) -> None:
    above = version_1(tmp_path, controllers=("cpu",), own="/box")
    v1_group(above / "cpu/box", "50000")
    unified = above / "unified"
    (unified / "unit").mkdir(parents=True)
    (unified / "unit/memory.max").write_text(f"{GIB}\n")
    with (tmp_path / "proc/self/mountinfo").open("a") as mounts:
        mounts.write("41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n")
    with (tmp_path / "proc/self/cgroup").open("a") as own:
        own.write("0::/unit\n")
    assert usable_cpus(FakeHost(tmp_path)).amount == 0.5
    assert usable_memory(FakeHost(tmp_path)) == Usable(GIB, str(unified / "unit/memory.max"))


def test_a_container_that_has_its_own_group_mounted_sees_that_and_what_is_below(tmp_path: Path) -> None:
    mount = version_2(tmp_path, own="/docker/abc/sub", mounted="/docker/abc")
    (mount / "sub").mkdir()
    (mount / "memory.max").write_text(f"{2 * GIB}\n")
    (mount / "sub/memory.max").write_text(f"{GIB}\n")
    assert usable_memory(FakeHost(tmp_path)) == Usable(GIB, str(mount / "sub/memory.max"))


def test_used_up_periods_are_a_share_of_those_since_the_first_reading(tmp_path: Path) -> None:
    mount = version_2(tmp_path)
    (mount / "cpu.max").write_text("50000 100000\n")
    (mount / "cpu.stat").write_text("usage_usec 9\nnr_periods 1000\nnr_throttled 700\nthrottled_usec 4\n")
    before = quota_periods(FakeHost(tmp_path))
    assert throttled_since(before, FakeHost(tmp_path)) == {}
    (mount / "cpu.stat").write_text("usage_usec 9\nnr_periods 1200\nnr_throttled 850\nthrottled_usec 4\n")
    assert throttled_since(before, FakeHost(tmp_path)) == {str(mount / "cpu.max"): 0.75}


@pytest.mark.parametrize(("hard", "limit"), [(2048, 2048), (65_536, 65_536), (1 << 20, 65_536), (-1, 65_536)])
def test_servers_may_open_the_same_number_of_files_on_all_hosts_that_allow_it(hard: int, limit: int) -> None:
    assert open_files(hard) == limit
    shortage = open_files_shortage(hard)
    assert shortage is None if limit == OPEN_FILES else f"may open {limit:,} files" in (shortage or "")


def test_that_limit_is_set_for_mydyno_and_the_hard_limit_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        set_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (open_files(before[1]), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_a_live_process_is_read_back() -> None:
    assert open_files_of(os.getpid()) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert open_files_of(1 << 30) == 0


@pytest.mark.parametrize(("limit", "is_short"), [("60", True), ("max", False), ("4096", False)])
def test_a_control_group_for_few_threads_is_named(tmp_path: Path, limit: str, is_short: bool) -> None:
    mount = version_2(tmp_path, own="/a")
    (mount / "a").mkdir(exist_ok=True)
    assert tasks_shortage(FakeHost(tmp_path)) is None
    (mount / "a" / "pids.max").write_text(f"{limit}\n")
    words = tasks_shortage(FakeHost(tmp_path))
    assert (words is not None) == is_short
    assert words is None or words.startswith(f"at most 60 processes and threads (limit: {mount}/a/pids.max)")
