"""Which experiments can be interleaved, and why another cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mydyno import experiments
from mydyno.errors import UserError
from mydyno.execution.environments.external_environment import lanes_at
from mydyno.execution.planning.design_choice import choose_design, with_copies
from mydyno.execution.planning.time_plan import plan_time, shape_of
from mydyno.experiments import built_in
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, HooksSpec, ServerSpec, StepSpec
from mydyno.model.definition.plan import lanes_of_block, make_plan
from mydyno.model.definition.specs import SearchSpec
from mydyno.servers.sql import Address
from mydyno.treatments.catalogue import TREATMENTS, treatments_of
from mydyno.treatments.coexistence import interleaving_obstacles, server_bytes
from tests.support.fake_cgroups import version_2
from tests.support.fake_host import GIB, FakeHost
from tests.support.fake_script import experiment

BLOCKS_AT_QUICK_SCALE = {"transparent-huge-pages": "thp"}
"""Built-in experiments that are not interleaved, and a word of the reason."""
VALUES: dict[str, Any] = {
    "server": "mysql-9.7",
    "allocator": "jemalloc",
    "affinity": "apart",
    "cgroup": {"cpu_quota": 1.5},
    "huge_pages": "4k",
    "variables": {"innodb_io_capacity": 100},
    "environment": {"MALLOC_ARENA_MAX": 1},
    "memcached": {"policy": "caching", "crash": True},
    "sysctl": {"vm.swappiness": 1},
    "dsn": "mysql://bench@db/sbtest",
    "network": "1gbit",
    "tls": "1.3",
    "compression": "zlib",
}
"""One value of every treatment."""


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path, memory_bytes=24 * GIB, disk_bytes=200 * GIB)


@pytest.fixture
def paths(tmp_path: Path, host: FakeHost) -> HostPaths:
    return HostPaths(cache=tmp_path, data=tmp_path, engine=tmp_path, server_user=None, root=host)


def load(name: str, scale: str = "quick") -> Experiment:
    return experiments.load(name, scale=scale)[0]


def two_arms(first: dict[str, Any], second: dict[str, Any], **more: Any) -> Experiment:
    return experiment(("a", "b"), treatments={"a": first, "b": second}, **more)


@pytest.mark.parametrize("name", sorted(built_in()))
def test_built_in_experiments_are_interleaved_at_quick_scale_but_for_thp(name: str, paths: HostPaths) -> None:
    found = interleaving_obstacles(load(name), paths)
    if name in BLOCKS_AT_QUICK_SCALE:
        assert len(found) == 1
        assert BLOCKS_AT_QUICK_SCALE[name] in found[0]
    else:
        assert found == []


@pytest.mark.parametrize("name", ["allocators", "allocators-55", "allocators-57"])
def test_scales_that_sysbench_loads_keep_the_block_design_and_say_so(name: str, paths: HostPaths) -> None:
    found = interleaving_obstacles(load(name, scale="published"), paths)
    assert any("sysbench keeps the block design: it cannot hold its connections" in words for words in found)


def test_transparent_huge_pages_are_of_the_whole_host(paths: HostPaths) -> None:
    whole = load("transparent-huge-pages")
    assert interleaving_obstacles(whole, paths) == [
        "arm thp: huge_pages: thp sets /sys/kernel/mm/transparent_hugepage/enabled to always for the whole host, and "
        "so for every arm's server"
    ]
    arms = tuple(arm for arm in whole.arms if arm.name != "thp")
    assert interleaving_obstacles(whole.model_copy(update={"arms": arms}), paths) == []


def test_an_arm_without_huge_pages_would_get_the_others_setting(paths: HostPaths) -> None:
    (found,) = interleaving_obstacles(two_arms({}, {"huge_pages": "hugetlb"}), paths)
    assert found.startswith("arm a: without huge_pages, but it sets /sys/kernel/mm/transparent_hugepage/enabled")


def test_a_sysctl_holds_for_every_server_and_so_for_every_arm(paths: HostPaths) -> None:
    (found,) = interleaving_obstacles(
        two_arms({"sysctl": {"vm.swappiness": 60}}, {"sysctl": {"vm.swappiness": 1}}), paths
    )
    assert found.startswith("arms a, b: sysctl: kernel settings hold for the whole host")


def test_arms_take_turns_on_an_external_server_unless_it_is_restarted_or_its_card_slowed(paths: HostPaths) -> None:
    server = ServerSpec(dsn="mysql://dyno@db/sbtest")
    assert interleaving_obstacles(two_arms({}, {"compression": "zlib"}, server=server), paths) == []
    hooks = server.model_copy(update={"hooks": HooksSpec(restart="true")})
    for found, word in (
        (interleaving_obstacles(two_arms({}, {}, server=hooks), paths), "server.hooks"),
        (interleaving_obstacles(two_arms({"network": {}}, {"network": {}}, server=server), paths), "network: "),
    ):
        (obstacle,) = found
        assert obstacle.startswith(word)


@pytest.mark.parametrize("driver", ["sysbench", "memslap", "memaslap"])
def test_every_other_load_program_keeps_the_block_design(driver: str, paths: HostPaths) -> None:
    steps = (StepSpec(workload="oltp_read_only", driver=driver), StepSpec(workload="oltp_read_only"))
    (found,) = interleaving_obstacles(two_arms({}, {}, steps=steps), paths)
    assert found.startswith(f"{driver} keeps the block design")


def test_memory_counts_every_server_and_the_controls_second_copy(paths: HostPaths, host: FakeHost) -> None:
    server = ServerSpec(name="mariadb-10.11", variables={"innodb-buffer-pool-size": "1G"})
    larger = {"variables": {"innodb_buffer_pool_size": "2G"}}
    asked = two_arms({}, larger, server=server)
    needed = 2 * (1 * GIB + 400 * 2**20) + (2 * GIB + 400 * 2**20)
    host.memory_bytes = int(needed / 0.7) + 1
    assert interleaving_obstacles(asked, paths) == []
    limit = version_2(host.folder) / "memory.max"
    limit.write_text(str(int(needed / 0.7) - 1))
    (found,) = interleaving_obstacles(asked, paths)
    assert found.startswith("memory: 3 servers at the same time need about ")
    assert f"(limit: {limit}) are available" in found


def test_every_instance_of_an_arm_counts(paths: HostPaths, host: FakeHost) -> None:
    whole = load("cgroup-isolation")
    host.memory_bytes = 8 * GIB
    (found,) = interleaving_obstacles(whole, paths)
    assert found.startswith("memory: 15 servers at the same time")


def test_a_memcached_needs_its_cache_and_a_little(paths: HostPaths) -> None:
    whole = load("memcached-api")
    assert server_bytes(whole.arm("memcached"), whole) == (1024 + 64) * 2**20
    assert server_bytes(whole.arm("caching"), whole) == (256 + 400 + 13) * 2**20


def test_every_servers_copy_of_the_data_must_fit_on_the_disk(paths: HostPaths, host: FakeHost) -> None:
    host.disk_bytes = 100 << 20
    (found,) = interleaving_obstacles(two_arms({}, {}), paths)
    assert found.startswith("disk: 3 copies of the data at the same time need about ")


def test_every_treatment_says_whether_it_coexists_and_why_not() -> None:
    assert set(VALUES) == set(TREATMENTS)
    alone = {}
    for name, value in VALUES.items():
        (treatment,) = treatments_of(two_arms({name: value}, {}).arm("a"))
        assert treatment.coexists == (treatment.alone_because == "")
        alone[name] = not treatment.coexists
    assert [name for name, is_alone in alone.items() if is_alone] == ["sysctl"]


def pools(first: str, second: str, **design: Any) -> Experiment:
    """Arms that differ in the buffer pool; ten minutes."""
    of = [{"variables": {"innodb_buffer_pool_size": size}} for size in (first, second)]
    return two_arms(*of, design={"kind": "auto", "time": 600.0, **design})


def test_a_single_treated_arm_is_run_twice_where_the_study_has_a_time_and_the_host_has_room(paths: HostPaths) -> None:
    timed = {"kind": "auto", "time": 600.0}
    flush = [{"variables": {"innodb_flush_log_at_trx_commit": value}} for value in (1, 2)]
    for asked, servers in ((two_arms(*flush, design=timed), 1), (pools("64M", "128M"), 4)):
        twice = with_copies(asked, paths)
        assert (twice.design.copies, lanes_of_block(twice), shape_of(twice).servers) == (2, 4, servers)
        planned = make_plan(twice, choose_design(twice, paths), 2)
        assert all(len({(run.arm, run.copy_number) for run in block.runs}) == 4 for block in planned.blocks)
        assert {run.folder[-4:] for run in planned.runs if run.copy_number == 2} == {"-a.2", "-b.2"}
    for asked in (
        pools("64M", "128M", time=None),
        pools("64M", "128M", copies=1),
        pools("64M", "128M", kind="blocks"),
        pools("4000M", "4200M"),
        experiment(("a", "b", "c"), design=timed),
    ):
        assert with_copies(asked, paths) == asked
    assert choose_design(pools("4000M", "4200M"), paths).kind == "interleaved", "three servers fit"


def test_a_second_copy_costs_no_study_its_verdict_or_its_equivalence(paths: HostPaths) -> None:
    for time_s in range(40, 400, 5):
        asked = pools("64M", "128M", time=float(time_s))
        once = plan_time(time_s, shape_of(asked))
        made = plan_time(time_s, shape_of(with_copies(asked, paths)))
        assert made.reaches_look >= once.reaches_look and (made.blocks >= 6) >= (once.blocks >= 6), time_s


def test_every_copy_counts_where_lanes_share_the_connections_of_a_running_server() -> None:
    asked, address = pools("64M", "128M"), Address(user="bench", password=b"secret", port=3307)
    shared = {"a": [address], "b": [address]}
    assert lanes_at(asked, shared)[address] == 3
    assert lanes_at(pools("64M", "128M", copies=2), shared)[address] == 4


@pytest.mark.parametrize("design", [{"kind": "blocks"}, {"kind": "interleaved"}])
def test_two_copies_of_what_a_block_can_have_once_are_refused(design: dict[str, Any], paths: HostPaths) -> None:
    asked = pools("64M", "128M", copies=2, **design)
    if design["kind"] == "interleaved":
        step = asked.steps[0].model_copy(update={"search": SearchSpec(metric="latency_p99_us", limit="10ms")})
        asked = asked.model_copy(update={"steps": (step,)})
    with pytest.raises(UserError, match=r"design\.copies = 2"):
        choose_design(asked, paths)


@pytest.mark.parametrize(
    ("settings", "slice_s", "washout_s"),
    [
        ((), 1.0, 0.3),
        (("vary.environment.MALLOC_ARENA_MAX=[8,1]",), 0.5, 0.15),
        (('design.kind="interleaved"',), 0.5, 0.15),
        (("design.slice=2s",), 2.0, 0.3),
        (("design.washout=1s",), 1.0, 1.0),
    ],
)
def test_switched_arms_have_longer_slices_unless_the_file_sets_them(
    settings: tuple[str, ...], slice_s: float, washout_s: float
) -> None:
    design = experiments.load("variable", settings=settings)[0].design
    assert (design.slice, design.washout) == (slice_s, washout_s)
