"""MySQL 5.6.14 with its InnoDB memcached plugin, and Debian's memcached: both real, loaded, proved, killed."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mydyno.drivers.held import HeldProcess
from mydyno.execution.environments.private_environment import PrivateEnvironment, open_private_environment
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.limits import affinities_of
from mydyno.hosts.network.ports import LOOPBACK
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.quantities import numbers_of
from mydyno.model.stored.records import RunRecord
from mydyno.servers.memcached import MemcachedClient
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.private import PrivateServer
from mydyno.treatments.affinity import AffinityTreatment
from mydyno.treatments.base import Treatment
from mydyno.treatments.memcached import MemcachedTreatment
from tests.server.support import one_run
from tests.support import first_in_gate
from tests.support.not_run import note_not_run

ARMS = """\
control = "memcached"
memcached = { server = "memcached", memcached = { memory = "64M", crash = true } }
memcached_small = { server = "memcached", memcached = { memory = "2M" } }
innodb_only = { memcached = { policy = "innodb_only", memory = "8M", threads = 2, crash = true } }
caching = { memcached = { policy = "caching", crash = true } }
cache_only = { memcached = { policy = "cache_only", memory = "8M", crash = true } }
split = { memcached = { policy = { get = "caching", set = "innodb_only", delete = "cache_only" }, w_batch_size = 4 } }
batched = { memcached = { policy = "innodb_only", w_batch_size = 1000, crash = true } }
"""
TEXT = f"""\
name = "memcached-{os.getpid()}"
question = "Does the test pass?"
[server]
name = "mysql-5.6"
[server.variables]
innodb_buffer_pool_size = "64M"
innodb_log_file_size = "16M"
innodb_flush_log_at_trx_commit = 1
performance_schema = false
[data]
workload = "kv"
keys = 3000
[validity]
steady = "report"
steal = "99%"
driver_cpu = 1
not_found = 1
[arms]
{ARMS}
[[steps]]
workload = "kv_mixed"
driver = "dynoload"
connections = 4
warmup = "1s"
measure = "1s"
[[steps]]
workload = "kv_get"
driver = "dynoload"
connections = 4
warmup = "1s"
measure = "1s"
[verdict]
primary = "ops"
"""


def experiment() -> Experiment:
    return parse_experiment(TomlSource.parse("memcached.toml", TEXT), vocabulary())


@pytest.fixture
async def environment(real_paths: HostPaths, tmp_path: Path) -> AsyncIterator[PrivateEnvironment]:
    """The study environment of a study on both kinds of server."""
    made = await open_private_environment(real_paths, experiment(), f"memcached-{os.getpid()}-x", tmp_path, print)
    yield made
    assert made.close() == []


@asynccontextmanager
async def running(
    environment: PrivateEnvironment, arm: str, tmp_path: Path, *more: Treatment
) -> AsyncIterator[tuple[PrivateServer, MemcachedTreatment]]:
    """An arm's server with its memcached and further treatments, as a run starts it; stopped at the end."""
    spec = environment.experiment.arm(arm)
    instance = environment.instance(environment.scratch / "one", tmp_path / "server.log", arm=arm)
    await environment.restore(await environment.template(spec, print), instance)
    treatment = MemcachedTreatment(spec.treatments["memcached"])
    for one in (treatment, *more):
        await one.apply(instance)
    try:
        await instance.start()
        yield instance, treatment
    finally:
        await instance.stop()


@pytest.mark.parametrize("value", ["apart", "one"])
async def test_server_and_load_run_on_cpus_of_their_own_or_on_one(
    value: str, environment: PrivateEnvironment, tmp_path: Path
) -> None:
    affinity = AffinityTreatment(value)
    words = affinity.obstacle(environment.experiment.server)
    if words is not None:
        note_not_run(f"affinity: {words}")
        return
    async with running(environment, "memcached", tmp_path, affinity) as (instance, _):
        evidence = await affinity.evidence(instance)
        assert evidence.holds, evidence.text
        cpus = set(instance.address(LOAD_USER).cpus)
        held, log = HeldProcess(environment.host, "load", tmp_path / "load.log"), tmp_path / "load.log"
        told = """grep Cpus_allowed_list /proc/self/status; echo '{"record": "ready"}'; sleep 60"""
        await held.start(["sh", "-c", told], instance.address(LOAD_USER))
        await held.end()
        assert numbers_of(log.read_text().splitlines()[0].split()[1]) == cpus
        shared = [cpus & of_server for of_server in affinities_of(instance.pid)]
        assert all(shared) if value == "one" else not any(shared)


