"""memcached's protocol, what policies must do, what the plugin is told, and which arms are refused. No server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mydyno.drivers import held
from mydyno.drivers.base import StepContext
from mydyno.drivers.dynoload import ARGUMENTS, Dynoload
from mydyno.errors import DriverError, ServerError, UserError
from mydyno.execution.planning.forecast import forecast
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import load, vocabulary
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Experiment, Step
from mydyno.model.definition.plan import make_plan
from mydyno.model.definition.quantities import parse_bytes
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import DriverResult, StepRecord
from mydyno.servers.memcached import (
    Found,
    MemcachedClient,
    MemcachedOptions,
    configuring_sql,
    numbers,
    plugin_variables,
)
from mydyno.servers.sql import Address
from mydyno.store.samples import Sample
from mydyno.treatments.memcached import (
    BY_PROTOCOL,
    BY_SQL,
    MemcachedTreatment,
    ObservedBehaviour,
    behaviour,
    expected,
    sources_of_hits,
)
from mydyno.workloads import kv
from mydyno.workloads.reconcile import disagreements, growth
from tests.support import DATA

RECORDS = DATA / "dynoload-kv.jsonl"
"""dynoload kv run --keys 100 --connections 2 --warmup 1s --duration 2s --rate 300 --hit-ratio 90%, on a busy host."""
SECOND_NS = 1_000_000_000
KV = ARGUMENTS["kv"]


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[tuple[MemcachedClient, list[bytes]]]:
    """A client of a server that gives these answers, one for each of its commands; and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            line = await reader.readline()
            if line.startswith(b"set "):
                line += await reader.readexactly(int(line.split()[4]) + 2)
            asked.append(line)
            writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, MemcachedClient("127.0.0.1", port, timeout_s=5) as client:
        yield client, asked


async def test_the_protocol_is_spoken_as_memcached_speaks_it() -> None:
    answers = (b"STORED\r\n", b"VALUE k 5 9\r\nwith\r\nend\r\nEND\r\n", b"END\r\n", b"DELETED\r\n", b"NOT_FOUND\r\n")
    async with answering(*answers) as (client, asked):
        assert await client.set("k", b"with\r\nend")
        assert await client.get("k") == Found(b"with\r\nend", 5)
        assert await client.get("k") is None
        assert await client.delete("k")
        assert not await client.delete("k")
    assert asked[0] == b"set k 0 0 9\r\nwith\r\nend\r\n"
    assert asked[1:] == [b"get k\r\n", b"get k\r\n", b"delete k\r\n", b"delete k\r\n"]


async def test_statistics_become_counters_where_they_are_numbers() -> None:
    answer = b"STAT pid 4711\r\nSTAT version 1.6.18\r\nSTAT get_hits 12\r\nSTAT empty\r\nEND\r\n"
    async with answering(answer) as (client, asked):
        told = await client.stats()
    assert asked == [b"stats\r\n"]
    assert told == {"pid": "4711", "version": "1.6.18", "get_hits": "12", "empty": ""}
    assert numbers(told) == {"memcached_pid": 4711.0, "memcached_get_hits": 12.0}


@pytest.mark.parametrize("answer", [b"SERVER_ERROR out of memory\r\n", b"VALUE k\r\n", b"", b"VALUE k 0 5\r\nab"])
async def test_an_answer_that_is_none_is_an_error_of_the_server(answer: bytes) -> None:
    async with answering(answer) as (client, _):
        with pytest.raises(ServerError, match="memcached"):
            await client.get("k")


async def test_a_set_that_was_refused_is_no_set_and_nobody_at_a_port_is_told() -> None:
    async with answering(b"SERVER_ERROR out of memory storing object\r\n") as (client, _):
        assert not await client.set("k", b"v")
    with pytest.raises(ServerError, match=r"memcached at 127\.0\.0\.1:1: "):
        async with MemcachedClient("127.0.0.1", 1):
            pass


