"""A test names the failpoints of a study after which the program stops itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mydyno.failpoints import STOP_AT, failpoint
from mydyno.hosts.local import LocalHost
from mydyno.store.logs import Journal


def reached(*names: str) -> list[tuple[int, int]]:
    """The signals that these failpoints send."""
    sent: list[tuple[int, int]] = []
    for name in names:
        failpoint(name, lambda pid, number: sent.append((pid, number)))
    return sent


def test_it_stops_at_the_last_of_the_failpoints_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STOP_AT, "run_began,start cp,run_began")
    assert reached("start cp", "run_began", "run_began", "other", "start cp") == []
    assert reached("run_began") == [(os.getpid(), signal.SIGSTOP)]
    assert reached("run_began") == [], "once"


def test_it_never_stops_where_no_test_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STOP_AT, raising=False)
    assert reached("", "run_began") == []


async def test_events_of_the_journal_and_programs_are_failpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(STOP_AT, "run_began,start sleep,end sleep,never")
    Journal(tmp_path / "journal.jsonl").append("run_began")
    process = await LocalHost("test", None).start(["/usr/bin/sleep", "60"])
    assert os.environ[STOP_AT] == "end sleep,never"
    await process.end(60)
    assert os.environ[STOP_AT] == "never"
