"""commands.jsonl: every program that mydyno started for a study, with its arguments; never a secret.

A line when a program starts and one when it ends, so that the programs of a study that was killed are in it too. Lines
are not synced: the journal is what makes resume exact, this file is for people. A write that fails is dropped: a log
must never end a measurement.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mydyno import clock

COMMANDS_FILE = "commands.jsonl"
OF_HOSTS = "commands.*.jsonl"
FORMAT = 1


class CommandLog:
    """The commands of one session of a study. Kept in memory until keep_in() names the study's folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._count = 0
        self._pending: list[str] = []
        self._write({"event": "opened", "format": FORMAT, "unix_ns": clock.unix_ns()})

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
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # cut short by a crash
                    event = json.loads(line)
                    found += [event] if isinstance(event, dict) else []
    return found
