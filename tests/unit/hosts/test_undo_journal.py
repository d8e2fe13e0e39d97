"""The undo journal: whatever moment mydyno dies in, what it changed is found and undone; what lives is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.hosts import undo
from mydyno.hosts.identity import COOKIE, ProcessIdentity, end_all, processes_with_cookie
from mydyno.hosts.undo import UndoJournal, stale_journals
from mydyno.store.logs import Journal
from tests.support.disowned import disowned
from tests.support.full_disk import full_disk
from tests.support.patience import HANG_S


@pytest.fixture
def journal(tmp_path: Path) -> UndoJournal:
    return UndoJournal.begin(tmp_path / "undo", "study-1", tmp_path / "studies" / "study-1")


def test_changes_are_undone_newest_first_and_the_journal_goes(
    journal: UndoJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []
    monkeypatch.setitem(undo.UNDOERS, "folder", lambda facts, _: undone.append(facts["path"]))
    for name in "abc":
        journal.will_change("folder", path=name)
    assert journal.undo_all() == []
    assert undone == ["c", "b", "a"]
    assert not journal.path.exists()


def test_processes_are_ended_before_what_they_write_into_is_removed(
    journal: UndoJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []
    monkeypatch.setitem(undo.UNDOERS, "folder", lambda *_: undone.append("folder"))
    monkeypatch.setitem(undo.UNDOERS, "processes", lambda *_: undone.append("processes"))
    journal.will_change("processes", cookie="study-1")
    journal.will_change("folder", path="/x")
    journal.undo_all()
    assert undone == ["processes", "folder"]


def test_what_cannot_be_undone_stays_in_the_journal(journal: UndoJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(undo.UNDOERS, "folder", lambda facts, _: f"the folder {facts['path']}")
    journal.will_change("folder", path="/busy")
    assert journal.undo_all() == ["the folder /busy"]
    assert [entry.facts for entry in UndoJournal(journal.path).open_entries()] == [{"path": "/busy"}]


def test_what_was_taken_back_by_its_maker_is_not_undone_again(journal: UndoJournal) -> None:
    number = journal.will_change("folder", path="/x")
    journal.will_change("folder", path="/y")
    journal.undone(number)
    assert [entry.facts["path"] for entry in journal.open_entries()] == ["/y"]


def test_one_change_is_undone_at_once(journal: UndoJournal, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    number = journal.will_change("folder", path=str(folder))
    folder.mkdir()
    (folder / "file").touch()
    assert journal.undo(number) is None
    assert not folder.exists()
    assert journal.open_entries() == []
    assert journal.undo(number) is None


def test_a_change_written_down_but_never_made_is_undone_too(journal: UndoJournal, tmp_path: Path) -> None:
    journal.will_change("folder", path=str(tmp_path / "never-made"))
    assert journal.undo_all() == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_a_journal_cut_anywhere_still_undoes_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, share: int
) -> None:
    folder = tmp_path_factory.mktemp("undo")
    whole = UndoJournal.begin(folder, "study-1", folder)
    numbers = [whole.will_change("folder", path=f"/nowhere/{number}") for number in range(4)]
    whole.undone(numbers[1])
    content = whole.path.read_bytes()
    cut = len(content) * share // 10_000
    whole.path.write_bytes(content[:cut])
    lines = content[:cut].decode().splitlines()
    events = [json.loads(line) for line in lines if line.endswith("}") and _is_json(line)]
    changed = {event["number"] for event in events if event["event"] == "change"}
    changed -= {event["number"] for event in events if event["event"] == "undone"}
    again = UndoJournal(whole.path)
    assert {entry.number for entry in again.open_entries()} == changed
    number = again.will_change("folder", path="/nowhere/after")
    assert number not in changed
    assert {entry.number for entry in again.open_entries()} == {*changed, number}
    again.undo_all()
    whole.path.unlink(missing_ok=True)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def test_a_journal_of_a_living_study_is_not_stale(journal: UndoJournal) -> None:
    assert stale_journals(journal.path.parent) == []
    assert journal.owner() is not None


def test_a_journal_of_a_dead_study_is_stale(journal: UndoJournal) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    disowned(journal, process.pid)
    assert [stale.path for stale in stale_journals(journal.path.parent)] == [journal.path]


def test_a_pid_that_another_process_has_now_does_not_keep_a_journal_alive(journal: UndoJournal) -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    disowned(journal, own.pid, own.start_ticks - 1)
    assert len(stale_journals(journal.path.parent)) == 1
    disowned(journal, own.pid, own.start_ticks)
    assert stale_journals(journal.path.parent) == []


@pytest.mark.parametrize(
    ("facts", "is_stale"),
    [
        ({"boot_id": "another", "hostname": "another-node"}, False),
        ({"boot_id": "another"}, True),
        ({"hostname": "a-container-of-this-host"}, True),
        ({"boot_id": None, "hostname": None}, True),
    ],
    ids=["another host", "an older boot of this host", "another hostname in this boot", "older versions"],
)
def test_a_journal_of_another_host_that_shares_the_cache_is_left_alone(
    journal: UndoJournal, facts: dict[str, object], is_stale: bool
) -> None:
    disowned(journal, **facts)  # type: ignore[arg-type]
    assert [stale.path for stale in stale_journals(journal.path.parent)] == [journal.path] * is_stale


def test_a_study_in_another_container_of_this_host_lives_as_long_as_it_holds_its_journal(journal: UndoJournal) -> None:
    disowned(journal, 1, pid_namespace="pid:[1]")
    assert stale_journals(journal.path.parent) == []
    journal.release()
    assert len(stale_journals(journal.path.parent)) == 1


def test_a_journal_is_never_seen_without_its_owner(tmp_path: Path) -> None:
    ended = threading.Event()

    def look() -> list[str]:
        found: list[str] = []
        while not ended.is_set():
            found += [one.path.name for one in stale_journals(tmp_path)]
        return found

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for number in range(50):
            UndoJournal.begin(tmp_path, f"study-{number}", tmp_path).path.unlink()
        ended.set()
        assert looking.result(HANG_S) == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_study_left_and_cannot_be_undone_is_said(
    journal: UndoJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        undo.UNDOERS, "folder", lambda facts, _: "the folder /busy" if facts["path"] == "/busy" else None
    )
    for path in ("/busy", "/free"):
        journal.will_change("folder", path=path)
    disowned(journal, boot_id="another")
    said: list[str] = []
    undo.clean_up(journal.path.parent, said.append)
    assert said == [
        "cleaned up after study-1: 1 entries undone",
        "study-1 was killed, and this could not be undone: the folder /busy",
    ]


def test_after_a_restart_another_process_does_not_keep_a_journal_alive(journal: UndoJournal) -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    disowned(journal, own.pid, own.start_ticks, boot_id="another")
    assert len(stale_journals(journal.path.parent)) == 1


def test_a_journal_cut_before_its_first_line_is_stale(tmp_path: Path) -> None:
    (tmp_path / "x.1.jsonl").write_text('{"event": "owner", "pi')
    assert [stale.owner() for stale in stale_journals(tmp_path)] == [None]


def test_processes_of_a_study_are_found_by_their_cookie_and_ended() -> None:
    environment = {**os.environ, COOKIE: "study-of-this-test"}
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        found = processes_with_cookie("study-of-this-test")
        assert [one.pid for one in found] == [process.pid]
        assert processes_with_cookie("study-of-this") == []
        assert end_all(found, grace_s=0.1) == []
        assert process.wait(HANG_S) == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()


def test_the_journal_ends_the_processes_of_its_study(journal: UndoJournal) -> None:
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, COOKIE: "study-of-the-journal"})
    try:
        journal.will_change("processes", cookie="study-of-the-journal")
        assert journal.undo_all() == []
        assert process.wait(HANG_S) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def test_a_signal_never_reaches_another_process_of_the_same_pid() -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert not ProcessIdentity(own.pid, own.start_ticks + 1).send(signal.SIGKILL)
    assert not ProcessIdentity(2**22 + 1, 0).send(signal.SIGKILL)


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen(["true"])
    identity = ProcessIdentity.of(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ProcessIdentity.of(process.pid) is None
    assert identity is None or not identity.alive()
    process.wait()


def test_events_are_appended_whole_and_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.read() == []
    journal.append("first", name="Zürich")
    journal.append("second")
    assert [(event["event"], event.get("name")) for event in journal.read()] == [("first", "Zürich"), ("second", None)]
    assert all(event["unix_ns"] > 0 for event in journal.read())


@pytest.mark.parametrize("tail", [b'{"event": "cu', b"\xff\xfe", b"5", b'{"event": "x"}garbage'])
def test_a_line_cut_short_does_not_swallow_the_next(tmp_path: Path, tail: bytes) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("before")
    with journal.path.open("ab") as file:
        file.write(tail)
    journal.append("after")
    assert [event["event"] for event in journal.read()] == ["before", "after"]


def test_a_change_whose_line_fits_on_the_disk_in_part_is_an_error(journal: UndoJournal) -> None:
    with full_disk(journal.path.stat().st_size + 20), pytest.raises(OSError, match="too large"):
        journal.will_change("folder", path="/x")


def test_a_full_disk_does_not_stop_the_undoing(journal: UndoJournal, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        journal.will_change("folder", path=str(folder))
        folder.mkdir()

    with full_disk(journal.path.stat().st_size), pytest.raises(OSError, match="too large"):
        journal.undone(1)
    with full_disk(journal.path.stat().st_size):
        assert journal.undo_all() == []
    assert not any(folder.exists() for folder in folders)