def policies(policy: str, **other: str) -> dict[str, str]:
    return dict.fromkeys(("get", "set", "delete"), policy) | other


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (policies("innodb_only"), ObservedBehaviour(True, True, BY_SQL, True)),
        (policies("caching"), ObservedBehaviour(True, True, BY_PROTOCOL, True)),
        (policies("cache_only"), ObservedBehaviour(False, False, BY_PROTOCOL, False)),
        (policies("innodb_only", get="caching"), ObservedBehaviour(True, True, BY_SQL, True)),
        (policies("innodb_only", get="cache_only"), ObservedBehaviour(True, False, None, True)),
        (policies("innodb_only", set="cache_only"), ObservedBehaviour(False, True, None, True)),
        (policies("cache_only", delete="caching"), ObservedBehaviour(False, False, BY_PROTOCOL, True)),
    ],
)
def test_each_policy_has_a_behaviour_of_its_own(said: dict[str, str], seen: ObservedBehaviour) -> None:
    assert expected(said) == seen


def test_the_behaviour_is_said_in_words() -> None:
    words = behaviour(ObservedBehaviour(False, False, BY_PROTOCOL, False))
    assert words.startswith(
        "a set does not appear in the table, get does not find a row inserted by SQL, after an UPDATE"
    )
    assert words.endswith("returns the old value, from the cache, delete does not remove the row")


def test_the_plugin_is_configured_before_it_starts_and_flush_never_reaches_the_table() -> None:
    statements = configuring_sql(policies("caching", set="innodb_only"))
    assert statements[-1].startswith("INSTALL PLUGIN daemon_memcached")
    (row,) = [one for one in statements if one.startswith("INSERT INTO innodb_memcache.cache_policies")]
    assert row.endswith("VALUES ('mydyno', 'caching', 'innodb_only', 'caching', 'disabled')")
    options = MemcachedOptions(port=11311, memory_bytes=128 << 20, threads=2, connections=100)
    said = plugin_variables(options, 1, 32)
    assert said["loose_daemon_memcached_option"] == "-l 127.0.0.1 -p 11311 -U 0 -m 128 -t 2 -c 100"
    assert said["loose_daemon_memcached_w_batch_size"] == 32


def test_the_table_is_as_wide_as_the_values() -> None:
    (statement,) = kv.schema_sql(DataSpec(workload="kv", value_bytes=1024))
    assert "k VARCHAR(250)" in statement
    assert "v VARCHAR(1088)" in statement
    small, large = (kv.data_bytes(DataSpec(workload="kv", keys=keys)) for keys in (1, 1_000_000))
    assert large - small == pytest.approx(1_000_000 * 1148 * 1.5, rel=0.01)


def test_memcached_tells_its_version() -> None:
    version = ServerVersion.parse("memcached 1.6.18")
    assert (version.flavour, version.number, version.name) == ("memcached", (1, 6, 18), "memcached 1.6.18")
    assert not version.is_mysql_from(5, 5)
    with pytest.raises(UserError, match="no version number"):
        ServerVersion.parse("memcached unknown")


def experiment(arms: str, data: str = 'workload = "kv"\nkeys = 100', workload: str = "kv_get") -> Experiment:
    text = (
        'name = "x"\nquestion = "What is refused?"\n[server]\nname = "mysql-5.6"\n'
        f'[data]\n{data}\n[arms]\n{arms}\n[[steps]]\nworkload = "{workload}"\ndriver = "dynoload"\n'
        '[verdict]\nprimary = "ops"\n'
    )
    return parse_experiment(TomlSource.parse("x.toml", text), vocabulary())


def obstacles(made: Experiment, tmp_path: Path) -> str:
    settings = HostPaths(cache=tmp_path, data=tmp_path, engine=tmp_path, server_user=None)
    return "\n".join(forecast(made, make_plan(made), settings).obstacles)


GOOD = 'control = "native"\nnative = { server = "memcached" }\nplugin = { memcached = "caching" }\n'


def test_plugin_and_native_memcached_are_arms_of_one_experiment(tmp_path: Path) -> None:
    assert obstacles(experiment(GOOD), tmp_path) == ""


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("a = { server = 'mariadb-10.11', memcached = 'caching' }", "arm a: memcached: mariadb-10.11 has no memcached"),
        ("a = { server = 'memcached', memcached = 'caching' }", "the server memcached has no policy"),
        ("a = { server = 'memcached', tls = 'off' }", "arm a: tls is not for the load of memcached's protocol"),
        ("a = { memcached = 'caching', compression = 'off' }", "arm a: compression is not for the load"),
        ("a = { variables = { sync_binlog = 0 } }", "arm a: no server with memcached's protocol"),
    ],
)
def test_arms_that_cannot_be_asked_are_refused_with_the_way_out(arm: str, words: str, tmp_path: Path) -> None:
    assert words in obstacles(experiment(GOOD + arm), tmp_path)


