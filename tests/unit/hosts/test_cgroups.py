"""Control groups of both versions against a fake tree: where, which files, in which order, what is read back, undo."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.errors import HostError, UserError
from mydyno.experiments import load
from mydyno.hosts import cgroups as module
from mydyno.hosts.cgroups import Cgroups, Group, Limits
from mydyno.hosts.facts import disk_of
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.running.base import CpuSlot
from mydyno.treatments.cgroup import CgroupTreatment, cpus_of, make_group
from tests.support import ROOT
from tests.support.fake_cgroups import DISK, FakeCgroups, version_1, version_2
from tests.support.fake_host import FakeHost
from tests.support.patience import HANG_S

EVERYTHING = Limits(
    cpus="0-1", cpu_quota=1.5, read_bps=20 << 20, write_bps=10 << 20, write_iops=100, memory_high=1 << 30, device=DISK
)


def made(root: Path, limits: Limits = EVERYTHING, grants: str | None = None) -> tuple[FakeCgroups, Group]:
    tree = FakeCgroups(root, grants)
    slots, reasons = tree.slots(limits.controllers)
    assert reasons == []
    group = Group("mydyno-x-1", slots)
    tree.make(group, limits)
    return tree, group


def test_version_2_has_one_folder_and_its_own_words(tmp_path: Path) -> None:
    mount = version_2(tmp_path)
    _, group = made(tmp_path)
    assert group.folders == (mount / "mydyno-x-1",)
    told = {path.name: path.read_text() for path in group.folders[0].iterdir()}
    assert told["cpuset.cpus"] == "0-1"
    assert told["cpu.max"] == "150000 100000"
    assert told["io.max"] == "8:16 rbps=20971520 wbps=10485760 wiops=100"
    assert told["memory.high"] == str(1 << 30)


def test_version_1_has_a_folder_per_controller_and_memory_nodes_before_cpus(tmp_path: Path) -> None:
    above = version_1(tmp_path)
    tree, group = made(tmp_path)
    assert {folder.parent.name for folder in group.folders} == {"cpuset", "cpu", "blkio", "memory"}
    read = {path.name: value for path, value in tree.settings(group, EVERYTHING)}
    assert read["blkio.throttle.read_bps_device"] == "8:16 20971520"
    assert read["blkio.throttle.write_iops_device"] == "8:16 100"
    assert (read["cpu.cfs_quota_us"], read["cpu.cfs_period_us"]) == ("150000", "100000")
    assert list(read)[:2] == ["cpuset.mems", "cpuset.cpus"]
    assert (above / "memory/mydyno-x-1/memory.limit_in_bytes").read_text() == str(1 << 30)


def test_a_group_is_made_below_the_own_one(tmp_path: Path) -> None:
    above = version_1(tmp_path, own="/box")
    (above / "cpu/box").mkdir()
    slots, _ = Cgroups(tmp_path).slots(["cpu", "memory"])
    assert slots["cpu"].parent == above / "cpu/box"
    assert slots["memory"].parent == above / "memory"


@pytest.mark.parametrize("version", [version_1, version_2])
def test_what_was_written_is_what_is_read_back(tmp_path: Path, version: object) -> None:
    version(tmp_path)  # type: ignore[operator]
    tree, group = made(tmp_path)
    assert tree.wrong_settings(group, EVERYTHING) == []


def test_a_limit_that_the_kernel_tells_otherwise_is_wrong(tmp_path: Path) -> None:
    version_2(tmp_path)
    tree, group = made(tmp_path, grants="0")
    (group.folders[0] / "io.max").write_text("8:16 rbps=max wbps=10485760 riops=max wiops=100\n")
    wrong = " ".join(tree.wrong_settings(group, EVERYTHING))
    assert "io.max is 8:16 rbps=max" in wrong
    assert "effective CPUs are 0, wanted 0-1" in wrong


@pytest.mark.parametrize(("version", "name"), [(version_1, "memory.limit_in_bytes"), (version_2, "memory.high")])
def test_a_limit_of_memory_is_in_whole_pages(tmp_path: Path, version: object, name: str) -> None:
    version(tmp_path)  # type: ignore[operator]
    limits = Limits(memory_high=300_000_000)
    tree, group = made(tmp_path, limits)
    file = group.folder("memory") / name
    file.write_text("299999232\n")
    assert tree.wrong_settings(group, limits) == []
    file.write_text("max\n")
    assert tree.wrong_settings(group, limits) == [f"{name} is max, wanted 300000000"]


def test_charged_bytes_and_throttling_are_read_in_both_versions(tmp_path: Path) -> None:
    version_2(tmp_path / "2")
    _, group = made(tmp_path / "2")
    (group.folders[0] / "io.stat").write_text("8:0 rbytes=1 wbytes=2\n8:16 rbytes=30 wbytes=40 rios=1 wios=1\n")
    (group.folders[0] / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_usec 2500000\n")
    assert (group.io_bytes(DISK), group.throttled()) == ((30, 40), (3, 2.5))
    version_1(tmp_path / "1")
    _, group = made(tmp_path / "1")
    (group.folder("io") / module.SERVICE_BYTES_V1).write_text("8:16 Read 5\n8:16 Write 6\n8:16 Total 11\nTotal 11\n")
    (group.folder("cpu") / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_time 2500000000\n")
    assert (group.io_bytes(DISK), group.throttled()) == ((5, 6), (3, 2.5))


def test_every_thread_has_its_group(tmp_path: Path) -> None:
    version_2(tmp_path)
    tree, group = made(tmp_path)
    tree.member(group, 50, [50, 51], outside=[52])
    assert [groups[""] for groups in tree.memberships(50).values()] == ["/mydyno-x-1", "/mydyno-x-1", "/"]


def test_a_controller_that_is_nowhere_is_named_with_what_would_help(tmp_path: Path) -> None:
    version_2(tmp_path, offered="hugetlb")
    slots, reasons = Cgroups(tmp_path).slots(["io", "cpuset"])
    assert slots == {}
    assert "offers hugetlb, not io, cpuset" in reasons[0]
    assert "systemd.unified_cgroup_hierarchy=1" in reasons[0]


def test_no_cgroup_at_all_is_said(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    assert "mounted in neither version" in Cgroups(tmp_path).slots(["cpu"])[1][0]


def test_the_machines_own_groups_are_not_changed_to_get_a_controller(tmp_path: Path) -> None:
    mount = version_2(tmp_path, handed="memory")
    _, reasons = Cgroups(tmp_path).slots(["io"])
    assert "no writable group" in reasons[0]
    assert "Delegate=yes" in reasons[0]
    assert (mount / "cgroup.subtree_control").read_text() == "memory\n"


def test_the_nearest_ancestor_that_hands_the_controllers_down_is_taken(tmp_path: Path) -> None:
    mount = version_2(tmp_path, own="/user.slice/session")
    (mount / "user.slice/session").mkdir(parents=True)
    (mount / "user.slice/cgroup.subtree_control").write_text("memory pids\n")
    assert Cgroups(tmp_path).slots(["memory"])[0]["memory"].parent == mount / "user.slice"
    assert Cgroups(tmp_path).slots(["io", "memory"])[0]["io"].parent == mount


def test_a_delegated_group_is_divided_and_given_back(tmp_path: Path) -> None:
    mount = version_2(tmp_path, handed="", own="/mine")
    mine = mount / "mine"
    mine.mkdir()
    (mine / "cgroup.controllers").write_text("cpu io memory\n")
    (mine / "cgroup.procs").write_text("7\n")

    class Delegated(Cgroups):
        def is_delegated(self, folder: Path) -> bool:
            return folder == mine

    slot = Delegated(tmp_path).slots(["io", "memory"])[0]["io"]
    assert (slot.parent, slot.delegated) == (mine, True)
    undo = UndoJournal(tmp_path / "journal")
    host: Any = SimpleNamespace(undo=undo)
    group, _ = make_group(Delegated(tmp_path), host, "x-1", Limits(memory_high=1 << 30))
    assert (mine / "mydyno-self/cgroup.procs").read_text() == "7"
    assert (mine / "cgroup.subtree_control").read_text() == "+cpu +io +memory", "another arm may limit its CPUs"
    shutil.rmtree(group.folder("memory"))  # a real group, like a real leaf, has no files of its own to remove
    assert undo.undo_all() == [f"the settings of {mine}"]
    assert (mine / "cgroup.subtree_control").read_text() == "-cpu -io -memory"


def test_the_undo_journal_removes_groups_and_names_those_that_stay(tmp_path: Path) -> None:
    undo = UndoJournal.begin(tmp_path / "undo", "s", tmp_path, FakeHost(tmp_path))
    gone, busy = tmp_path / "gone", tmp_path / "busy"
    gone.mkdir()
    number = undo.will_change("cgroup", folders=[str(gone), str(tmp_path / "never-made")])
    assert undo.undo(number) is None
    assert not gone.exists()
    (busy / "child").mkdir(parents=True)
    undo.will_change("cgroup", folders=[str(busy)])
    assert undo.undo_all() == [f"the control group {busy}"]


def test_what_runs_in_a_group_is_ended_before_it_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / "group").mkdir()
        (tmp_path / "group/cgroup.procs").write_text(f"{process.pid}\n{os.getpid()}\n")
        module.remove_group([tmp_path / "group"], FakeHost(tmp_path))  # it has files, and stays
        assert process.wait(HANG_S) != 0


@pytest.mark.parametrize(
    ("said", "place", "usable", "expected"),
    [
        ("split", CpuSlot(1, (1,)), 24, "0-23"),
        ("split", CpuSlot(4, (4, 2)), 24, "12-23"),
        ("split/4", CpuSlot(2, (2,)), 24, "6-11"),
        ("split/4", CpuSlot(4, (1, 4)), 24, "18-23"),
        ("split/4", CpuSlot(1, (1,)), 2, "0"),
        ("split/4", CpuSlot(2, (2,)), 2, "1"),
        ("split/4", CpuSlot(3, (3,)), 2, "0"),
        ("split/4", CpuSlot(1, (1, 3)), 2, "0"),
        ("split/4", CpuSlot(3, (1, 3)), 2, "1"),
        ("split", CpuSlot(3, (1, 2, 3)), 2, "0"),
        ("3-4", CpuSlot(2, (1, 2)), 8, "3-4"),
        (("0-1", "2-3"), CpuSlot(2, (1, 2)), 8, "2-3"),
    ],
)
def test_a_place_has_its_share_of_the_cpus(said: str, place: CpuSlot, usable: int, expected: str) -> None:
    assert cpus_of(said, place, list(range(usable))) == expected


def test_obstacles_say_which_and_why(tmp_path: Path) -> None:
    version_1(tmp_path)
    server = ServerSpec(name="mariadb-10.11", variables={"innodb_flush_method": "fsync"})
    elsewhere = CgroupTreatment({"write_bps": "20M", "cpus": "4000"}, Cgroups(tmp_path))
    assert "CPU 4000 is not among the usable CPUs" in (elsewhere.obstacle(server) or "")
    words = "innodb_flush_method = fsync: cgroup v1 does not limit pages"
    assert words in (elsewhere.server_obstacle(server) or "")
    assert elsewhere.server_obstacle(ServerSpec(name="mariadb-10.11")) is None
    all_direct = ServerSpec(basedir="/opt/percona", variables={"innodb_flush_method": "ALL_O_DIRECT"})
    assert elsewhere.server_obstacle(all_direct) is None
    fine = CgroupTreatment({"write_bps": "20M", "cpus": "split"}, Cgroups(tmp_path))
    assert fine.obstacle(ServerSpec(name="mariadb-10.11")) is None
    assert "dsn" in str(fine.obstacle(ServerSpec(dsn="mysql://a@b/c")))


@pytest.mark.parametrize(
    "value",
    ["{ cpus = 'x' }", "{ cpus = 'split/0' }", "{ cpu_quota = 0 }", "{ read_bps = '-1' }", "{ cpu = '1' }", "{}"],
)
def test_a_group_that_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(UserError, match=r"arms\.jemalloc\.cgroup"):
        load("allocators", settings=[f"arms.jemalloc.cgroup={value.replace(chr(39), chr(34))}"])


def disks(root: Path, mountinfo: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mountinfo)
    whole = root / "sys/devices/sda"
    (whole / "sda1").mkdir(parents=True)
    (whole / "dev").write_text("8:0\n")
    (whole / "sda1/dev").write_text("8:1\n")
    (whole / "sda1/partition").write_text("1\n")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:1").symlink_to(whole / "sda1")
    (root / "sys/dev/block/8:0").symlink_to(whole)


ON_A_DISK = pytest.mark.skipif(os.major(ROOT.stat().st_dev) == 0, reason="the checkout is not on a disk")


@ON_A_DISK
def test_a_partition_stands_for_its_whole_disk(tmp_path: Path) -> None:
    disks(tmp_path, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert (disk_of(ROOT, tmp_path).device, disk_of(ROOT, tmp_path).name) == ("8:0", "sda")


@ON_A_DISK
def test_file_systems_whose_writes_escape_are_refused(tmp_path: Path) -> None:
    disks(tmp_path, "1 0 8:1 / / rw - vfat /dev/sda1 rw\n")
    with pytest.raises(HostError, match="vfat: its written-back pages are not charged to a group"):
        disk_of(ROOT, tmp_path)


def test_a_file_system_in_memory_has_no_disk() -> None:
    with pytest.raises(HostError, match="not on a disk that can be limited"):
        disk_of(Path("/proc"))
