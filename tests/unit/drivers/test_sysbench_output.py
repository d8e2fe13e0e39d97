"""Real sysbench 1.0.20 outputs (tests/support/data), read into numbers or into its own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mydyno.drivers import sysbench as output
from mydyno.drivers.sysbench import Sysbench, _Reader
from mydyno.errors import DriverError
from mydyno.execution.validity import step_warnings
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import DriverResult
from mydyno.servers.sql import Address
from tests.support import DATA


def recorded(name: str) -> str:
    return (DATA / f"sysbench-{name}.txt").read_text()


def step(warmup_s: float, measure_s: float) -> Step:
    return Step(
        id="oltp_read_write-2",
        workload="oltp_read_write",
        connections=2,
        warmup_s=warmup_s,
        measure_s=measure_s,
        driver="sysbench",
    )


class Known(Sysbench):
    """sysbench whose version is known without getting it."""

    @property
    def version(self) -> str:
        return "1.0.20+ds-5"


def result(name: str, warmup_s: float, measure_s: float, exit_code: int = 0) -> DriverResult:
    return Known()._result(
        ["sysbench", "--config-file=/secret", "x.lua", "run"], step(warmup_s, measure_s), exit_code, recorded(name)
    )


def test_a_checkpoint_separates_the_warm_up_from_the_window() -> None:
    found = result("checkpoint", 2, 3)
    assert (found.transactions, found.queries, found.ignored_errors, found.reconnects) == (2473, 50229, 49, 0)
    assert (found.queries_read, found.queries_write, found.queries_other) == (35282, 9954, 4993)
    assert found.duration_s == pytest.approx(3.0171)
    assert found.whole == {"transactions": 4774, "read": 68068, "write": 19211, "other": 9636}


def test_latency_and_histogram_are_of_the_window_alone() -> None:
    found = result("checkpoint", 2, 3)
    assert sum(count for _, count in found.latency_histogram_us) == found.transactions
    assert (found.latency_us["min"], found.latency_us["mean"], found.latency_us["max"]) == (550.0, 2430.0, 91400.0)
    assert found.latency_us["p99"] == pytest.approx(14210, rel=0.02), "sysbench's own 99th percentile is 14.21 ms"
    assert found.latency_us["p50"] < found.latency_us["p95"] < found.latency_us["p99"] <= found.latency_us["p999"]


def test_without_warm_up_there_is_one_report() -> None:
    found = result("no-warmup", 0, 2)
    assert found.transactions == sum(count for _, count in found.latency_histogram_us)
    assert found.queries_write == 0
    assert found.whole["read"] == found.queries_read


def test_ignored_errors_are_counted_of_the_window() -> None:
    reports = output.parse_reports(recorded("ignored-errors"))
    assert len(reports) == 2
    assert result("ignored-errors", 1, 3).ignored_errors == reports[1].counts["ignored_errors"] > 0
    assert reports[0].counts["ignored_errors"] == 233


def test_the_command_keeps_no_file_with_a_password() -> None:
    assert result("checkpoint", 2, 3).command == ("sysbench", "x.lua", "run")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong-password", "error 1045: Access denied for user 'dyno'@'localhost' (using password: YES)"),
        ("no-server", "error 2002: Can't connect to local server through socket"),
        ("unknown-table", "MySQL error: 1146 \"Table 'sbtest.sbtest2' doesn't exist\""),
        ("server-killed", "returned error 2013 (Lost connection to server during query)"),
    ],
)
@pytest.mark.parametrize("exit_code", [1, 0])
def test_a_failure_is_told_in_sysbenchs_own_words_and_never_gives_numbers(
    name: str, words: str, exit_code: int
) -> None:
    with pytest.raises(DriverError) as error:
        result(name, 0, 2, exit_code)
    assert words in error.value.message
    assert f"failed with exit code {exit_code}" in error.value.message


def test_an_output_cut_short_gives_no_numbers() -> None:
    text = recorded("checkpoint")
    for length in range(0, text.rindex("reconnects:"), 997):
        with pytest.raises(DriverError):
            Known()._result(["sysbench"], step(2, 3), 0, text[:length])


def test_a_window_without_a_transaction_gives_no_numbers() -> None:
    text = recorded("no-warmup")
    counted = output.parse_reports(text)[0].counts["transactions"]
    with pytest.raises(DriverError, match="finished no transaction"):
        none = text.replace(f"transactions:                        {counted}", f"transactions:{' ' * 24}0")
        Known()._result(["sysbench"], step(0, 2), 0, none)


def test_each_second_is_read() -> None:
    line = next(line for line in recorded("checkpoint").splitlines() if line.startswith("[ 1s ] thds"))
    assert output.parse_interval(line) == output.Interval(1, 1231.52, 24894.14, 7.17, 99, 13.98, 0.0)
    assert output.parse_interval("[ 1s ] Checkpoint report:") is None
    assert output.parse_interval("") is None


def test_a_latency_that_a_checkpoint_swallowed_is_absent_and_not_zero(tmp_path: Path) -> None:
    reader = _Reader(tmp_path / "log", lambda _progress: None)
    for line in recorded("ignored-errors").splitlines():
        interval = output.parse_interval(line)
        if interval is not None:
            reader._take(interval)
    latencies = [sample for sample in reader.readings if sample.metric == "latency_p99_us"]
    rates = [sample for sample in reader.readings if sample.metric == "qps"]
    assert (len(rates), len(latencies)) == (4, 3)
    assert all(sample.value > 0 for sample in latencies)
    assert [round((sample.unix_ns - reader.started_unix_ns) / 1e9) for sample in rates] == [1, 2, 3, 4]


def test_a_watcher_that_fails_does_not_end_the_measurement(tmp_path: Path) -> None:
    def broken(_progress: object) -> None:
        raise RuntimeError("the terminal is gone")

    reader = _Reader(tmp_path / "log", broken)
    reader._take(output.Interval(1, 1.0, 16.0, 2.0, 99, 0.0, 0.0))
    assert reader.readings


def test_percentiles_are_bounds_of_buckets() -> None:
    histogram = [(1.0, 50), (2.0, 49), (10.0, 1)]
    assert [output.percentile(histogram, share) for share in (0.0, 0.5, 0.51, 0.99, 0.999, 1.0)] == [1, 1, 2, 2, 10, 10]
    with pytest.raises(ValueError, match="empty"):
        output.percentile([], 0.5)


def test_fatal_words_are_told_once_each_and_at_most_five() -> None:
    assert output.fatal_words("FATAL: a\nFATAL: a\nfine\n") == ["FATAL: a"]
    assert len(output.fatal_words("".join(f"FATAL: {i}\n" for i in range(9)))) == 5
    assert output.fatal_words(recorded("checkpoint")) == []


@pytest.mark.parametrize(
    ("warmup_s", "measure_s", "words"),
    [(0.5, 2, "warmup = 0.5 s: sysbench counts in whole seconds"), (0, 0.5, "measure must be at least 1 s")],
)
def test_what_sysbench_cannot_time_is_told_before_the_start(warmup_s: float, measure_s: float, words: str) -> None:
    assert any(words in problem for problem in Sysbench().check(step(warmup_s, measure_s)))
    assert Sysbench().check(step(2, 3)) == []


def test_other_statements_of_a_workload_of_single_writes_changed_no_row() -> None:
    deletes = step(2, 3).model_copy(update={"workload": "oltp_delete"})
    found = Known()._result(["sysbench"], deletes, 0, recorded("checkpoint"))
    assert found.whole["unchanged"] == found.whole["other"] == 9636
    words = "33% of the writes changed no row: they met none, or the value was there already"
    assert step_warnings(deletes, found) == (words,)
    assert step_warnings(deletes, result("checkpoint", 2, 3)) == ()


def value_of(line: str) -> str:
    """The first value of a line of a config file, as sysbench's read_config() splits it."""
    text = line.lstrip()
    if text.startswith("#"):
        return ""
    if text.startswith(("'", '"')):
        return text[1:].partition(text[0])[0]
    return re.split(r"[,\s]", text)[0]


@pytest.mark.parametrize("password", ["plain", "a,b c", "#1", "'quoted'", 'say "x"', "a'b=c", "ü", "x" * 236, ""])
def test_sysbench_reads_the_password_and_the_place_as_they_are(tmp_path: Path, password: str) -> None:
    driver = Sysbench()
    for place in ({"socket": "/run/a b,c/s.sock"}, {"host": "db", "port": 3307}):
        file = driver._config_file(Address("dyno", password.encode(), **place), tmp_path)  # type: ignore[arg-type]
        lines = file.read_text().splitlines()
        assert all(len(line.encode()) < 255 for line in lines)
        found = {name: value_of(value) for name, _, value in (line.partition("=") for line in lines)}
        assert found["mysql-password"] == password
        assert {f"mysql-{name}": str(value) for name, value in place.items()}.items() <= found.items()


@pytest.mark.parametrize("password", ["both ' and \"", "x" * 240, "two\nlines"])
def test_a_password_that_sysbench_cannot_read_is_refused(tmp_path: Path, password: str) -> None:
    with pytest.raises(DriverError, match="cannot read a password"):
        Sysbench()._config_file(Address("dyno", password.encode(), host="db"), tmp_path)
