"""Keeps a copy of a folder, in which only files that differ are written: `python mirror.py FOLDER COPY`.

Cargo compares times alone. What it compiles from such a copy stays compiled for every checkout with the same text, and
is compiled again for every other text, whatever the times of the files in the checkout.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

BUILT = ("target", "__pycache__")


def mirror(folder: Path, copy: Path) -> None:
    """Make the copy's files the same as the folder's, without those that are built there."""
    wanted = files(folder)
    for gone in files(copy) - wanted:
        (copy / gone).unlink()
    for name in sorted(wanted):
        old, new = copy / name, folder / name
        if not old.is_file() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(new, old)
        if old.stat().st_mode != new.stat().st_mode:
            old.chmod(new.stat().st_mode)


def files(folder: Path) -> set[Path]:
    """Their paths in the folder."""
    found = set()
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in BUILT]
        found |= {Path(path, name).relative_to(folder) for name in names}
    return found


if __name__ == "__main__":
    mirror(Path(sys.argv[1]), Path(sys.argv[2]))