def test_a_native_memcached_can_have_cpus_of_its_own(tmp_path: Path) -> None:
    made = experiment(GOOD + 'apart = { server = "memcached", affinity = "apart" }\n')
    assert "not for the load" not in obstacles(made, tmp_path)


def test_a_native_memcached_has_no_tables_for_sql(tmp_path: Path) -> None:
    made = experiment('control = "a"\na = { server = "memcached" }\n', "tables = 1\nrows = 10", "oltp_read_only")
    assert "memcached has no tables" in obstacles(made, tmp_path)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("{ memcached = 'cached' }", "innodb_only"),
        ("{ memcached = { policy = 'caching', memory = 'much' } }", "memory"),
        ("{ memcached = { policy = { get = 'caching', flush = 'caching' } } }", "flush"),
        ("{ memcached = { w_batch_size = 0 } }", "w_batch_size"),
    ],
)
def test_mistakes_in_the_treatment_are_found_before_anything_starts(arm: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        experiment(f'control = "a"\na = {arm}\n')


def test_a_policy_can_be_said_for_each_command() -> None:
    treatment = MemcachedTreatment({"policy": {"get": "caching", "set": "cache_only"}})
    assert treatment.policies == {"get": "caching", "set": "cache_only", "delete": "innodb_only"}
    assert MemcachedTreatment("cache_only").policies == policies("cache_only")
    assert MemcachedTreatment({"memory": "1G"}).policies == policies("innodb_only")


@pytest.mark.parametrize("scale", ["quick", "standard", "published"])
def test_memcached_api_manipulates_memory_and_nothing_else(scale: str, tmp_path: Path) -> None:
    made, _ = load("memcached-api", scale)
    treatments = {arm.name: arm.treatments["memcached"] for arm in made.arms}
    memory = {name: one["memory"] for name, one in treatments.items()}
    assert memory["cache_only_roomy"] == memory["memcached"] == "1G"
    assert memory["cache_only"] == memory["memcached_small"] == memory["caching"] == memory["innodb_only"]
    assert {one["policy"] for name, one in treatments.items() if name.startswith("cache_only")} == {"cache_only"}
    keys_bytes = made.data.keys * (made.data.key_bytes + made.data.value_bytes)
    assert 0.1 < parse_bytes(memory["cache_only"]) / keys_bytes < 0.7, "the small caches cannot hold the keys"
    assert {step.workload for step in made.steps} == {"kv_set", "kv_get", "kv_mixed"}
    assert all(one["crash"] for one in treatments.values())
    assert not [words for words in obstacles(made, tmp_path).splitlines() if "disk" not in words]


def step(workload: str = "kv_get", **options: Any) -> Step:
    return Step(
        id=f"{workload}-2", workload=workload, connections=2, warmup_s=1, measure_s=2, driver="dynoload",
        options=options,
    )  # fmt: skip


def test_every_server_is_asked_the_same_words_but_for_the_port() -> None:
    data = DataSpec(workload="kv", keys=500, key_bytes=40, value_bytes=100)

    def words(port: int) -> list[str]:
        return [*KV.endpoint(Address("dyno", b"x", port=port), Path()), *KV.data(data)]

    assert words(11211) == [
        "--host=127.0.0.1", "--port=11211", "--keys=500", "--key-size=40", "--value-size=100",
    ]  # fmt: skip
    assert set(words(11211)) ^ set(words(11212)) == {"--port=11211", "--port=11212"}
    assert [KV.workload(step(name)) for name in kv.KV_WORKLOADS] == [
        ["--ratio=0:100", "--hit-ratio=any", "--ignore-errors=130"],
        ["--ratio=100:0", "--hit-ratio=any", "--ignore-errors=130"],
        ["--ratio=90:10", "--hit-ratio=any", "--ignore-errors=130"],
        *([f"--ycsb={letter}", "--hit-ratio=any", "--ignore-errors=130"] for letter in "abcdf"),
    ]


def test_a_workload_asks_what_its_name_says() -> None:
    assert Dynoload().check(step("kv_mixed", ratio="50:50")) == []
    assert KV.workload(step("kv_mixed", ratio="50:50")) == ["--hit-ratio=any", "--ignore-errors=130"]
    assert KV.workload(step("kv_mixed", ratio="50:50", ignore_errors="2003")) == ["--hit-ratio=any"]
    (words,) = Dynoload().check(step("kv_get", ratio="50:50"))
    assert "kv_get runs 100:0" in words
    assert Dynoload().check(step("kv_ycsb_a", depth=4, verify="100%", hit_ratio="95%")) == []
    assert Dynoload().check(step("kv_ycsb_b", ratio="50:50", key_choice="uniform")) == [
        "options.ratio: kv_ycsb_b has YCSB's own", "options.key_choice: kv_ycsb_b has YCSB's own",
    ]  # fmt: skip
    (words,) = Dynoload().check(step("kv_ycsb_d", hit_ratio="95%"))
    assert "options.hit_ratio: not allowed in kv_ycsb_d" in words


async def test_a_load_that_failed_is_told_by_its_reason_and_not_by_its_table(tmp_path: Path) -> None:
    program = tmp_path / "dynoload"
    final = {"record": "final", "failure": {"code": 130, "message": "SERVER_ERROR out of memory (command set)"}}
    program.write_text(f"#!/bin/sh\necho 'FAILED: too early'\necho '{json.dumps(final)}'\nseq 20\nexit 1\n")
    program.chmod(0o755)
    driver = Dynoload()
    driver._host, driver._program = LocalHost("tests", None), program
    data = DataSpec(workload="kv", keys=500, key_bytes=40, value_bytes=100)
    with pytest.raises(DriverError) as refused:
        await driver.run(StepContext(Address("dyno", b"x", port=1), data, step(), tmp_path, tmp_path / "log"))
    assert str(refused.value) == (
        "dynoload kv_get-2 failed with exit code 1:\n  SERVER_ERROR out of memory (command set)"
    )


def test_keys_count_as_stored_by_dynoloads_own_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    data = DataSpec(workload="kv", keys=100)

    def said(errors: int = 0, cmd_set: int = 101, not_stored: int = 0) -> bool:
        kv_counts = {"cmd_set": cmd_set, "not_stored": not_stored}
        final = {"record": "final", "counts": {"errors": errors}, "kv": {"counts": kv_counts}}
        path.write_text('{"record":"header"}\n' + json.dumps(final, separators=(",", ":")) + "\n")
        return KV.is_prepared(path, data)

    assert not KV.is_prepared(path, data), "it wrote nothing"
    assert said()
    assert not said(errors=1)
    assert not said(cmd_set=99)
    assert not said(not_stored=1)
    path.write_text('{"record":"header"}\n')
    assert not KV.is_prepared(path, data), "it was cut short"


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def test_dynoloads_records_of_keys_and_values_are_read() -> None:
    (final,) = [record for record in recorded() if record["record"] == "final"]
    result = held.result_of(final, "0.1.0", ("dynoload",))
    assert (result.queries, result.transactions) == (600, 600)
    counted = {name: result.key_values[name] for name in ("cmd_get", "cmd_set", "get_hits", "get_misses")}
    assert counted == {"cmd_get": 538, "cmd_set": 62, "get_hits": 475, "get_misses": 63}
    assert result.whole == {
        "transactions": 900, "cmd_get": 806, "cmd_set": 94, "get_hits": 723, "get_misses": 83, "cas": 0,
    }  # fmt: skip
    assert sum(count for _, count in result.latency_log2_us) == 600
    assert result.key_values["min_us"] < result.key_values["geometric_mean_us"] < result.key_values["mean_us"]
    assert result.health == "invalid"
    assert result.health_reasons[0].startswith("the generator was late: lag p99 is 4207 µs")


def test_seconds_of_keys_and_values_become_samples() -> None:
    intervals = [record for record in recorded() if held.is_of_load(record)]
    values = [held.interval_values(record) for record in intervals]
    assert [one["ops"] for one in values] == [300.0, 300.0, 300.0]
    assert values[1]["kv_hit_pct"] == pytest.approx(100 * 242 / 269)
    assert values[1]["kv_misses_per_s"] == 27
    no_gets = {**intervals[0], "kv": {"counts": {**intervals[0]["kv"]["counts"], "cmd_get": 0, "get_misses": 0}}}
    assert "kv_hit_pct" not in held.interval_values(no_gets), "no gets have no hit ratio, not one of zero"


def test_gets_sets_and_hits_are_held_against_the_servers_own() -> None:
    whole = {"transactions": 100_000, "cmd_get": 90_000, "cmd_set": 10_000, "get_hits": 80_000, "get_misses": 10_000}
    before = {f"memcached_{name}": 5.0 for name in whole} | {"memcached_pid": 1.0}
    after = {f"memcached_{name}": 5.0 + count for name, count in whole.items()} | {"Com_select": 1e9}
    assert disagreements("kv_mixed", whole, growth(before, after)) == []
    assert "memcached_pid" not in growth(before, after)
    after["memcached_get_hits"] -= 2_000
    (words,) = disagreements("kv_mixed", whole, growth(before, after))
    assert words == "the driver counted 80000 hits, the server 78000 (memcached_get_hits)"


@pytest.mark.parametrize(("of_innodb", "counted"), [({}, 50_000.0), ({"Innodb_rows_updated": 50_000.0}, 0.0)])
def test_exchanges_count_as_sets_at_memcached_and_not_at_the_plugin(
    of_innodb: dict[str, float], counted: float
) -> None:
    whole = {"transactions": 100_000, "cmd_get": 100_000, "cmd_set": 50_000, "cas": 50_000}
    server = {"memcached_cmd_get": 100_000.0, **of_innodb}
    assert disagreements("kv_ycsb_f", whole, {**server, "memcached_cmd_set": counted}) == []
    (words,) = disagreements("kv_ycsb_f", whole, {**server, "memcached_cmd_set": 25_000.0})
    assert "sets, the server 25000" in words


def counted_step(counters: Mapping[str, float]) -> StepRecord:
    driver = DriverResult(
        driver="dynoload", version="0", command=(), transactions=100, queries=100, duration_s=2.0,
        key_values={"cmd_get": 100_000.0},
    )  # fmt: skip
    return StepRecord(
        id="kv_mixed-2", workload="kv_mixed", connections=2, started_unix_ns=0, warmup_s=1, measure_s=2,
        driver=driver, server_counters=dict(counters),
    )  # fmt: skip


def counters(pages: float, rows: float = 0.0, sets: float = 0.0, evictions: float = 0.0) -> dict[str, float]:
    return {
        "memcached_cmd_get": 900_000.0, "memcached_cmd_set": sets, "memcached_get_hits": 800_000.0,
        "memcached_evictions": evictions, "Innodb_buffer_pool_read_requests": pages, "Innodb_rows_inserted": 1.0,
        "Innodb_rows_updated": rows,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "pages", "holds", "words"),
    [
        ("innodb_only", 2_400_000, True, "3.00 pages of InnoDB were requested per hit"),
        ("innodb_only", 400_000, False, "0.50 pages"),
        ("cache_only", 800, True, "0.00 pages"),
        ("cache_only", 2_400_000, False, "3.00 pages"),
        ("caching", 1_200_000, True, "1.50 pages"),
    ],
)
def test_hits_come_from_where_the_policy_says(policy: str, pages: float, holds: bool, words: str) -> None:
    evidence = sources_of_hits("memcached", policies(policy), counted_step(counters(pages)), [])
    assert evidence.holds == holds
    assert words in evidence.text
    assert "800,000 of 900,000 gets found their key (88.9%)" in evidence.text


