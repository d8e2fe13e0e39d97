"""sysctl: journaled before it is set, read back, given back; what the kernel makes of a value is said."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.hosts.kernel_settings import give_back
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.running.base import ClientPath
from mydyno.treatments.sysctl import SETTING, SysctlTreatment
from tests.support.fake_host import FakeHost

SERVER = ServerSpec(name="mariadb-10.11")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path)
    made.write("proc/sys/vm/swappiness", "60\n")
    made.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    return made


def sysctl(host: FakeHost, **settings: Any) -> SysctlTreatment:
    """`vm__swappiness=1` is vm.swappiness = 1."""
    made = SysctlTreatment({name.replace("__", "."): value for name, value in settings.items()})
    made.root = host
    return made


def instance(host: FakeHost, namespace: Path | None = None) -> Any:
    path = ClientPath("198.18.0.1", 3306, "198.18.0.2", namespace)
    return SimpleNamespace(
        undo=UndoJournal.begin(host.folder / "undo", "study-1", host.folder, host),
        settings=SimpleNamespace(client_path=path if namespace else None),
        number=1,
    )


async def test_a_setting_is_set_proved_and_given_back(host: FakeHost) -> None:
    made, treatment = instance(host), sysctl(host, vm__swappiness=1)
    assert treatment.obstacle(SERVER) is None
    await treatment.apply(made)
    assert (host.proc / "sys/vm/swappiness").read_text() == "1"
    assert [entry.kind for entry in made.undo.open_entries()] == ["sysctl"]
    evidence = await treatment.evidence(made)
    assert (evidence.holds, evidence.text) == (True, "vm.swappiness = 1 (read back)")
    await treatment.undo()
    assert (host.proc / "sys/vm/swappiness").read_text() == "60"
    assert made.undo.open_entries() == []


async def test_a_value_that_is_there_already_is_left_as_it_is(host: FakeHost) -> None:
    made, treatment = instance(host), sysctl(host, net__ipv4__tcp_rmem="4096 131072 6291456")
    await treatment.apply(made)
    assert made.undo.open_entries() == []
    assert (await treatment.evidence(made)).holds, "tabs and spaces are the same"


async def test_a_kernel_that_rounds_is_told_on(host: FakeHost) -> None:
    made, treatment = instance(host), sysctl(host, vm__swappiness=7)
    await treatment.apply(made)
    host.write("proc/sys/vm/swappiness", "8\n")
    evidence = await treatment.evidence(made)
    assert not evidence.holds
    assert evidence.text == "vm.swappiness is 8, although 7 was written"


async def test_the_hosts_network_settings_do_not_reach_a_namespace(host: FakeHost) -> None:
    made = instance(host, Path("/run/netns/mydyno-x-load"))
    treatment = sysctl(host, net__ipv4__tcp_rmem="4096 131072 6291456")
    await treatment.apply(made)
    evidence = await treatment.evidence(made)
    assert not evidence.holds
    assert "runs in a network namespace with its own" in evidence.text


def test_what_stands_in_the_way_is_said_before_anything_starts(host: FakeHost) -> None:
    assert "this kernel has no vm.nothing" in (sysctl(host, vm__nothing=1).obstacle(SERVER) or "")
    external = ServerSpec(dsn="mysql://user@host/sbtest")
    treatment = sysctl(host, vm__swappiness=1)
    assert "cannot configure" in (treatment.obstacle(external) or "")
    host.is_root = False
    assert "need root" in (treatment.obstacle(SERVER) or "")
    assert treatment.host_changes(SERVER) == ["sysctl vm.swappiness = 1 (restored after each run)"]


async def test_of_two_settings_that_exclude_each_other_the_one_in_force_is_restored(host: FakeHost) -> None:
    """The kernel refuses to write 0, and sets the other one to 0 by itself."""
    host.write("proc/sys/vm/dirty_bytes", "0\n")
    host.write("proc/sys/vm/dirty_ratio", "20\n")
    made, treatment = instance(host), sysctl(host, vm__dirty_bytes=1 << 26)
    await treatment.switch_on(made)
    host.write("proc/sys/vm/dirty_ratio", "0\n")
    assert "dirty_ratio is 0, not 20" in await treatment.left(made)
    await treatment.switch_off(made)
    assert (host.proc / "sys/vm/dirty_ratio").read_text() == "20"
    assert (host.proc / "sys/vm/dirty_bytes").read_text() == str(1 << 26), "the kernel's part"
    assert await treatment.left(made) == ""


def test_the_disk_is_that_of_the_data(host: FakeHost, tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    treatment = SysctlTreatment({f"{QUEUE}/scheduler": "none"})
    treatment.root = host
    assert treatment.disk_obstacle(tmp_path) is None, "it is not known which one that is"
    below = host.sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
    below.parent.mkdir(parents=True)
    for disk in ("vda", "vdb"):
        host.write(f"sys/devices/block/{disk}/{disk}2/size", "1")
    below.symlink_to(host.sys / "devices/block/vdb/vdb2")
    assert "is on another disk" in (treatment.disk_obstacle(tmp_path) or "")
    host.write("sys/devices/block/dm-0/slaves/x", "")
    (host.sys / "devices/block/dm-0/slaves/vda2").symlink_to(host.sys / "devices/block/vda/vda2")
    below.unlink()
    below.symlink_to(host.sys / "devices/block/dm-0")
    assert treatment.disk_obstacle(tmp_path) is None, "a volume on a partition of the disk"


QUEUE = "/sys/block/vda/queue"


async def test_a_disks_scheduler_is_switched_with_what_the_kernel_sets_anew(host: FakeHost) -> None:
    """What a scheduler brings along is written back after it; its own settings are there only while it is."""
    for name, value in {"scheduler": "none [mq-deadline] bfq", "nr_requests": "300", "iosched/fifo_batch": "8"}.items():
        host.write(f"{QUEUE[1:]}/{name}", f"{value}\n")
    made = instance(host)
    treatment = SysctlTreatment({f"{QUEUE}/scheduler": "none", f"{QUEUE}/iosched/x": 1, f"{QUEUE}/nomerges": 2})
    treatment.root = host
    assert "no /sys/block/vda/queue/nomerges" in (treatment.obstacle(SERVER) or ""), "iosched/x comes with the other"
    host.write(f"{QUEUE[1:]}/nomerges", "0")
    host.write(f"{QUEUE[1:]}/iosched/x", "0")
    assert treatment.obstacle(SERVER) is None
    await treatment.switch_on(made)
    assert (await treatment.evidence(made)).holds
    queue = host.folder / QUEUE[1:]
    (queue / "nr_requests").write_text("64")
    (queue / "iosched/fifo_batch").unlink()
    await treatment.switch_off(made)
    now = {name: (queue / name).read_text() for name in ("scheduler", "nr_requests", "nomerges")}
    assert now == {"scheduler": "mq-deadline", "nr_requests": "300", "nomerges": "0"}
    await treatment.switch_on(made)
    assert made.undo.undo_all() == []
    assert now == {name: (queue / name).read_text() for name in now}


def test_the_undo_journal_writes_no_other_file_of_sys(host: FakeHost) -> None:
    for path in ("power/state", "block/vda/queue/../../x", "block/vda/uevent", "kernel/mm", "block/../queue/x"):
        facts = {"path": str(host.sys / path), "before": "0"}
        assert "is not a kernel setting" in (give_back(facts, host) or ""), path


@pytest.mark.parametrize(
    "name",
    [
        "swappiness",
        "../etc.passwd",
        "vm..x",
        "vm./x",
        "",
        "/sys/power/state",
        "/sys/kernel/mm/../x",
        "/sys/block/vda/uevent",
        "/sys/block/../queue/x",
        "sys/kernel/mm/ksm/run",
        "/sys/kernel/mm/ksm/run\n",
    ],
)
def test_names_are_those_of_sysctl(name: str) -> None:
    assert SETTING.validate_python(
        {"/sys/kernel/mm/transparent_hugepage/khugepaged/defrag": 1, f"{QUEUE}/scheduler": "bfq"}
    )
    with pytest.raises(ValueError, match="validation error"):
        SETTING.validate_python({name: 1})
