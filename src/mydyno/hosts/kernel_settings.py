"""Settings of the running kernel: files below /proc/sys and /sys/kernel/mm; read, written, read back, restored."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.root import HERE, HostRoot

_SELECTED = re.compile(r"\[(\w+)\]")


def read_setting(path: Path) -> str:
    """The value; of a choice such as "always [madvise] never" the selected word. Raises HostError."""
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}", "does this kernel have it?") from None
    match = _SELECTED.search(text)
    return match[1] if match else text


def write_setting(path: Path, value: str, root: HostRoot = HERE) -> str:
    """Write, and return the value that the kernel accepted, which may be smaller. Raises HostError."""
    folders = (root.proc / "sys", root.sys / "kernel/mm")
    if not any(path.is_relative_to(folder) for folder in folders) or ".." in path.parts:
        raise HostError(f"{path} is not a kernel setting: {', '.join(map(str, folders))}")
    try:
        path.write_text(value)
    except OSError as error:
        raise HostError(f"{path} cannot be set to {value}: {error.strerror}", "run mydyno as root") from None
    return read_setting(path)


def give_back(facts: dict[str, Any], root: HostRoot) -> str | None:
    """Undo: restore the earlier value; returns what still differs."""
    path, before = Path(facts["path"]), str(facts["before"])
    try:
        now = write_setting(path, before, root)
    except HostError as error:
        return error.message
    return None if now == before else f"{path} is {now}, was {before}"