def texts(record: RunRecord, words: str) -> list[str]:
    return [one.text for one in record.evidence if words in one.text]


def assert_loaded(record: RunRecord) -> None:
    """The run's load was asked and counted alike on both sides; the driver may call a busy test host invalid."""
    assert record.reasons == () or record.reasons[0].check == "no_valid_step", record.reasons
    assert all(one.holds for one in record.evidence), [one.text for one in record.evidence if not one.holds]
    for step in record.steps:
        reasons = [reason for reason in step.reasons if reason.check != "driver_health"]
        assert reasons == []
        assert step.driver.key_values["cmd_get"] > 0
        assert step.driver.key_values["wrong_values"] == 0
        assert step.server_counters["memcached_cmd_get"] == step.driver.whole["cmd_get"]


@pytest.mark.parametrize(
    ("arm", "behaviour", "lost"),
    first_in_gate(
        [
            ("memcached", r"memcached has 64.0 MiB and 4 threads by stats", "200"),
            (
                "innodb_only",
                r"a set appears .* finds a row .* returns the new value, delete removes .*8.0 MiB and 2",
                "0",
            ),
            ("caching", r"a set appears .* finds a row .* returns the old value, from the cache, delete removes", "0"),
            ("cache_only", r"a set does not appear .* does not find a row .* from the cache, delete does not", "200"),
        ]
    ),
)
async def test_each_policy_does_what_it_says_and_keeps_what_it_says(
    environment: PrivateEnvironment, tmp_path: Path, arm: str, behaviour: str, lost: str
) -> None:
    record = await one_run(environment, arm, tmp_path / arm)
    assert_loaded(record)
    assert [text for text in texts(record, "by stats") if re.search(behaviour, text)]
    (crash,) = texts(record, "kill -9 lost")
    assert crash.startswith(f"kill -9 lost {lost} of 200 acknowledged sets, and ")
    if lost == "0":
        assert "and 0 of the 3,201 keys" in crash
    flavours = {server.flavour for server in record.servers}
    assert flavours == {"memcached" if arm == "memcached" else "mysql"}


@pytest.mark.exhaustive
async def test_a_commit_of_many_sets_at_a_time_loses_acknowledged_ones(
    environment: PrivateEnvironment, tmp_path: Path
) -> None:
    record = await one_run(environment, "batched", tmp_path / "batched")
    assert_loaded(record)
    (crash,) = [one for one in record.evidence if "kill -9 lost" in one.text]
    assert crash.facts["daemon_memcached_w_batch_size"] == 1000
    assert 0 < crash.facts["acknowledged"] - crash.facts["found"] <= 200


async def test_too_little_memory_makes_native_memcached_miss_as_well(
    environment: PrivateEnvironment, tmp_path: Path
) -> None:
    record = await one_run(environment, "memcached_small", tmp_path / "small")
    assert_loaded(record)
    (step,) = [step for step in record.steps if step.workload == "kv_get"]
    assert 0 < step.driver.key_values["get_misses"] < step.driver.key_values["cmd_get"]
    assert texts(record, "items were evicted")


@pytest.mark.exhaustive
async def test_a_policy_for_each_command_is_what_the_plugin_reads(
    environment: PrivateEnvironment, tmp_path: Path
) -> None:
    async with running(environment, "split", tmp_path) as (instance, treatment):
        evidence = await treatment.evidence(instance)
        assert evidence.holds, evidence.text
        assert "delete does not remove the row" in evidence.text
        assert evidence.facts["w_batch_size"] == 4


