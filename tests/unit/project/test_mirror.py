"""The copy of the engine that tests are compiled from: what is the same keeps its time, everything else is new."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.mirror import files, mirror

OLD_NS = 1_000_000_000


def made(folder: Path, texts: dict[str, str]) -> Path:
    """A folder with these files, all of the same old time."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(OLD_NS, OLD_NS))
    return folder


def test_files_with_the_same_text_keep_their_time_and_others_are_new(tmp_path: Path) -> None:
    copy = made(tmp_path / "copy", {"a/same.rs": "1", "a/other.rs": "1", "gone/gone.rs": "1"})
    texts = {"a/same.rs": "1", "a/other.rs": "2", "b/added.rs": "1", "target/built": "1", "a/__pycache__/b.pyc": ""}
    checkout = made(tmp_path / "checkout", texts)
    (checkout / "b/added.rs").chmod(0o755)
    os.utime(checkout / "a/same.rs")
    mirror(checkout, copy)
    assert {str(name) for name in files(copy)} == {"a/same.rs", "a/other.rs", "b/added.rs"}
    assert (copy / "a/other.rs").read_text() == "2"
    old = {str(name) for name in files(copy) if (copy / name).stat().st_mtime_ns == OLD_NS}
    assert old == {"a/same.rs"}, "also what changed to a text with an older time is newer than what was built"
    assert (copy / "b/added.rs").stat().st_mode & 0o111


def test_a_copy_is_made_where_there_is_none(tmp_path: Path) -> None:
    mirror(made(tmp_path / "checkout", {"a/b.rs": "1"}), tmp_path / "some/copy")
    assert (tmp_path / "some/copy/a/b.rs").read_text() == "1"
