"""Removing what a server left, which may be anything: a stranger's program makes folders as deep as it likes."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it is there, as far as this is permitted; nothing is followed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        _flatten(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path) -> None:
    """Move every folder that lies in another one to the top, until none has folders in it."""
    top = os.open(folder, _FOLDER)
    names = (f".{number}" for number in count() if not os.path.lexists(folder / f".{number}"))
    try:
        ahead = _folders_in(top)
        while ahead:
            inner = os.open(ahead.pop(), _FOLDER, dir_fd=top)
            try:
                for name in _folders_in(inner):
                    moved = next(names)
                    os.rename(name, moved, src_dir_fd=inner, dst_dir_fd=top)
                    ahead.append(moved)
            finally:
                os.close(inner)
    finally:
        os.close(top)


def _folders_in(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
