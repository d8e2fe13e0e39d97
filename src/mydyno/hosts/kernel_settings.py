"""Settings of the running kernel, in /proc/sys, /sys/kernel/mm and /sys/block/DEVICE/queue: read, written, restored."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.root import HERE, HostRoot

_SELECTED = re.compile(r"\[([\w+-]+)\]")
_NAME = r"[A-Za-z0-9_!-][A-Za-z0-9_!.+-]*"
IN_SYS = rf"(block/{_NAME}/queue/(iosched/)?\w+|kernel/mm(/{_NAME})+)"
"""Below /sys (regular expression): the queue of a disk with its scheduler, and the memory management."""


def read_setting(path: Path) -> str:
    """The value; of a choice such as "none [mq-deadline] bfq" the selected word. Raises HostError."""
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror}", "does this kernel have it?") from None
    except UnicodeDecodeError:
        raise HostError(f"{path} is not a kernel setting: its content is not text") from None
    match = _SELECTED.search(text)
    return match[1] if match else text


def write_setting(path: Path, value: str, root: HostRoot = HERE) -> str:
    """Write, and return the value that the kernel accepted, which may be smaller. Raises HostError."""
    _require_setting(path, root)
    try:
        path.write_text(value)
    except OSError as error:
        raise HostError(f"{path} cannot be set to {value}: {error.strerror}", "run mydyno as root") from None
    return read_setting(path)


def _require_setting(path: Path, root: HostRoot) -> None:
    of_proc = path.is_relative_to(root.proc / "sys") and ".." not in path.parts
    if not of_proc and not (path.is_relative_to(root.sys) and re.fullmatch(IN_SYS, str(path.relative_to(root.sys)))):
        raise HostError(f"{path} is not a kernel setting")


def give_back(facts: dict[str, Any], root: HostRoot) -> str | None:
    """Undo: restore the earlier value; returns what still differs. A scheduler's settings end with it."""
    path, before = Path(facts["path"]), str(facts["before"])
    if path.parent.name == "iosched" and not path.exists():
        return None
    try:
        _require_setting(path, root)
        now = read_setting(path)
        if now.split() != before.split():
            now = write_setting(path, before, root)
    except HostError as error:
        return error.message
    return None if now == before else f"{path} is {now}, was {before}"
