"""The processes of this machine, read cheaply: tests look again and again while they wait."""

from __future__ import annotations

import os
from collections.abc import Iterator


def processes() -> Iterator[tuple[int, bytes, bytes]]:
    """(pid, command line, environment) of every process that may be read; words end with NUL bytes."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path costs as much as the read
        if name.isdigit():
            try:
                environment = _content(f"/proc/{name}/environ")
                yield int(name), _content(f"/proc/{name}/cmdline"), environment
            except OSError:
                continue


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        return file.read()


def shown(command: bytes) -> str:
    """A command line as ps shows it."""
    return command.replace(b"\0", b" ").decode(errors="replace")


def state(pid: int) -> str:
    """The letter of proc(5): R, S, T (stopped), Z (ended, nobody has waited for it yet); empty where there is none."""
    try:
        return _content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Whether the process is gone or dead."""
    return state(pid) in ("", "Z")
