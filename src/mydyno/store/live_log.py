"""live.jsonl: appended by the study's process alone, read by any other at any time.

Lines are not synced: the journal is what makes resume exact. A write that fails is dropped: it must never end a
measurement. The file stays open while the study runs, which is how a reader proves that a process writes it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from mydyno.model.stored.live import LiveRecord, live_line, parse_live

LIVE_FILE = "live.jsonl"
MOST_BYTES_AT_ONCE = 1 << 20


class LiveLog:
    """The open file of a study that runs."""

    def __init__(self, folder: Path) -> None:
        """Open or create it; a last line that a crash cut short is ended, so that it does not swallow the next one."""
        self._descriptor = os.open(folder / LIVE_FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            self._write(b"\n")

    def append(self, record: LiveRecord) -> None:
        """One line, in one write."""
        self._write(live_line(record).encode())

    def close(self) -> None:
        """No lines follow."""
        os.close(self._descriptor)

    def _write(self, content: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk
            os.write(self._descriptor, content)


@dataclass(frozen=True)
class LiveLine:
    """One whole line, and the offset in bytes of what follows it."""

    end: int
    text: str

    @property
    def record(self) -> LiveRecord | None:
        """What it says; None for a damaged line and for a record of a newer mydyno."""
        return parse_live(self.text)


def read_live(path: Path, offset: int = 0, most_bytes: int = MOST_BYTES_AT_ONCE) -> list[LiveLine]:
    """The whole lines from a line's begin on, at most so many bytes (but one line at least); an absent file has none.

    A last line that is not complete is left for the next call.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(most_bytes)
            while content and b"\n" not in content and (more := file.read(most_bytes)):
                content += more
    except OSError:
        return []
    found, position = [], offset
    for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
        position += len(line)
        if line.strip():
            found.append(LiveLine(position, line.decode(errors="replace").rstrip("\n")))
    return found


def read_last_lines(path: Path, most_bytes: int = 64 * 1024) -> list[LiveLine]:
    """The last whole lines, about so many bytes of them."""
    try:
        size = path.stat().st_size
    except OSError:
        return []
    begin = max(0, size - most_bytes)
    lines = read_live(path, begin, most_bytes + 1)
    return lines[1:] if begin else lines
