"""Files and folders that are complete or absent, and what one that cannot be read is reported as.

A crash leaves the old or the new, never half: a file is written aside, synced and renamed. A folder of the cache is
filled under a temporary name, by one process at a time, and then renamed.

Files with passwords and folders for another user are made so that a link which that user put there is not followed. A
file is made new, written, and given away last, by its descriptor; so is a folder. What surrounds them must be the
present user's own (check_surroundings), or another user could exchange them afterwards. What a server left is removed
whatever it is: a stranger's program makes folders as deep as it likes.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

from mydyno.errors import HostError, UserError

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


INCOMPLETE = "is the study folder complete?"
FORBIDDEN = "this user may not read it: use the account that the study belongs to, or change the file's permissions"
HINTS = {
    errno.EACCES: FORBIDDEN,
    errno.EPERM: FORBIDDEN,
    errno.EIO: "the disk reports an error: see the kernel's log",
    errno.ELOOP: "a symbolic link in its path leads to itself",
    errno.EMFILE: "raise this process's limit of open files (ulimit -n)",
}


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file's content as a whole, also across a power cut; an OSError names it. Creates parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(new_file(aside, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_folder(path.parent)


def write_text(path: Path, content: str) -> None:
    """As write_bytes, in UTF-8."""
    write_bytes(path, content.encode())


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold a lock of this file (flock(2)); another process that holds it is waited for. Makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
        yield


@asynccontextmanager
async def made_once(root: Path) -> AsyncIterator[Path]:
    """Yields an empty folder next to `root` to fill.

    It is renamed to `root` if the body succeeds and removed otherwise.

    Another process that makes the same folder is waited for; look again whether it is there after entering. A body
    that ends without having put anything into the folder leaves `root` as it is.
    """
    async with locked(root.with_name(f".{root.name}.lock")):
        aside = root.with_name(f".{root.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            yield aside
            if any(aside.iterdir()):
                shutil.rmtree(root, ignore_errors=True)
                aside.rename(root)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hexadecimal, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """UserError that names the path for what cannot be read, or is not what it should be."""
    try:
        yield
    except OSError as error:
        words = f"{error.filename or path} cannot be read: {error.strerror or error}"
        raise UserError(words, HINTS.get(error.errno or 0, INCOMPLETE)) from error
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}", INCOMPLETE) from error