@pytest.mark.parametrize(
    ("policy", "rows", "holds", "words"),
    [
        ("innodb_only", 99_999, True, "100.0% of 100,000 sets went to the table"),
        ("caching", 49_999, False, "50.0% of 100,000 sets"),
        ("cache_only", 0, True, "0.0% of 100,000 sets"),
        ("cache_only", 99_999, False, "100.0% of 100,000 sets"),
    ],
)
def test_sets_go_where_the_policy_says(policy: str, rows: float, holds: bool, words: str) -> None:
    pages = 0 if policy == "cache_only" else 1e7
    evidence = sources_of_hits("memcached", policies(policy), counted_step(counters(pages, rows, 100_000)), [])
    assert evidence.holds == holds
    assert words in evidence.text


def test_memory_and_evictions_are_told_beside_the_hits() -> None:
    at = [(0.5, 50e6), (1.5, 100e6), (2.5, 103e6), (3.9, 500e6)]
    samples = [Sample(int(s * SECOND_NS), "instance:1", "server_rss_bytes", value) for s, value in at]
    evidence = sources_of_hits("memcached", None, counted_step(counters(0, evictions=17)), samples)
    assert evidence.text.endswith("17 items were evicted; resident memory grew by 3.0 MB")
    assert evidence.facts["server_rss_growth_bytes_per_million_gets"] == 30e6
    assert evidence.holds
    assert "InnoDB" not in evidence.text
