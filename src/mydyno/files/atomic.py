"""Files and folders that are complete or absent, and what one that cannot be read is reported as.

A crash leaves the old or the new, never half: a file is written aside, synced and renamed. A folder of the cache is
filled under a temporary name, by one process at a time, and then renamed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from mydyno.errors import UserError
from mydyno.files.private import new_file

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
    """Replace the file's content as a whole, also across a power cut. Creates parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with os.fdopen(new_file(aside, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
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
