"""Where control groups of version 1 and 2 are mounted, and mydyno's own among them. `root` is / but for tests.

Sources: proc(5), /proc/PID/mountinfo; cgroups(7), /proc/PID/cgroup.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

NAMES_IN_V1 = {"io": "blkio"}
"""Controllers whose name changed."""


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy."""

    place: Path
    group: str
    """The group that is mounted there: in a container often its own instead of the hierarchy's root."""

    def below(self, own: str) -> Path:
        """The folder of a group; the mount itself where the group is not visible there."""
        way = os.path.relpath(own, self.group)
        inside = self.place / way
        return inside if not way.startswith("..") and inside.is_dir() else self.place


def mounts(root: Path) -> dict[str, Mount]:
    """{v1 controller: its mount}, and "" for version 2."""
    found: dict[str, Mount] = {}
    for line in lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        group, point = (word.replace("\\040", " ") for word in before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        mount = Mount(root / point.lstrip("/"), group)
        if kind == "cgroup2":
            found.setdefault("", mount)
        elif kind == "cgroup":
            for name in options.split(","):
                found.setdefault(name, mount)
    return found


def own_paths(root: Path) -> dict[str, str]:
    """{v1 controller: mydyno's own group}, and "" for version 2."""
    found = {}
    for line in lines(root / "proc/self/cgroup"):
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def lineage(root: Path, controller: str) -> list[Path]:
    """mydyno's own group of this controller and its ancestors, as far as they are mounted; empty without it."""
    mounted, own = mounts(root), own_paths(root)
    name = NAMES_IN_V1.get(controller, controller)
    if name not in mounted:
        name = ""
    if name not in mounted:
        return []
    here = mounted[name].below(own.get(name, "/"))
    return [here, *(folder for folder in here.parents if folder.is_relative_to(mounted[name].place))]


def lines(path: Path) -> list[str]:
    """The file's lines; none where it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
