"""The CPUs of server and load program: how they are divided, and that other CPUs are no proof."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.execution.planning.forecast import shared_host_caution
from mydyno.hosts.limits import affinities_of, set_affinity, threads_of
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.quantities import ranges_of
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.sql import Address
from mydyno.treatments.affinity import AffinityTreatment, apart, usable_cores
from tests.support.fake_host import FakeHost
from tests.support.fake_script import experiment

SERVER = ServerSpec(name="memcached")


@pytest.mark.parametrize(
    ("cores", "server", "load"),
    [
        ([[0], [1]], [0], [1]),
        ([[0, 1]], [0], [1]),  # the threads of one core
        ([[0, 2], [1, 3]], [0, 2], [1, 3]),
        ([[cpu] for cpu in range(8)], [0, 1, 2, 3, 4, 5], [6, 7]),
    ],
)
def test_the_load_has_a_quarter_of_the_cores_at_least_one(
    cores: list[list[int]], server: list[int], load: list[int]
) -> None:
    assert apart(cores) == (server, load)


def host(folder: Path, *cores: list[int]) -> FakeHost:
    """One whose CPUs are threads of these cores."""
    made = FakeHost(folder, cpus={cpu for core in cores for cpu in core})
    for core in cores:
        for cpu in core:
            made.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", ranges_of(core) + "\n")
    return made


def test_one_cpu_cannot_be_divided() -> None:
    assert apart([[3]]) is None
    for value, obstacle in (("apart", "one CPU"), ("one", "")):
        treatment = AffinityTreatment(value)
        treatment.root = FakeHost(cpus={3})
        assert obstacle in (treatment.obstacle(SERVER) or "")
    assert treatment.obstacle(SERVER) is None


def test_threads_of_one_core_stay_together(tmp_path: Path) -> None:
    assert usable_cores(host(tmp_path, [0, 2], [1, 3])) == [[0, 2], [1, 3]]
    assert usable_cores(FakeHost(cpus={0, 1, 2, 3})) == [[0], [1], [2], [3]]


async def test_a_server_on_other_cpus_is_no_proof(tmp_path: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    other = [max(here) + 1]
    for value, cores, server, load, holds in (
        ("apart", [here, other], here, other, True),
        ("apart", [other, [max(here) + 2]], other, [max(here) + 2], False),
        ("one", [here, other], other, other, False),
    ):
        treatment = AffinityTreatment(value)
        treatment.root = host(tmp_path, *cores)
        instance = SimpleNamespace(settings=InstanceSettings(), pid=os.getpid(), number=1)
        await treatment.apply(instance)  # type: ignore[arg-type]
        assert instance.settings.wrappers == [["taskset", "--cpu-list", ranges_of(server)]]
        evidence = await treatment.account(instance)  # type: ignore[arg-type]
        assert evidence is not None
        assert evidence.holds == holds, evidence.text
        assert instance.settings.load_cpus == tuple(load)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process of nine threads."""
    threads = "[threading.Thread(target=time.sleep, args=(600,), daemon=True).start() for _ in range(8)]"
    code = f"import threading, time; {threads}; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield made
        made.kill()


async def test_every_thread_of_a_running_server_is_moved_and_moved_back(process: subprocess.Popen[str]) -> None:
    here = os.sched_getaffinity(0)
    treatment = AffinityTreatment("one")
    instance: Any = SimpleNamespace(settings=InstanceSettings(), pid=process.pid, number=1)
    await treatment.switch_on(instance)
    proof = await treatment.evidence(instance)
    assert proof.holds, proof.text
    assert affinities_of(process.pid) == [{max(here)}] * 9
    assert instance.settings.load_cpus == (max(here),)
    await treatment.switch_off(instance)
    assert affinities_of(process.pid) == [here] * 9
    assert instance.settings.load_cpus == ()


def test_threads_that_are_made_meanwhile_are_moved_too(process: subprocess.Popen[str]) -> None:
    walks = iter([{process.pid}])  # the first comes before there are other threads
    last = max(os.sched_getaffinity(0))
    set_affinity(process.pid, {last}, lambda pid: next(walks, None) or threads_of(pid))
    assert affinities_of(process.pid) == [{last}] * 9
    walks = ({thread} for thread in count(1 << 22))  # beyond the largest process id: each has ended when it is moved
    with pytest.raises(HostError, match="creates threads faster"):
        set_affinity(process.pid, {last}, lambda _: next(walks))


def test_the_load_enters_its_cpus_before_its_namespace() -> None:
    address = Address("load", b"", cpus=(2, 3), namespace=Path("/run/netns/a"))
    assert address.entering == ["taskset", "--cpu-list", "2,3", "nsenter", "--net=/run/netns/a", "--"]
    assert Address("load", b"").entering == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((None, "one"), "share this host's 2 CPUs: every figure includes the driver's cost"),
        (
            ("one", "one"),
            "share one of this host's 2 CPUs: throughput is that of one CPU, and includes the driver's cost",
        ),
        (("apart", "apart"), "share this host, each on CPUs of its own: neither can use all of its 2 CPUs"),
    ],
)
def test_the_plan_says_which_cpus_server_and_load_share(
    tmp_path: Path, values: tuple[str | None, ...], words: str
) -> None:
    treatments = {arm: {"affinity": value} for arm, value in zip(("glibc", "jemalloc"), values, strict=True) if value}
    assert shared_host_caution(experiment(treatments=treatments), FakeHost(tmp_path)).endswith(words)
