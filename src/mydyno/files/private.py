"""Files with passwords and folders for another user, made so that a link which that user put there is not followed.

A file is made new, written, and given away last, by its descriptor; so is a folder. What surrounds them must be the
present user's own (check_surroundings), or another user could exchange them afterwards. What a server left is removed
whatever it is: a stranger's program makes folders as deep as it likes.
"""

from __future__ import annotations

import os
import shutil
import stat
from itertools import count
from pathlib import Path

from mydyno.errors import HostError

Owner = tuple[int, int]
"""User and group id."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def new_file(path: Path, mode: int = 0o600) -> int:
    """A descriptor of a new file in the place of what is there, a link too. Raises HostError if another is quicker."""
    try:
        path.unlink(missing_ok=True)
        return os.open(path, _NEW_FILE, mode)
    except (FileExistsError, IsADirectoryError) as error:
        raise HostError(f"another program put {path} there") from error


def write_private(path: Path, content: bytes, owner: Owner | None = None, mode: int = 0o600) -> None:
    """Write a file that by default only its owner may read: the present user, or another one."""
    with os.fdopen(new_file(path, mode), "wb") as file:
        file.write(content)
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), *owner)


def make_folder(path: Path, owner: Owner | None = None, mode: int = 0o700) -> None:
    """Make a folder if it is not there, set its mode, and give it away. Raises HostError if it is a link or file."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, _FOLDER)
    except NotADirectoryError as error:
        raise HostError(f"{path} is a link, not a folder") from error
    try:
        os.fchmod(descriptor, mode)
        if owner is not None:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)


def give_all(folder: Path, owner: Owner) -> None:
    """Give away a folder with all that is in it, the folder last; links are given away, not followed."""
    for _, folders, files, descriptor in os.fwalk(folder, topdown=False):
        for name in (*files, *folders):
            os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)
    os.chown(folder, *owner, follow_symlinks=False)


def check_surroundings(folder: Path, owner: Owner) -> None:
    """Raise HostError if this user, or everybody, could put something in the place of the folder or of one above it."""
    path = folder.resolve()
    for one in (path, *path.parents):
        if not one.exists():
            continue
        facts = one.stat()
        shared = facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP and facts.st_gid == owner[1])
        if facts.st_uid == owner[0] or (shared and not facts.st_mode & stat.S_ISVTX):
            raise HostError(
                f"{one} can be changed by the user that servers run as: root does not write below it",
                "choose another folder with --data or MYDYNO_DATA, or another user with MYDYNO_SERVER_USER",
            )


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
