"""Writing so that a crash leaves the old or the new, never half: write aside, sync, rename."""

from __future__ import annotations

import os
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
