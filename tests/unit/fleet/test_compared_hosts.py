# mypy: disable-error-code="arg-type"
from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.cli.hosts import print_check, print_list
from mydyno.fleet.installation import CheckedHost, ClockOffset, clock_offset, differences, flat, shared
from mydyno.hosts.remote.ssh import SshHost
from mydyno.model.definition.host_groups import HostGroup
from tests.support.golden import check_golden
from tests.support.ssh_server import SshServer, ssh_server

FACTS = {
    "hostname": "vm1", "kernel": "6.1.0-18-amd64", "cpu_model": "AMD EPYC 9354", "memory_bytes": 64 << 30,
    "cpu_governor": "performance", "root": True, "load_average_before": 0.1,
    "filesystem": {"type": "xfs", "device": "/dev/vda1", "mount": "/", "free_bytes": 1},
}  # fmt: skip
NO_NETEM = {"name": "added network latency", "possible": False, "text": "no netem"}
PSI = {"name": "pressure stall information", "possible": True, "text": "/proc/pressure"}


def host(address: str, missing: tuple[dict[str, object], ...] = (), **facts: object) -> CheckedHost:
    return CheckedHost(address, address, flat({**FACTS, **facts}), (PSI, *missing), ClockOffset(0.3, 0.1))


HOSTS = [
    host("bench@vm1"),
    host("bench@vm2", (NO_NETEM,), hostname="vm2", kernel="6.12.3", memory_bytes=(64 << 30) - 9999),
    CheckedHost("bench@vm3", "vm3", error="bench@vm3: no answer within 20 s", hint="is the host up?"),
    host("bench@vm4", (NO_NETEM,), cpu_governor=None, filesystem={"type": "ext4", "device": "/dev/vda1"}),
]  # fmt: skip


def test_facts_that_differ_are_named() -> None:
    found = differences(HOSTS)
    assert list(found) == ["kernel", "cpu_governor", "filesystem_type"]
    assert found["kernel"] == {"bench@vm1": "6.1.0-18-amd64", "bench@vm2": "6.12.3", "bench@vm4": "6.1.0-18-amd64"}
    assert found["cpu_governor"]["bench@vm4"] == "-"
    assert shared(HOSTS) == {
        "cpu_model": "AMD EPYC 9354", "memory_bytes": "64.0 GiB", "root": "yes", "filesystem_device": "/dev/vda1",
    }  # fmt: skip


def test_memory_that_differs_is_a_difference() -> None:
    other = host("bench@vm5", memory_bytes=32 << 30)
    assert differences([HOSTS[0], other]) == {"memory_bytes": {"bench@vm1": "64.0 GiB", "bench@vm5": "32.0 GiB"}}


def test_the_comparison_is_as_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_check(HOSTS)
    print("----")
    print_check([HOSTS[0]])
    print("----")
    print_check([HOSTS[2]])
    print("----")
    wide = [host(f"bench@vm{n}", **{f"fact_{i}": f"value {n} of number {i}" for i in range(6)}) for n in (1, 2)]
    print_check(wide)
    check_golden("hosts-check.txt", capsys.readouterr().out)


def test_the_list_is_as_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [HostGroup(name="rack-a", server="bench@a", clients=("bench@b", "bench@c")), HostGroup(name="local")]
    print_list(groups, {"bench@a": "ready", "bench@b": "ready", "bench@c": "cannot be used: why", "local": "ready"})
    check_golden("hosts-list.txt", capsys.readouterr().out)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "ssh") as started:
        yield started


async def test_the_clock_of_the_same_host_has_no_offset(server: SshServer) -> None:
    async with await SshHost.connect(server.address, server.login) as connected:
        found = await asyncio.wait_for(clock_offset(connected), 60)
    assert 0 < found.error_ms < 10_000
    assert abs(found.offset_ms) <= found.error_ms
