# mypy: disable-error-code="arg-type"
"""Real servers of many arms up at the same time, as an interleaved block starts them: proved, then taken down."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mydyno.execution.environments.private_environment import PrivateEnvironment, open_private_environment
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.cgroups import Cgroups
from mydyno.hosts.kernel_settings import read_setting
from mydyno.hosts.local import all_or_none
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HERE
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.treatments.base import Treatment
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.cgroup import CgroupTreatment
from mydyno.treatments.client_path import open_sessions
from mydyno.treatments.huge_pages import NR_HUGEPAGES, SHM_GROUP, THP, HugePagesTreatment
from mydyno.treatments.network import NetworkTreatment
from tests.server.test_memcached import TEXT as KV_EXPERIMENT
from tests.support.network_study import means_or_words
from tests.support.not_run import note_not_run
from tests.support.real import SHORT_STEP, experiment_text

EVERYWHERE = """\
control = "glibc"
glibc = { allocator = "glibc" }
jemalloc = { allocator = "jemalloc" }
loopback-1 = { tls = "1.3" }
loopback-2 = { tls = { version = "1.2", resumption = false } }
memcached-8 = { server = "memcached", memcached = { memory = "8M" } }
memcached-16 = { server = "memcached", memcached = { memory = "16M", threads = 2, crash = true } }
"""
WITH_NETWORK = """\
20mbit-plain = { network = "20mbit", tls = "off", compression = "off" }
10mbit-tls = { network = "10mbit", tls = "1.3", compression = "zlib" }
"""
WITH_CGROUPS = """\
quota-1 = { cgroup = { cpu_quota = 1.0 } }
quota-2 = { cgroup = { cpu_quota = 0.5 } }
"""
WITH_HUGE_PAGES = """\
4k = { huge_pages = "4k" }
hugetlb-1 = { huge_pages = "hugetlb" }
hugetlb-2 = { huge_pages = "hugetlb", variables = { innodb_buffer_pool_size = "64M" } }
"""


def missing(treatment: Treatment, experiment: Experiment) -> bool:
    """Whether this host cannot do it; says so."""
    words = treatment.obstacle(experiment.server) or treatment.server_obstacle(experiment.server)
    if words is not None:
        note_not_run(f"beside other servers: {treatment.name}: {words}")
    return words is not None


def experiment_here() -> Experiment:
    """Every arm that this host can have."""
    plain = parsed(EVERYWHERE)
    arms = EVERYWHERE
    if means_or_words() and not missing(NetworkTreatment("20mbit"), plain):
        arms += WITH_NETWORK
    if not missing(CgroupTreatment({"cpu_quota": 1}), plain):
        arms += WITH_CGROUPS
    if not missing(HugePagesTreatment("hugetlb"), plain):
        arms += WITH_HUGE_PAGES
    return parsed(arms)


def parsed(arms: str) -> Experiment:
    steps = SHORT_STEP.replace("sysbench", "dynoload")
    return parse_experiment(TomlSource.parse("beside.toml", experiment_text("beside", arms, steps)), vocabulary())


@dataclass
class Server:
    """One server of a block, with the treatments of its arm."""

    arm: str
    instance: MysqldServer
    treatments: Sequence[Treatment]

    async def evidence(self) -> list[Evidence]:
        found = [await treatment.evidence(self.instance) for treatment in self.treatments]
        accounts = [await treatment.account(self.instance) for treatment in self.treatments]
        return found + [account for account in accounts if account is not None]

    async def take_down(self) -> None:
        assert await self.instance.stop() is None
        for treatment in reversed(self.treatments):
            await treatment.undo()


@asynccontextmanager
async def all_up(environment: PrivateEnvironment, tmp_path: Path, seed: int) -> AsyncIterator[list[Server]]:
    """A server of every arm and a second one of the control, applied and started together; taken down in any order."""
    names = [arm.name for arm in environment.experiment.arms] + [environment.experiment.control]
    servers = []
    for number, name in enumerate(names, 1):
        instance = environment.instance(
            environment.scratch / f"run-{number}", tmp_path / f"{number}.log", number, arm=name
        )
        await environment.restore(await environment.template(environment.experiment.arm(name), print), instance)
        servers.append(Server(name, instance, treatments_of(environment.experiment.arm(name))))

    async def apply(server: Server) -> None:
        for treatment in server.treatments:
            await treatment.get(environment.paths, environment.host)
            await treatment.apply(server.instance)

    try:
        await all_or_none([apply(server) for server in servers])
        await all_or_none([server.instance.start() for server in servers])
        yield servers
    finally:
        order = list(servers)
        random.Random(seed).shuffle(order)
        for server in order:
            await server.take_down()
            shutil.rmtree(server.instance.folder, ignore_errors=True)


def host_state(study: str) -> dict[str, object]:
    """What treatments change on this host."""
    slots, _ = Cgroups().slots(["cpu"])
    settings = (HERE.sys / THP, HERE.proc / NR_HUGEPAGES, HERE.proc / SHM_GROUP)
    return {
        "namespaces": sorted(HERE.netns.glob(f"mydyno-{study}-*")),
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if study in line],
        "groups": [path for slot in slots.values() for path in slot.parent.glob(f"mydyno-{study}-*")],
        "settings": [read_setting(path) for path in settings if path.exists()],
    }


async def test_servers_of_all_arms_are_up_and_proved_and_leave_nothing_in_whatever_order_they_end(
    real_paths: HostPaths, tmp_path: Path
) -> None:
    experiment = experiment_here()
    study = f"beside-{os.getpid()}-x"
    before = host_state(study)
    environment = await open_private_environment(real_paths, experiment, study, tmp_path, print)
    try:
        for seed in (1, 2):
            async with all_up(environment, tmp_path, seed) as servers:
                found = await asyncio.gather(*(server.evidence() for server in servers))
                wrong = [(s.arm, e.text) for s, own in zip(servers, found, strict=True) for e in own if not e.holds]
                assert wrong == []
                assert [own[0].instance for own in found] == list(range(1, len(servers) + 1))
                paths = [path for server in servers if (path := server.instance.settings.client_path) is not None]
                assert len({(path.host, path.port) for path in paths}) == len(paths) >= 4
                for server in servers:
                    if server.instance.has_sql:
                        program, count = real_paths.program("dynoload"), "SELECT COUNT(*) FROM sbtest.sbtest1"
                        address = server.instance.address(LOAD_USER)
                        (session,) = await open_sessions(program, environment.host, address, [count])
                        assert session.results[0].rows == (("2000",),)
                ends = [t.end_evidence(s.instance) for s in servers for t in s.treatments]
                (crash,) = [end for end in await asyncio.gather(*ends) if end is not None]
                assert crash.holds, crash.text
                assert "kill -9 lost 200 of 200 acknowledged sets" in crash.text
                assert [s.arm for s in servers if s.instance.number == crash.instance] == ["memcached-16"]
            assert host_state(study) == before
            assert [entry.kind for entry in environment.undo.open_entries()] == ["folder", "folder", "processes"]
    finally:
        assert environment.close() == []
    assert host_state(study) == before


async def test_what_a_killed_study_leaves_of_many_servers_is_undone_from_its_journal(
    real_paths: HostPaths, tmp_path: Path
) -> None:
    experiment = experiment_here()
    study = f"besidekilled-{os.getpid()}-x"
    before = host_state(study)
    environment = await open_private_environment(real_paths, experiment, study, tmp_path, print)
    for number, arm in enumerate(experiment.arms, 1):
        instance = environment.instance(
            environment.scratch / f"run-{number}", tmp_path / f"{number}.log", number, arm=arm.name
        )
        for treatment in treatments_of(arm):
            await treatment.get(environment.paths, environment.host)
            await treatment.apply(instance)
    if len(experiment.arms) > 6:
        assert host_state(study) != before
    assert environment.undo.undo_all() == []
    assert host_state(study) == before


@pytest.mark.exhaustive
async def test_several_plugins_of_one_server_version_are_up_at_the_same_time(
    real_paths: HostPaths, tmp_path: Path
) -> None:
    text = KV_EXPERIMENT.replace(f"memcached-{os.getpid()}", f"besidekv-{os.getpid()}")
    whole = parse_experiment(TomlSource.parse("kv.toml", text), vocabulary())
    arms = tuple(arm for arm in whole.arms if arm.name in ("memcached", "innodb_only", "caching", "cache_only"))
    experiment = whole.model_copy(update={"arms": arms})
    environment = await open_private_environment(real_paths, experiment, f"besidekv-{os.getpid()}-x", tmp_path, print)
    try:
        async with all_up(environment, tmp_path, seed=3) as servers:
            found = await asyncio.gather(*(server.evidence() for server in servers))
            assert [e.text for own in found for e in own if not e.holds] == []
            for server in servers:
                await environment.prewarm(server.instance)
            for server in servers:  # one after another: a crash proof starts its server again at its own port
                for treatment in server.treatments:
                    crash = await treatment.end_evidence(server.instance)
                    if treatment.name == "memcached":
                        assert crash is not None
                        assert crash.holds, crash.text
                        assert crash.instance == server.instance.number
    finally:
        assert environment.close() == []
