"""Folders of studies that a mydyno on another host controlled here, and did not remove because it lost this host."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.identity import words_of
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.quantities import format_bytes

STUDIES = "fleet"
"""Folder of studies, below the cache."""
QUIET_S = 600.0
"""A folder that was written to more recently may belong to a study whose next block is about to begin."""


@dataclass(frozen=True)
class LeftStudy:
    """A study's folder that no process uses."""

    path: Path
    size_bytes: int
    idle_s: float
    """Since it was last written to."""

    @property
    def is_quiet(self) -> bool:
        """Whether it may be removed."""
        return self.idle_s >= QUIET_S

    def __str__(self) -> str:
        return f"{self.path} ({format_bytes(self.size_bytes)}, unused for {self.idle_s / 60:.0f} min)"


def left_studies(cache: Path) -> list[LeftStudy]:
    """Folders that no `mydyno block` of this host uses now, by its arguments."""
    folder = cache / STUDIES
    found = [path for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []
    used = arguments_in_use() if found else set()
    return [_measured(path) for path in found if str(path) not in used]


def remove_left(study: LeftStudy) -> str | None:
    """Returns what remains, or None."""
    shutil.rmtree(study.path, ignore_errors=True)
    return f"the folder {study.path}" if study.path.exists() else None


def _measured(path: Path) -> LeftStudy:
    size, newest = 0, path.stat().st_mtime
    for file in path.rglob("*"):
        try:
            status = file.lstat()
        except OSError:
            continue
        size += status.st_size if file.is_file() else 0
        newest = max(newest, status.st_mtime)
    return LeftStudy(path, size, max(0.0, time.time() - newest))


def arguments_in_use(root: HostRoot = HERE) -> set[str]:
    """The arguments of all processes of this host."""
    found = (words_of(process, "cmdline", root) for process in root.proc.glob("[0-9]*"))
    return {word.decode(errors="replace") for words in found for word in words}
