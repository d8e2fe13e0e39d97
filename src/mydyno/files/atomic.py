"""Writing so that a crash leaves the old or the new, never half: write aside, sync, rename.

A folder of the cache is complete or absent: it is filled under a temporary name and then renamed.

Only one process at a time fills a folder.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mydyno.files.private import new_file


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
