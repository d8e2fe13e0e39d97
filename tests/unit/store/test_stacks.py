"""Folded stacks in a study's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.store.samples import read_stacks, stacks_file, write_stacks

STACKS = {("libc.so.6`clone3", "mysqld`work"): 12, ("libc.so.6`clone3",): 1}


def test_stacks_are_read_back_and_the_same_stacks_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / stacks_file("a-4"), tmp_path / "b.folded.gz"
    write_stacks(first, STACKS)
    write_stacks(second, dict(reversed(STACKS.items())))
    assert read_stacks(first) == STACKS
    assert first.read_bytes() == second.read_bytes()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.folded.gz"
    write_stacks(path, STACKS)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(UserError, match=r"x\.folded\.gz cannot be read"):
        read_stacks(path)