@pytest.mark.exhaustive
async def test_a_policy_that_is_changed_behind_the_start_does_not_count_as_proved(
    environment: PrivateEnvironment, tmp_path: Path
) -> None:
    async with running(environment, "innodb_only", tmp_path) as (instance, _):
        async with instance.control() as control:
            await control.rows(
                "UPDATE innodb_memcache.cache_policies SET get_policy = 'caching', set_policy = 'caching'"
            )
        changed = MemcachedTreatment({"policy": "caching", "memory": "8M", "threads": 2})
        evidence = await changed.evidence(instance)
        assert not evidence.holds
        assert "this is not the behaviour of the policy: a set appears in the table" in evidence.text


@pytest.mark.parametrize(
    ("arm", "setting", "words"),
    first_in_gate(
        [
            ("memcached", {"memory": "64M", "threads": 3}, "threads is 4, wanted 3"),
            ("cache_only", {"policy": "cache_only", "memory": "8M"}, None),
            ("cache_only", {"policy": "cache_only", "memory": "8M", "w_batch_size": 2}, "w_batch_size is 1, wanted 2"),
        ]
    ),
)
async def test_memory_threads_and_batches_are_read_back(
    environment: PrivateEnvironment, tmp_path: Path, arm: str, setting: dict[str, object], words: str | None
) -> None:
    async with running(environment, arm, tmp_path) as (instance, _):
        other = MemcachedTreatment(setting)
        options = instance.settings.memcached
        assert options is not None
        await other.apply(instance)  # what it wants; the running server has the arm's own
        assert instance.settings.memcached is not None
        instance.settings.memcached = type(options)(
            options.port, options.memory_bytes, instance.settings.memcached.threads
        )
        evidence = await other.evidence(instance)
        assert evidence.holds == (words is None), evidence.text
        assert words is None or words in evidence.text


@pytest.mark.parametrize("arm", first_in_gate(["memcached", "cache_only"]))
async def test_memcached_listens_on_loopback_alone_and_never_runs_as_root(
    environment: PrivateEnvironment, tmp_path: Path, arm: str
) -> None:
    async with running(environment, arm, tmp_path) as (instance, _):
        options = instance.settings.memcached
        assert options is not None
        status = Path(f"/proc/{instance.pid}/status").read_text()
        uids = re.search(r"^Uid:\s+(.+)$", status, re.MULTILINE)
        assert uids is not None
        assert "0" not in uids[1].split()
        assert _listening(options.port) == {"0100007F"}
        async with MemcachedClient(LOOPBACK, options.port) as client:
            assert (await client.stats())["pid"] == str(instance.pid)
    assert _listening(options.port) == set()
    assert instance.process is not None
    assert instance.process.exit_code == 0


