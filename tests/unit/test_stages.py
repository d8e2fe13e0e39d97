"""A test names the stages of a study after which the program stops itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mydyno.files.journal import Journal
from mydyno.hosts.local import LocalHost
from mydyno.stages import STOP_AT, stage


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The processes that SIGSTOP was sent to; nothing is stopped."""
    found: list[tuple[int, int]] = []
    kill = os.kill

    def record(pid: int, number: int) -> None:
        if number != signal.SIGSTOP:
            kill(pid, number)
        else:
            found.append((pid, number))

    monkeypatch.setattr(os, "kill", record)
    return found


def test_it_stops_at_the_last_of_the_stages_in_their_order(
    stops: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STOP_AT, "run_began,start cp,run_began")
    for name in ("start cp", "run_began", "run_began", "other", "start cp"):
        stage(name)
        assert stops == []
    stage("run_began")
    assert stops == [(os.getpid(), signal.SIGSTOP)]
    stage("run_began")
    assert len(stops) == 1, "once"


def test_it_never_stops_where_no_test_wants_it(stops: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STOP_AT, raising=False)
    stage("")
    stage("run_began")
    assert stops == []


async def test_events_of_the_journal_and_programs_are_stages(
    stops: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(STOP_AT, "run_began,start sleep,end sleep")
    Journal(tmp_path / "journal.jsonl").append("run_began")
    process = await LocalHost("test", None).start(["/usr/bin/sleep", "60"])
    assert os.environ[STOP_AT] == "end sleep"
    await process.end(60)
    assert [number for _, number in stops] == [signal.SIGSTOP]
