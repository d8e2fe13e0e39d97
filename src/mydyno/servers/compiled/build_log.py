"""The log of a build, bounded: a command may print gigabytes, and the log is kept.

Kept are the beginning and the end of the output; a line between them states how many bytes were omitted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAD_BYTES = 4 << 20
"""Most bytes of the beginning that are kept."""
TAIL_BYTES = 4 << 20
"""Most of the end; what exceeds it is dropped but for KEPT_BYTES."""
KEPT_BYTES = 1 << 20
READ_BYTES = 1 << 16
"""Bytes read at a time: the capacity of a pipe."""
SHOWN_BYTES, SHOWN_LETTERS = 16_000, 300
"""Most bytes of the end of a log, and most letters of one of its lines, in a message."""


class BuildLog:
    """A file that receives output and never has more than HEAD_BYTES + TAIL_BYTES and a line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self._size = 0
        self._omitted = 0

    def write(self, data: bytes) -> None:
        """Append, and drop the middle where the log has become too long."""
        self._file.write(data)
        self._size += len(data)
        if self._size <= HEAD_BYTES + TAIL_BYTES:
            return
        self._omitted += self._size - HEAD_BYTES - KEPT_BYTES
        self._file.seek(-KEPT_BYTES, os.SEEK_END)
        kept = self._file.read()
        self._file.seek(HEAD_BYTES)
        self._file.truncate()
        self._file.write(f"\n[mydyno: {self._omitted} bytes omitted]\n".encode() + kept)
        self._size = HEAD_BYTES + KEPT_BYTES

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def output_to(path: Path) -> Iterator[int]:
    """A file descriptor for a program's output, which goes to the log while the event loop runs.

    What a program that was left running writes after the end of the block is not read.
    """
    log, loop = BuildLog(path), asyncio.get_running_loop()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def read() -> bool:
        try:
            data = os.read(reader, READ_BYTES)
        except BlockingIOError:
            return False
        log.write(data)
        if not data:
            loop.remove_reader(reader)
        return bool(data)

    loop.add_reader(reader, read)
    try:
        yield writer
    finally:
        loop.remove_reader(reader)
        read()
        os.close(reader)
        os.close(writer)
        log.close()


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log that are not empty, shortened."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - SHOWN_BYTES))
        lines = [line.rstrip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return [line if len(line) <= SHOWN_LETTERS else line[: SHOWN_LETTERS - 1] + "…" for line in lines[-count:]]