def _listening(port: int) -> set[str]:
    """The local addresses, as /proc/net/tcp and tcp6 print them, that listen at a port."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            address, _, number = words[1].partition(":")
            if words[3] == "0A" and int(number, 16) == port:
                found.add(address)
    return found


@pytest.mark.exhaustive
async def test_a_server_without_the_plugin_is_told_by_its_log(
    environment: PrivateEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Callable[..., list[str]] = lambda *_: ["INSTALL PLUGIN daemon_memcached SONAME 'libnothing.so'"]  # noqa: E731
    monkeypatch.setattr("mydyno.treatments.memcached.configuring_sql", said)
    monkeypatch.setattr("mydyno.servers.running.mysqld.START_TIMEOUT_S", 15.0)
    with pytest.raises(Exception, match=r"(?s)was not ready after.*memcached at 127\.0\.0\.1.*libnothing"):
        async with running(environment, "caching", tmp_path):
            pass


SECOND_OPINIONS = """\
[[steps]]
workload = "kv_mixed"
driver = "memaslap"
connections = 4
warmup = "1s"
measure = "2s"
options = { overwrite = 0.2, threads = 2 }
[[steps]]
workload = "kv_set"
driver = "memslap"
connections = 4
warmup = "0s"
measure = "60s"
options = { execute_number = 500 }
[[steps]]
workload = "kv_get"
driver = "memslap"
connections = 4
warmup = "0s"
measure = "60s"
options = { execute_number = 500 }
[verdict]
"""


@pytest.mark.parametrize("arm", first_in_gate(["memcached", "innodb_only"]))
async def test_libmemcacheds_programs_load_plugin_and_native_and_agree_with_the_servers_counters(
    real_paths: HostPaths, tmp_path: Path, arm: str
) -> None:
    head, tail = TEXT[: TEXT.index("[[steps]]")], TEXT[TEXT.index("primary") :]
    text = head.replace(", crash = true", "") + SECOND_OPINIONS + tail
    made = parse_experiment(TomlSource.parse("memcached.toml", text), vocabulary())
    environment = await open_private_environment(real_paths, made, f"memaslap-{os.getpid()}-x", tmp_path, print)
    try:
        record = await one_run(environment, arm, tmp_path / arm)
    finally:
        assert environment.close() == []
    assert_loaded_by_others(record)
    assert environment.versions["memaslap"] == environment.versions["memslap"]


def assert_loaded_by_others(record: RunRecord) -> None:
    """Every step's counts are the server's, to the operation for memslap; a busy test host closes no gate here.

    memslap's threads set the same keys at the same time; should the plugin refuse some of those sets, the step must not
    count.
    """
    assert record.reasons == ()
    steps = {step.workload: step for step in record.steps}
    refused = steps["kv_set"].driver.errors
    assert bool(refused) == bool(steps["kv_set"].reasons), steps["kv_set"].reasons
    assert refused == 0 or record.arm == "innodb_only"
    assert [steps[name].reasons for name in ("kv_mixed", "kv_get")] == [(), ()]
    assert steps["kv_mixed"].driver.latency_log2_us
    mixed = steps["kv_mixed"].driver.whole
    assert mixed["cmd_get"] == pytest.approx(9 * mixed["cmd_set"], rel=0.05)
    # A thread of memslap ends at the set that the plugin refuses it, and the server has counted that one too.
    counted = steps["kv_set"].server_counters["memcached_cmd_set"] - (2000 - refused)
    assert 0 <= counted <= (4 if refused else 0)
    assert steps["kv_get"].server_counters["memcached_get_hits"] == 2000
    assert steps["kv_get"].server_counters["memcached_cmd_set"] == 500


YCSB = "".join(
    f"""\
[[steps]]
workload = "kv_ycsb_{letter}"
driver = "dynoload"
connections = 4
warmup = "0.5s"
measure = "1s"
options = {{ verify = "100%" }}
"""
    for letter in "abcdf"
)


@pytest.mark.parametrize("arm", first_in_gate(["memcached", "innodb_only"]))
async def test_the_workloads_of_ycsb_load_plugin_and_native(real_paths: HostPaths, tmp_path: Path, arm: str) -> None:
    head, tail = TEXT[: TEXT.index("[[steps]]")], TEXT[TEXT.index("[verdict]") :]
    text = head.replace(", crash = true", "") + YCSB + tail
    made = parse_experiment(TomlSource.parse("memcached.toml", text), vocabulary())
    environment = await open_private_environment(real_paths, made, f"ycsb-{os.getpid()}-x", tmp_path, print)
    try:
        record = await one_run(environment, arm, tmp_path / arm)
    finally:
        assert environment.close() == []
    assert_loaded(record)
    whole = {step.workload.removeprefix("kv_ycsb_"): step.driver.whole for step in record.steps}
    shares = {letter: one["cmd_set"] / one["transactions"] for letter, one in whole.items()}
    expected = {"a": 0.5, "b": 0.05, "c": 0.0, "d": 0.05, "f": 0.5}
    assert shares == pytest.approx(expected, abs=0.05), "F stores what it has read"
    assert whole["f"]["cas"] == whole["f"]["cmd_set"]
    assert whole["d"]["get_misses"] <= 0.01 * whole["d"]["cmd_get"]
    assert all(whole[letter]["get_misses"] == 0 for letter in "abcf")
    for step in record.steps:
        assert step.driver.key_values["verified"] > 0
