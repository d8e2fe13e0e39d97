"""Append-only files of one JSON document a line.

journal.jsonl: one event a line, synced before the next action. It makes resume exact.

commands.jsonl: every program that mydyno started for a study, with its arguments; never a secret. A line when a program
starts and one when it ends, so that the programs of a study that was killed are in it too.

live.jsonl: appended by the study's process alone, read by any other at any time. The file stays open while the study
runs, which is how a reader proves that a process writes it.

Lines of the last two are not synced. A write that fails is dropped: a log must never end a measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno import clock
from mydyno.failpoints import failpoint
from mydyno.model.stored.live import LiveRecord, live_line, parse_live


class Journal:
    """The study's journal. A last line cut short by a crash is dropped when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: str, **fields: Any) -> None:
        """Write one event durably."""
        line = json.dumps({"event": event, "unix_ns": clock.unix_ns(), **fields}, ensure_ascii=False) + "\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                os.write(descriptor, b"\n")  # a line cut short by a crash must not swallow this one
            content = line.encode()
            while content:  # the disk may have room for a part of it
                content = content[os.write(descriptor, content) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        failpoint(event)

    def read(self) -> list[dict[str, Any]]:
        """All whole events, oldest first."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return []
        return [event for line in lines if (event := _event(line)) is not None]

    def damage(self) -> str:
        """What is wrong with it, with its path; empty if nothing is.

        A line that a crash cut short is no damage once the study was resumed: the event was not in force.
        """
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"{self.path} cannot be read: {error.strerror}"
        *lines, last = text.split("\n")
        events = [_event(line) for line in lines]
        lost = events.count(None) - sum(event is not None and event["event"] == "study_resumed" for event in events)
        if not events or lost > 0:
            return (
                f"{self.path} is damaged: {f'{lost} of its lines cannot be read' if events else 'it has no whole line'}"
            )
        return f"{self.path}: its last line is cut short" if last else ""


def _event(line: str) -> dict[str, Any] | None:
    """The event of a line; None if it was cut short by a crash."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


COMMANDS_FILE = "commands.jsonl"
OF_HOSTS = "commands.*.jsonl"
COMMANDS_FORMAT = 1


class CommandLog:
    """The commands of one session of a study. Kept in memory until keep_in() names the study's folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._count = 0
        self._pending: list[str] = []
        self._write({"event": "opened", "format": COMMANDS_FORMAT, "unix_ns": clock.unix_ns()})

    def keep_in(self, folder: Path, name: str = COMMANDS_FILE) -> None:
        """Append what was recorded so far, and everything from now on, to the folder's commands.jsonl.

        `name`: another one for a host that executes a block while others do: NFS loses lines that two hosts append.
        """
        with self._lock:
            self._path = folder / name
            pending, self._pending = self._pending, []
            self._append("".join(pending))

    def started(self, argv: Sequence[str], facts: Mapping[str, Any]) -> int:
        """A program was started; returns the number by which ended() names it."""
        with self._lock:
            self._count += 1
            number = self._count
        given = {name: value for name, value in facts.items() if value}
        self._write({"event": "started", "id": number, "unix_ns": clock.unix_ns(), "argv": list(argv), **given})
        return number

    def ended(self, number: int, exit_code: int, duration_s: float) -> None:
        """The program ended; a negative exit code is the signal that ended it."""
        self._write({
            "event": "ended", "id": number, "unix_ns": clock.unix_ns(), "exit_code": exit_code,
            "duration_s": round(duration_s, 3),
        })  # fmt: skip

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False) + "\n"
        with self._lock:
            if self._path is None:
                self._pending.append(text)
            else:
                self._append(text)

    def _append(self, text: str) -> None:
        assert self._path is not None
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)


def read_commands(folder: Path) -> list[dict[str, Any]]:
    """All whole lines of a study's commands.jsonl, and of those of other hosts, each oldest first."""
    found = []
    for path in (folder / COMMANDS_FILE, *sorted(folder.glob(OF_HOSTS))):
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
                with contextlib.suppress(ValueError):  # cut short by a crash
                    event = json.loads(line)
                    found += [event] if isinstance(event, dict) else []
    return found


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
