"""Real control groups of this host: limits hold for direct I/O, CPUs and membership are in force, nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mydyno
from mydyno.errors import HostError
from mydyno.hosts.cgroups import Cgroups, Limits
from mydyno.hosts.local import LocalHost
from mydyno.hosts.root import HERE
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.quantities import numbers_of
from mydyno.treatments.cgroup import CgroupTreatment, make_group
from tests.support.patience import HANG_S


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    """This host with an undo journal; says aloud where it has no groups to make."""
    _, reasons = Cgroups().slots(["cpuset", "cpu", "io"])
    if reasons:
        pytest.skip(f"no control groups on this host: {'; '.join(reasons)}")
    name = f"test-{os.getpid()}-{tmp_path.name}"[:60]
    undo = UndoJournal.begin(tmp_path / "undo", name, tmp_path)
    yield LocalHost(name, None, undo)
    assert undo.undo_all() == []
    assert left_over(name) == []


def left_over(name: str) -> list[Path]:
    slots, _ = Cgroups().slots(["cpuset", "cpu", "io"])
    return [path for slot in slots.values() for path in slot.parent.glob(f"mydyno-{name}*")]


@pytest.mark.parametrize("value", [{"write_bps": "20M", "read_bps": "30M"}, {"write_iops": 200, "read_iops": 400}])
async def test_limits_hold_within_a_tenth_for_direct_io(
    host: LocalHost, tmp_path: Path, value: dict[str, object]
) -> None:
    treatment = CgroupTreatment(value)
    evidence = await treatment.rehearse(host, tmp_path)
    assert evidence is not None
    for direction in ("write", "read"):
        paced = evidence.facts[direction]
        rate = paced["least_s"] / paced["took_s"]
        # Slower: others load this disk too; a wrong unit is a factor of 8. Faster: the limit does not hold.
        assert 0.13 < rate < 1.10, evidence.text
        assert paced["charged_bytes"] == pytest.approx(paced["size_bytes"], rel=0.02)
    assert left_over(host.cookie) == []


async def test_a_process_is_inside_with_all_its_threads_and_on_its_cpus(host: LocalHost) -> None:
    cpu = str(max(HERE.cpus))
    limits = Limits(cpus=cpu, cpu_quota=0.5)
    tree = Cgroups()
    group, number = make_group(tree, host, f"{host.cookie}-1", limits)
    program = "import threading, time; [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(3)]"
    process = await host.start(["python3", "-c", program], entering=group.entering())
    try:
        for _ in range(200):
            threads = tree.memberships(process.pid)
            if len(threads) == 4:
                break
            await asyncio.sleep(0.05)
        assert len(threads) == 4
        names = {"" if slot.version == 2 else name for name, slot in group.slots.items()}
        assert all(groups[name].endswith(f"/{group.name}") for groups in threads.values() for name in names)
        status = Path(f"/proc/{process.pid}/status").read_text()
        allowed = next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))
        assert numbers_of(allowed) == {int(cpu)}
        assert tree.wrong_settings(group, limits) == []
        assert group.processes() == [process.pid]
        assert host.undo.undo(number) is None
        assert await process.wait(HANG_S) != 0
    finally:
        await process.end(0)


async def test_a_cpu_quota_is_throttled_and_counted(host: LocalHost) -> None:
    limits = Limits(cpu_quota=0.1)
    group, _ = make_group(Cgroups(), host, f"{host.cookie}-1", limits)
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    process = await host.start(["python3", "-c", burn], entering=group.entering())
    assert await process.wait(HANG_S) == 0
    throttled = group.throttled()
    assert throttled is not None
    assert throttled[0] >= 1  # of 30 periods; in those with stolen CPU time the quota is not used up


async def test_limits_of_the_own_group_are_what_is_usable_and_a_used_up_quota_is_seen(host: LocalHost) -> None:
    limits = Limits(cpu_quota=0.1, memory_high=1 << 30)
    _, reasons = Cgroups().slots(limits.controllers)
    if reasons:
        pytest.skip(f"no memory control group on this host: {'; '.join(reasons)}")
    group, _ = make_group(Cgroups(), host, f"{host.cookie}-1", limits)
    program = """
import json, time
from mydyno.hosts.limits import quota_periods, throttled_since, usable_cpus, usable_memory
before, end = quota_periods(), time.process_time() + 3
while not throttled_since(before) and time.process_time() < end: pass  # stolen CPU time does not use up a quota
print(json.dumps([usable_cpus().amount, usable_memory().amount, usable_memory().limit, throttled_since(before)]))
"""
    process = await host.start(
        [sys.executable, "-c", program],
        environment={"PYTHONPATH": str(Path(mydyno.__file__).parents[1])},
        entering=group.entering(),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.streams.communicate(), HANG_S)
    cpus, memory, where, throttled = json.loads(output)
    assert (cpus, memory) == (0.1, 1 << 30)
    assert Path(where).parent == group.folder("memory")
    ((path, share),) = throttled.items()
    assert Path(path).parent == group.folder("cpu")
    assert 0 < share <= 1


async def test_what_the_kernel_does_not_take_is_said_and_nothing_is_left(host: LocalHost) -> None:
    limits = Limits(write_bps=1 << 20, device="999:0")
    with pytest.raises(HostError, match="does not accept '999:0"):
        make_group(Cgroups(), host, f"{host.cookie}-1", limits)
    assert host.undo.undo_all() == []
    assert left_over(host.cookie) == []
