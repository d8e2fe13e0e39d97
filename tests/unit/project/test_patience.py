"""A wait is bounded by what the host could give: whole seconds where it is idle, fewer where it is busy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import MOST, Patience, Reading, ended, wait_until


def host(stolen: float = 0.0, waited: float = 0.0) -> Iterator[Reading]:
    """A reading a second, of a host with these shares of time."""
    for second in range(10_000):
        yield Reading(100.0 + second, 50.0 + second * (1 - stolen), 7.0 + second * waited)


def seconds_of(cpu_s: float, stolen: float = 0.0, waited: float = 0.0) -> int:
    """How many seconds of the clock the patience lasts there."""
    readings = host(stolen, waited)
    patience = Patience(cpu_s, lambda: next(readings))
    return next(second for second in range(1, 10_000) if patience.expired)


@pytest.mark.parametrize(
    ("stolen", "waited", "seconds"),
    [(0.0, 0.0, 8), (0.5, 0.0, 16), (0.0, 1.0, 16), (0.75, 0.0, 32), (0.5, 1.0, 32), (0.0, 0.5, 11)],
)
def test_a_busy_host_is_waited_for_longer(stolen: float, waited: float, seconds: int) -> None:
    assert seconds_of(8, stolen, waited) == seconds


def test_the_clock_ends_every_wait() -> None:
    assert seconds_of(8, stolen=1.0) == 8 * MOST


def test_counters_that_go_back_or_jump_are_worth_no_more_than_the_clock() -> None:
    readings = iter([Reading(0, 10, 10), Reading(1, 5, 5), Reading(2, 500, 5), Reading(3, 501, 500)])
    patience = Patience(8, lambda: next(readings))
    assert [patience.left_s(), patience.left_s(), patience.left_s()] == [8, 7, 6.5]


def test_the_counters_are_those_of_proc(tmp_path: Path) -> None:
    missing = Reading.of_host(tmp_path)
    assert (missing.not_stolen_s, missing.waited_s) == (missing.clock_s, 0.0)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some avg10=1.00 avg60=1.00 avg300=1.00 total=2500000\nfull total=9\n")
    (tmp_path / "stat").write_text("cpu  100 200 300 400 500 600 700 99999 100 200\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    read = Reading.of_host(tmp_path)
    assert read.waited_s == 2.5
    (tmp_path / "stat").write_text("cpu  100 200 300 400 500 600 700 0 0 0\n")
    assert read.not_stolen_s == Reading.of_host(tmp_path).not_stolen_s > 0


def test_a_host_that_runs_this_test_gives_time() -> None:
    patience = Patience(0.05)
    assert wait_until(lambda: patience.expired, 60, 0.001)


def test_a_process_that_does_not_end_is_killed_and_named() -> None:
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(AssertionError, match=r"the sleeper did not end within 0 s and was killed"):
        ended(process, "the sleeper", 0.01)
    assert process.returncode == -9
    assert ended(subprocess.Popen(["true"]), "true") == 0
