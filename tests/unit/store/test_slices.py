"""slices.jsonl: what is written is read back; a damaged line is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.model.stored.records import SliceRecord
from mydyno.store.samples import SLICES_FILE, read_slices, write_slices


def a_slice(cycle: int, **changes: object) -> SliceRecord:
    return SliceRecord.model_validate(
        {
            "block": 1,
            "step": "oltp_read_only-4",
            "cycle": cycle,
            "position": 2,
            "arm": "glibc",
            "copy": 2,
            "started_unix_ns": 1_800_000_000_000_000_000 + cycle,
            "length_s": 2.0,
        }
        | changes
    )


def test_slices_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "blocks" / "01" / SLICES_FILE
    slices = [
        a_slice(1, queries=4000, latency_us={"p99": 5.5}, histograms=("HISTFAAAA",), steal=0.0, driver_cpu_s=0.25),
        a_slice(2, failed="mariadbd ended with signal 9 (ünicode\nand a line break)"),
    ]
    write_slices(path, slices)
    assert read_slices(path) == slices
    assert len(path.read_text().splitlines()) == 2


def test_writing_again_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / SLICES_FILE
    write_slices(path, [a_slice(1), a_slice(2)])
    write_slices(path, [a_slice(3)])
    assert [one.cycle for one in read_slices(path)] == [3]


def test_an_absent_file_has_no_slices(tmp_path: Path) -> None:
    assert read_slices(tmp_path / SLICES_FILE) == []


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / SLICES_FILE
    write_slices(path, [a_slice(1), a_slice(2)])
    path.write_text(path.read_text()[:-40] + "\n")
    with pytest.raises(UserError, match="line 2"):
        read_slices(path)
