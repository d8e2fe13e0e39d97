"""Which processes the kernel ended for lack of memory: from its log, /dev/kmsg (Documentation/ABI/testing/dev-kmsg).

The log has process ids of the initial PID namespace, and a container may not read it: then it is not known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set
from contextlib import closing, suppress
from pathlib import Path

INITIAL_NAMESPACE = "pid:[4026531836]"
"""Its inode is fixed (PROC_PID_INIT_INO of the kernel's proc_ns.h)."""
RECORD_BYTES = 8192
"""One read returns one record; none is longer."""
_KILLED = re.compile(r"^[^;]*;.*Killed process (\d+)\b")


def killed_processes() -> Set[int] | None:
    """The ids of all that were killed, as far back as the log reaches; None where it cannot be read."""
    try:
        if Path("/proc/self/ns/pid").readlink().name != INITIAL_NAMESPACE:
            return None
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found: set[int] = set()
    with closing(os.fdopen(log, "rb", buffering=0)):
        while True:
            with suppress(BrokenPipeError):  # a record was overwritten before it was read
                try:
                    record = os.read(log, RECORD_BYTES)
                except BlockingIOError:
                    return found
                found |= killed_in(record.decode(errors="replace"))


def killed_in(record: str) -> Set[int]:
    """The process that a record of the log names as killed for lack of memory, if it does."""
    match = _KILLED.match(record)
    return {int(match.group(1))} if match else set()
