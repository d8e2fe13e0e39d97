from __future__ import annotations

from pathlib import Path

from mydyno.model.stored.live import LiveNote, LiveOpened, live_line, parse_live
from mydyno.store.logs import LIVE_FILE, LiveLog, read_last_lines, read_live

OPENED = LiveOpened(
    unix_ns=1, study="s", pid=2, start_ticks=3, boot_id="b", pid_namespace="p", hostname="h", design="blocks"
)


def note(number: int) -> LiveNote:
    return LiveNote(unix_ns=number, text=f"note {number} …")


def test_a_record_is_the_same_after_it_was_written() -> None:
    assert parse_live(live_line(OPENED)) == OPENED
    assert live_line(OPENED).startswith('{"record":"opened","format":1,')
    assert parse_live(live_line(note(1))) == note(1)


def test_what_is_cut_short_or_of_a_newer_format_is_no_record() -> None:
    assert parse_live(live_line(OPENED)[:-5]) is None
    assert parse_live('{"record": "of a newer mydyno"}') is None
    assert parse_live(live_line(OPENED.model_copy(update={"format": 99}))) is None


def test_reading_goes_on_where_it_ended_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / LIVE_FILE
    log = LiveLog(tmp_path)
    log.append(note(1))
    first = read_live(path)
    log.append(note(2))
    with path.open("a") as file:
        file.write('{"record":"no')
    second = read_live(path, first[-1].end)
    assert [line.record for line in (*first, *second)] == [note(1), note(2)]
    with path.open("a") as file:
        file.write('te","unix_ns":3,"text":"note 3 …"}\n')
    assert [line.record for line in read_live(path, second[-1].end)] == [note(3)]
    log.close()


def test_a_limit_of_bytes_never_cuts_a_line(tmp_path: Path) -> None:
    log = LiveLog(tmp_path)
    for number in range(50):
        log.append(note(number))
    log.close()
    offset, found = 0, []
    while lines := read_live(tmp_path / LIVE_FILE, offset, 10):
        found += [line.record for line in lines]
        offset = lines[-1].end
    assert found == [note(number) for number in range(50)]
    last = [line.record for line in read_last_lines(tmp_path / LIVE_FILE, 200)]
    assert last == found[-len(last) :] and 2 <= len(last) < 10


def test_an_absent_file_has_no_lines(tmp_path: Path) -> None:
    assert read_live(tmp_path / LIVE_FILE) == read_last_lines(tmp_path / LIVE_FILE) == []
