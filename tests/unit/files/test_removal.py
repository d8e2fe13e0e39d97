"""What a stranger's server left is removed, however deep it is."""

from __future__ import annotations

import os
from pathlib import Path

from mydyno.files.atomic import remove_tree


def test_folders_deeper_than_pythons_recursion_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("kept")
    top = tmp_path / "server"
    (top / ".0").mkdir(parents=True)
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):  # a path much longer than PATH_MAX, too
        os.mkdir("a", dir_fd=here)
        os.symlink(tmp_path / "kept", "link", dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(top)
    assert not top.exists()
    assert (tmp_path / "kept/file").read_text() == "kept"
    remove_tree(top)
