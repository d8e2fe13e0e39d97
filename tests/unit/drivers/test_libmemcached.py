"""Real outputs of memaslap and memslap (tests/support/data; libmemcached 1.1.4), read into numbers, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.drivers import libmemcached
from mydyno.drivers.base import ChildCpu, CompletedProgram
from mydyno.drivers.libmemcached import WORDS_OF_FAILURE, Memaslap, Memslap, Report, parse
from mydyno.errors import DriverError
from mydyno.model.definition.experiment import DataSpec, Step
from tests.support import DATA

"""memaslap: -t 3s -T 1 -c 8 -S 1s -o 0.2. memslap: --concurrency=4 --execute-number=2000."""


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


def step(workload: str, warmup_s: float = 1, measure_s: float = 2, connections: int = 8, **options: Any) -> Step:
    return Step(
        id=f"{workload}-{connections}", workload=workload, connections=connections, warmup_s=warmup_s,
        measure_s=measure_s, driver="memaslap", options=options,
    )  # fmt: skip


def report() -> Report:
    found = parse(recorded("memaslap"))
    assert found is not None
    return found


def test_memaslaps_seconds_are_read_behind_the_codes_that_clear_the_screen() -> None:
    found = report()
    assert [second.t_s for second in found.seconds["Total"]] == [1, 2, 3]
    assert [second.ops for second in found.seconds["Total"]] == [38384, 64265, 59083]
    assert [second.ops for second in found.seconds["Get"]] == [34541, 57839, 53176]
    assert found.counts == {
        "cmd_get": 145571, "cmd_set": 16177, "get_misses": 0, "written_bytes": 28064995, "read_bytes": 161704346,
        "object_bytes": 17600576,
    }  # fmt: skip
    assert found.run_s == 3.0


def test_memaslaps_distribution_is_of_all_operations() -> None:
    found = report()
    assert sum(count for _, count in found.log2_us) == 161740
    assert found.log2_us[0] == (16.0, 6412)
    assert found.log2_us[12] == (65536.0, 8), "the longest took 49,861 µs"
    expected = {"min_us": 11, "max_us": 49861, "mean_us": 148, "geometric_mean_us": 101.79, "std_us": 518.86}
    assert found.spread_us == expected


def test_memaslaps_result_is_of_the_seconds_behind_the_warm_up() -> None:
    result = libmemcached.result_of_memaslap(report(), step("kv_mixed"), "1.1.4-1", ("memcaslap",))
    assert result.transactions == 64265 + 59083
    assert result.duration_s == 2
    assert result.latency_us["max"] == 8866
    assert result.latency_us["mean"] == pytest.approx((124 * 64265 + 135 * 59083) / (64265 + 59083))
    assert set(result.latency_us) == {"mean", "min", "max"}, "it prints no percentiles"
    assert result.whole["cmd_get"] == 145571
    assert result.whole["get_misses"] == 0
    assert CompletedProgram(0, 1_000_000_000, ChildCpu(1.0, 2.0)).with_cpu(result).cpu_system_s == 2.0
    with pytest.raises(DriverError, match="not one operation"):
        libmemcached.result_of_memaslap(report(), step("kv_mixed", warmup_s=3), "1", ())


def test_memaslaps_seconds_become_samples() -> None:
    samples = libmemcached.readings_of(report(), 1_000_000_000)
    ops = [(sample.unix_ns, sample.value) for sample in samples if sample.metric == "ops"]
    assert ops == [(2_000_000_000, 38384.0), (3_000_000_000, 64265.0), (4_000_000_000, 59083.0)]
    assert {sample.value for sample in samples if sample.metric == "kv_hit_pct"} == {100.0}


def test_misses_are_of_the_window_alone() -> None:
    text = recorded("memaslap").replace(
        "57839        57839        60.0       0 ", "57839        57839        60.0       839 "
    )
    found = parse(text)
    assert found is not None
    result = libmemcached.result_of_memaslap(found, step("kv_mixed"), "1", ())
    assert (result.key_values["get_misses"], result.key_values["get_hits"]) == (839, 57839 + 53176 - 839)


@pytest.mark.parametrize("cut", ["Run time:", "cmd_set:"])
def test_a_memaslap_that_did_not_end_has_no_report(cut: str) -> None:
    text = recorded("memaslap")
    assert parse(text[: text.index(cut)]) is None


def test_memslaps_time_is_of_its_own_operations() -> None:
    asked = step("kv_set", 0, connections=4, execute_number=2000)
    result = libmemcached.result_of_memslap(recorded("memslap-set"), asked, "1.1.4-1", ("memcslap",))
    assert result.errors == 0
    assert (result.queries, result.duration_s) == (8000, 0.231)
    assert result.latency_us == {"mean": pytest.approx(0.231e6 * 4 / 8000)}
    assert result.whole["cmd_set"] == 8000


def test_memslaps_gets_must_all_have_found_their_key() -> None:
    result = libmemcached.result_of_memslap(
        recorded("memslap-get"), step("kv_get", 0, connections=4), "1.1.4-1", ("memcslap",)
    )
    assert result.whole == {
        "transactions": 8000, "cmd_get": 8000, "cmd_set": 2000, "get_hits": 8000, "get_misses": 0,
    }  # fmt: skip


def test_sets_that_the_server_refused_are_memslaps_errors() -> None:
    text = recorded("memslap-set").replace("8000 keys", "7570 keys")
    asked = step("kv_set", 0, connections=4, execute_number=2000)
    result = libmemcached.result_of_memslap(text, asked, "1.1.4-1", ("memcslap",))
    assert (result.errors, result.transactions, result.whole["cmd_set"]) == (430, 7570, 7570)


def test_a_memslap_that_lies_about_its_time_is_refused() -> None:
    with pytest.raises(DriverError, match=r"took 0\.2 s, measure is 0\.1 s"):
        libmemcached.result_of_memslap(recorded("memslap-set"), step("kv_set", 0, 0.1), "1", ())
    with pytest.raises(DriverError, match="printed no time"):
        libmemcached.result_of_memslap(recorded("memslap-set"), step("kv_get", 0), "1", ())
    with pytest.raises(DriverError, match="printed no time"):
        libmemcached.result_of_memslap("", step("kv_set", 0), "1", ())


@pytest.mark.parametrize(
    "words",
    ["<11 SERVER_ERROR out of memory", "Can't connect to 127.0.0.1", "io.cc:548: assertion failed", "ERROR\n"],
)
def test_words_of_failure_are_no_result(words: str) -> None:
    assert WORDS_OF_FAILURE.search(words)
    assert not any(WORDS_OF_FAILURE.search(recorded(name)) for name in ("memaslap", "memslap-set", "memslap-get"))


def test_what_the_programs_cannot_do_is_refused_before_anything_starts() -> None:
    assert Memaslap().check(step("kv_mixed", threads=4, overwrite=0.2)) == []
    (threads,) = Memaslap().check(step("kv_mixed", connections=9, threads=4))
    assert "is not a multiple of memaslap's 4 threads" in threads
    (option,) = Memaslap().check(step("kv_mixed", hit_ratio="90%"))
    assert option == "options.hit_ratio: memaslap has no such option"
    (seconds,) = Memaslap().check(step("kv_mixed", warmup_s=0.5))
    assert "whole seconds" in seconds
    assert Memslap().check(step("kv_get", 0, execute_number=10)) == []
    (warmup,) = Memslap().check(step("kv_get"))
    assert warmup == 'memslap has no warm-up; set warmup = "0s"'


def test_data_that_do_not_suit_the_programs_are_refused() -> None:
    fitting = DataSpec(workload="kv")
    assert Memaslap().data_obstacle(fitting) is None
    assert Memslap().data_obstacle(fitting) is None
    assert "data.key_bytes = 64" in str(Memaslap().data_obstacle(DataSpec(workload="kv", key_bytes=100)))
    assert "data.value_bytes = 400" in str(Memslap().data_obstacle(DataSpec(workload="kv", value_bytes=100)))
