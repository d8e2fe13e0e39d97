"""journal.jsonl: append-only, one event a line, synced before the next action. It makes resume exact."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mydyno import clock
from mydyno.failpoints import failpoint


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
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        failpoint(event)

    def read(self) -> list[dict[str, Any]]:
        """All whole events, oldest first."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
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
