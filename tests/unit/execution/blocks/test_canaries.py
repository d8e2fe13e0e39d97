"""A host whose speed is outside its usual range before a block is waited for, by the canary alone; all is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from pathlib import Path

import pytest

from mydyno.execution.blocks.canaries import ATTEMPTS, before_block, out_of_line
from mydyno.hosts.canary import READINGS, read_canary
from mydyno.store.study_folder import StudyFolder


class StudyEnvironment:
    def __init__(self, *cpu: float) -> None:
        self.left: Iterator[float] = iter(cpu)

    async def canary(self) -> dict[str, float]:
        return {"cpu_bytes_per_s": next(self.left)}


async def kept(folder: Path, blocks: int, *cpu: float) -> tuple[list[tuple[int, int, bool]], list[str]]:
    """((block, attempt, whether out of line) of each reading, what was said) of a study of so many blocks."""
    study, environment, said = StudyFolder(folder), StudyEnvironment(*cpu), list[str]()
    for block in range(1, blocks + 1):
        await before_block(environment, study, block, said.append, pause_s=0)  # type: ignore[arg-type]
    assert next(environment.left, None) is None, "every reading was taken"
    return [(event["block"], event["attempt"], bool(event["off"])) for event in study.journal.read()], said


async def test_a_slow_moment_is_waited_for(tmp_path: Path) -> None:
    read, said = await kept(tmp_path, 5, 100, 101, 99, 100, 60, 100.5)
    assert read == [(1, 1, False), (2, 1, False), (3, 1, False), (4, 1, False), (5, 1, True), (5, 2, False)]
    assert said == [
        "waiting 0 s because the host's speed is outside its usual range: "
        "CPUs: SHA-256 on all of them, -40% against the median of 4 readings"
    ]


async def test_after_some_readings_the_block_begins_all_the_same_and_that_is_said(tmp_path: Path) -> None:
    read, said = await kept(tmp_path, 5, 100, 101, 99, 100, *[60] * ATTEMPTS)
    assert read[-1] == (5, ATTEMPTS, True)
    assert said[-1].startswith("block 5 begins although the host's speed is outside its usual range")


async def test_a_host_that_became_another_is_the_usual_one_after_some_blocks(tmp_path: Path) -> None:
    read, _ = await kept(tmp_path, 6, 100, 101, 99, 100, *[60] * ATTEMPTS, 60.5)
    assert [off for block, _, off in read if block >= 5] == [True] * ATTEMPTS + [False]


def test_few_or_near_readings_are_never_out_of_line() -> None:
    def off(earlier: list[float | None], now: float) -> list[str]:
        found = out_of_line([{"fsyncs_per_s": value} for value in earlier], {"fsyncs_per_s": now})
        assert {one.reading for one in found} <= {"fsyncs_per_s"}
        return [one.text for one in found]

    assert off([100, 101], 10) == []
    assert off([100, 100, 100], 104) == []
    assert off([100, 100, 100], 106) == ["disk: 4 KB written and synced, +6% against the median of 3 readings"]
    assert off([100, None, 100, 100], 94) == ["disk: 4 KB written and synced, -6% against the median of 3 readings"]
    assert off([100, 100, 100], nan) == ["no reading of disk: 4 KB written and synced"]


@pytest.mark.slow
def test_this_host_is_read_and_nothing_is_left(tmp_path: Path) -> None:
    read = read_canary(tmp_path / "no-dynomem", tmp_path)
    assert read.keys() == READINGS.keys()
    assert read["cpu_bytes_per_s"] > 1e6
    assert read["fsyncs_per_s"] > 1
    assert read["loopback_bits_per_s"] > 1e6
    assert read["memory_bytes_per_s"] != read["memory_bytes_per_s"], "no program, no reading"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", READINGS)
def test_each_reading_has_a_short_name_for_tables(name: str) -> None:
    assert 0 < len(READINGS[name].label) < 10
