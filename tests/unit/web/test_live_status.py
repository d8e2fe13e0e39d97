from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.stored.live import LiveEnded, LiveNote, LiveOpened, live_line
from mydyno.store.logs import LIVE_FILE
from mydyno.web.index import LiveKind, last_opened, live_status, stop_study
from mydyno.web.pages.live import live_events


def opened(**changes: object) -> LiveOpened:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    return LiveOpened(
        unix_ns=1, study="one", pid=own.pid, start_ticks=own.start_ticks, boot_id=boot_id(),
        pid_namespace=pid_namespace(), hostname="bench-1", design="blocks",
    ).model_copy(update=changes)  # fmt: skip


def written(folder: Path, *lines: object) -> Path:
    (folder / LIVE_FILE).write_text("".join(one if isinstance(one, str) else live_line(one) for one in lines))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "running"),
        ({"start_ticks": 1}, "killed"),
        ({"pid": 1 << 30}, "killed"),
        ({"boot_id": "of another host"}, "elsewhere"),
        ({"pid_namespace": "pid:[1]"}, "elsewhere"),
    ],
)
def test_a_study_runs_if_its_very_process_does(tmp_path: Path, changes: dict[str, object], kind: LiveKind) -> None:
    study = written(tmp_path, opened(**changes))
    with (study / LIVE_FILE).open("ab"):  # as the study does while it runs
        status = live_status(study)
    assert status.kind == kind
    assert bool(status.words) == (kind == "killed")


def test_a_copy_of_a_running_study_does_not_run(tmp_path: Path) -> None:
    for name in ("own", "copy"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, opened())
    with (tmp_path / "own" / LIVE_FILE).open("ab"):
        assert live_status(tmp_path / "own").kind == "running"
        status = live_status(tmp_path / "copy")
        first = asyncio.run(first_of_process(tmp_path / "copy"))
    assert status.kind == "copied" and f"process {os.getpid()} writes another one" in status.words
    assert first == {"kind": "copied", "words": status.words}, "also to whoever listens"


async def test_the_stream_ends_with_the_study(tmp_path: Path) -> None:
    study = written(tmp_path, opened(), LiveEnded(unix_ns=2, state="complete"))
    async with asyncio.timeout(60):
        events = [one.decode() async for one in live_events(study, 0)]
    assert ["event: line" in one for one in events] == [True, True, False]
    assert '"kind": "ended"' in events[-1], "the page closes its connection at this"


async def first_of_process(study: Path) -> object:
    async with aclosing(live_events(study, (study / LIVE_FILE).stat().st_size)) as events:
        text = (await anext(events)).decode()
    assert "event: process" in text
    return json.loads(next(line for line in text.splitlines() if line.startswith("data: "))[6:])


def test_a_study_whose_open_files_may_not_be_read_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = written(tmp_path, opened())

    def forbidden(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "iterdir", forbidden)
    assert live_status(study).kind == "running"
    assert "another user's" in stop_study(study), "but no signal is sent to its process"


def test_a_study_of_another_host_that_wrote_nothing_for_long_is_silent(tmp_path: Path) -> None:
    study = written(tmp_path, opened(boot_id="of another host"))
    os.utime(study / LIVE_FILE, (time.time() - 60, time.time() - 60))
    status = live_status(study)
    assert status.kind == "silent" and "bench-1" in status.words


def test_the_last_session_counts(tmp_path: Path) -> None:
    ended = LiveEnded(unix_ns=2, state="interrupted")
    assert live_status(written(tmp_path, opened(), ended)).kind == "ended"
    with (tmp_path / LIVE_FILE).open("ab"):
        assert live_status(written(tmp_path, opened(start_ticks=1), ended, opened(resumed=True))).kind == "running"
    trick = LiveNote(unix_ns=3, text='{"record":"opened"')
    study = written(tmp_path, opened(), trick, '{"record":"second","unix_')
    assert last_opened(study / LIVE_FILE) == opened()


@pytest.mark.parametrize("content", ["", "\n", "{", "\x00" * 100, '{"record":"opened","format":99}\n'])
def test_a_damaged_file_has_no_status(tmp_path: Path, content: str) -> None:
    study = written(tmp_path, content)
    assert live_status(study).kind == "none"
    assert stop_study(study) == "the study has no live.jsonl"


def test_a_process_of_another_host_is_not_sent_a_signal(tmp_path: Path) -> None:
    assert "was started on bench-1" in stop_study(written(tmp_path, opened(boot_id="of another host")))


def test_a_process_that_does_not_write_the_file_is_not_sent_a_signal(tmp_path: Path) -> None:
    assert "does not write" in stop_study(written(tmp_path, opened())), "or this test would end"
