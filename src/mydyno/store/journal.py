"""journal.jsonl: append-only, one event a line, synced before the next action. It makes resume exact."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mydyno.stages import stage


class Journal:
    """The study's journal. A last line cut short by a crash is dropped when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: str, **fields: Any) -> None:
        """Write one event durably."""
        line = json.dumps({"event": event, "unix_ns": time.time_ns(), **fields}, ensure_ascii=False) + "\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                os.write(descriptor, b"\n")  # a line cut short by a crash must not swallow this one
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        stage(event)

    def read(self) -> list[dict[str, Any]]:
        """All whole events, oldest first."""
        if not self.path.exists():
            return []
        events = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # cut short by a crash
            if isinstance(event, dict):
                events.append(event)
        return events
