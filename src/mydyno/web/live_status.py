"""Whether a study runs, by the process that its live.jsonl names.

A pid alone proves nothing: it may be another process by now, and the file may be a copy from elsewhere. The process is
the study's own if it has the recorded start time and holds this very live.jsonl open. Only such a process is ever sent
a signal.
"""

from __future__ import annotations

import mmap
import os
import platform
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.live import LiveEnded, LiveOpened, LiveSecond, parse_live
from mydyno.store.live_log import LIVE_FILE, read_last_lines

SILENT_S = 15.0
"""A study that this host cannot see is thought to be gone after so long without a line."""
_OPENED = b'{"record":"opened"'

LiveKind = Literal["none", "running", "ended", "killed", "elsewhere", "silent"]
"""elsewhere: written by a process that this host cannot see, and lately; silent: not any more."""


@dataclass(frozen=True)
class LiveStatus:
    """What live.jsonl and the kernel say about the study's process."""

    kind: LiveKind
    opened: LiveOpened | None = None
    ended: LiveEnded | None = None
    last: LiveSecond | None = None
    """The newest second."""

    @property
    def words(self) -> str:
        """One sentence for a person; empty while it runs."""
        if self.kind == "killed" and self.opened is not None:
            return (
                f"The study's process (pid {self.opened.pid}) has ended without finishing the study: it was killed, or "
                f"it crashed. Finished runs are kept. To continue: mydyno resume {self.opened.study}"
            )
        if self.kind == "silent" and self.opened is not None:
            return (
                f"The study wrote its last line more than {SILENT_S:.0f} s ago. It was started on "
                f"{self.opened.hostname}, whose processes cannot be seen from here."
            )
        return ""


def live_status(study: Path) -> LiveStatus:
    """The status of a study's folder; kind "none" without a live.jsonl that can be read."""
    path = study / LIVE_FILE
    opened = last_opened(path)
    if opened is None:
        return LiveStatus("none")
    records = [line.record for line in read_last_lines(path, 16 * 1024)]
    ended = records[-1] if records and isinstance(records[-1], LiveEnded) else None
    last = next((one for one in reversed(records) if isinstance(one, LiveSecond)), None)
    return LiveStatus(kind_of(opened, ended is not None, path), opened, ended, last)


def kind_of(opened: LiveOpened, ended: bool, path: Path) -> LiveKind:
    """The kind of status of a live.jsonl with this last `opened`; cheap enough for every second."""
    if ended:
        return "ended"
    if not is_visible(opened):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < SILENT_S:
                return "elsewhere"
        return "silent"
    return "running" if is_alive(opened) else "killed"


def last_opened(path: Path) -> LiveOpened | None:
    """The last `opened` of the file: the process that wrote, or writes, its end."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            position = content.rfind(_OPENED)
            while position > 0 and content[position - 1 : position] != b"\n":  # inside of a note
                position = content.rfind(_OPENED, 0, position)
            if position < 0:
                return None
            content.seek(position)
            record = parse_live(content.readline())
    except (OSError, ValueError):  # absent, or empty
        return None
    return record if isinstance(record, LiveOpened) else None


def is_visible(opened: LiveOpened) -> bool:
    """Whether the process, if it lives, is among those that this process sees."""
    return opened.boot_id == boot_id() and opened.pid_namespace == pid_namespace()


def is_alive(opened: LiveOpened) -> bool:
    """Whether the process that wrote `opened` still runs."""
    return ProcessIdentity(opened.pid, opened.start_ticks).alive()


def stop_study(study: Path) -> str:
    """Send the study's process SIGINT, as Ctrl-C does; an empty text, or why it was not sent."""
    opened = last_opened(study / LIVE_FILE)
    if opened is None:
        return "the study has no live.jsonl"
    if not is_visible(opened):
        return f"the study was started on {opened.hostname}, not among the processes of {platform.node()}"
    identity = ProcessIdentity(opened.pid, opened.start_ticks)
    if not identity.alive():
        return "the study's process has ended"
    if not _holds_open(opened.pid, study / LIVE_FILE):
        return f"process {opened.pid} does not write this study's {LIVE_FILE}"
    return "" if identity.send(signal.SIGINT) else "the study's process has ended"


def _holds_open(pid: int, path: Path) -> bool:
    try:
        wanted = path.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # another user's process
        return False
    for descriptor in descriptors:
        try:
            if os.path.samestat(descriptor.stat(), wanted):
                return True
        except OSError:
            continue  # closed meanwhile
    return False
