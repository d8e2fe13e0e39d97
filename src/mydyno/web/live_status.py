"""Whether a study runs, by the process that its live.jsonl names.

A pid alone proves nothing: it may be another process by now, and the file may be a copy from elsewhere. The process is
the study's own if it has the recorded start time and holds this very live.jsonl open. Only such a process is ever sent
a signal. Which files another user's process has open is forbidden to read: then its start time counts alone, and it is
sent none.
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
from mydyno.model.stored.live import LiveEnded, LiveOpened, LiveSecond, parse_live
from mydyno.store.live_log import LIVE_FILE, read_last_lines

SILENT_S = 15.0
"""A study that this host cannot see is considered gone after this time without a line."""
_OPENED = b'{"record":"opened"'

LiveKind = Literal["none", "running", "ended", "killed", "copied", "elsewhere", "silent"]
"""copied: the process lives, and writes another file; elsewhere: written by a process that this host cannot see, and
lately; silent: not any more."""
LASTING: frozenset[LiveKind] = frozenset({"none", "ended", "killed", "copied", "silent"})
"""What remains so until live.jsonl changes."""


@dataclass(frozen=True)
class LiveStatus:
    """What live.jsonl and the kernel say about the study's process."""

    kind: LiveKind
    opened: LiveOpened | None = None
    ended: LiveEnded | None = None
    last: LiveSecond | None = None
    """The newest second of the study itself."""

    @property
    def words(self) -> str:
        """One sentence for a person; empty while it runs."""
        if self.opened is None:
            return ""
        if self.kind == "killed":
            return (
                "The study's process (pid {pid}) has ended without finishing the study: it was killed, or "
                "it crashed. Finished runs are kept. To continue: {command}"
            ).format(pid=self.opened.pid, command=f"mydyno resume {self.opened.study}")
        if self.kind == "copied":
            return (
                f"This live.jsonl is a copy of that of a running study: process {self.opened.pid} writes another one."
            )
        if self.kind == "silent":
            return (
                "The study wrote its last line more than {seconds} s ago. It was started on {host}, whose "
                "processes cannot be seen from here."
            ).format(seconds=f"{SILENT_S:.0f}", host=self.opened.hostname)
        return ""


def live_status(study: Path) -> LiveStatus:
    """The status of a study's folder; kind "none" without a live.jsonl that can be read."""
    path = study / LIVE_FILE
    opened = last_opened(path)
    if opened is None:
        return LiveStatus("none")
    records = [line.record for line in read_last_lines(path, 16 * 1024)]
    ended = records[-1] if records and isinstance(records[-1], LiveEnded) else None
    last = next((one for one in reversed(records) if isinstance(one, LiveSecond) and not one.group), None)
    kind = kind_of(opened, ended is not None, path)
    # A study opens its file before the first line and closes it after the last.
    if kind == "running" and _holds_open(opened.pid, path) is False:
        kind = "copied" if is_alive(opened) else "killed"
    return LiveStatus(kind, opened, ended, last)


def kind_of(opened: LiveOpened, ended: bool, path: Path) -> LiveKind:
    """The kind of status of a live.jsonl with this last `opened`, which is no copy; cheap enough for every second."""
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
    holds_open = _holds_open(opened.pid, study / LIVE_FILE)
    if holds_open is None:
        return f"process {opened.pid} is another user's"
    if not holds_open:
        return f"process {opened.pid} does not write this study's live.jsonl"
    return "" if identity.send(signal.SIGINT) else "the study's process has ended"


def _holds_open(pid: int, path: Path) -> bool | None:
    """Whether a process has a file open; None where this may not be known."""
    try:
        wanted = path.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:  # another user's process
        return None
    except OSError:  # it has ended, or there is no such file
        return False
    for descriptor in descriptors:
        try:
            if os.path.samestat(descriptor.stat(), wanted):
                return True
        except OSError:
            continue  # closed meanwhile
    return False
