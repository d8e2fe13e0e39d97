"""What is left on this host, which `doctor` names and `clean` removes.

Folders of studies that a mydyno on another host controlled here, and did not remove because it lost this host. Network
namespaces that no live study owns, even where their journal is gone. What other versions of mydyno left in the cache:
engines and Python environments, which bootstrap.sh makes. Each version whose engine or locked packages differ gets a
folder of its own, so that several checkouts can be used side by side. All of it is made again when it is needed.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.identity import processes_with_cookie, words_of
from mydyno.hosts.lock import CLEANING, study_lock
from mydyno.hosts.network.namespace import remove_namespace, stale_namespaces, study_of
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HERE, HostRoot
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.quantities import format_bytes

STUDIES = "fleet"
"""Folder of studies, below the cache."""
QUIET_S = 600.0
"""A folder that was written to more recently may belong to a study whose next block is about to begin."""
MARK = ".complete"
"""Name of the file in a folder that the bootstrap has finished."""
BUILD_FILES = Path("engine/target")
"""Cargo's, below the cache; it never removes those of older versions."""
UNPACKED = ("debian", "servers")
"""What comes from packages and archives, below the cache. Earlier versions unpacked it with special files."""


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


def ownerless_namespaces(paths: HostPaths) -> list[Path]:
    """Namespaces of studies of which neither mydyno nor any process that it started is alive."""
    owners = [owner for path in paths.undo.glob("*.jsonl") if (owner := UndoJournal(path).owner()) is not None]
    alive = [study for process, study, _ in owners if process.alive()]
    return [
        path
        for path in stale_namespaces(paths.root)
        if study_of(path) not in alive and not processes_with_cookie(study_of(path))  # with a cache of its own
    ]


def remove_ownerless(paths: HostPaths) -> tuple[list[str], list[str]]:
    """(names removed, sentences on what was left alone). Nothing is touched while any study runs on this host.

    A study with another cache makes its namespaces before it has a process in them, and then seems dead.
    """
    found = ownerless_namespaces(paths)
    if not found:
        return [], []
    names = ", ".join(path.name for path in found)
    try:
        with study_lock(CLEANING, paths.study_lock_address):
            results = {
                path.name: remove_namespace({"path": str(path)}, paths.root) for path in ownerless_namespaces(paths)
            }
    except HostError as error:
        return [], [f"{names}: {error.message}"]
    return [name for name, left in results.items() if left is None], [left for left in results.values() if left]


@dataclass(frozen=True)
class OldVersion:
    """A folder of another version, or the engine's build files."""

    path: Path
    size_bytes: int
    is_used: bool
    """Whether a process runs from it, or it is being made."""


def old_versions(cache: Path, engine: Path, python: Path) -> list[OldVersion]:
    """Engines and environments of the cache but those of this program: `engine/bin` and the environment `python`."""
    kept = {engine.resolve().parent, python.resolve()}
    made = [mark.parent for kind in ("engine", "python") for mark in sorted((cache / kind).glob(f"*/{MARK}"))]
    arguments = arguments_in_use() if made else set()
    found = [_version_of(path, _is_used(path, arguments)) for path in made if path.resolve() not in kept]
    target = cache / BUILD_FILES
    if target.is_dir():
        found.append(_version_of(target, any(target.parent.glob("*.lock")) or _is_used(target, arguments)))
    return found


def remove_version(version: OldVersion) -> str | None:
    """Returns what remains, or None."""
    # Without its mark a folder that is removed in part is made anew.
    (version.path / MARK).unlink(missing_ok=True)
    shutil.rmtree(version.path, ignore_errors=True)
    return f"the folder {version.path}" if version.path.exists() else None


def privileged_files(cache: Path) -> list[Path]:
    """What no archive is unpacked with now: set-user-ID and set-group-ID programs, and device files."""
    walks = (os.walk(cache / kind) for kind in UNPACKED)
    files = (Path(folder, name) for walk in walks for folder, _, names in walk for name in names)
    return sorted(path for path in files if _is_privileged(path))


def take_privileges(path: Path) -> None:
    """Make it an ordinary program; remove a device file."""
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode):
        path.chmod(mode & 0o777, follow_symlinks=False)
    else:
        path.unlink()


def _is_privileged(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False  # removed meanwhile
    set_id = stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID)
    return bool(set_id) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode)


def _is_used(path: Path, arguments: Set[str]) -> bool:
    return any(argument == str(path) or argument.startswith(f"{path}/") for argument in arguments)


def _version_of(path: Path, is_used: bool) -> OldVersion:
    size = 0
    for file in path.rglob("*"):
        try:
            size += file.lstat().st_blocks * 512
        except OSError:
            continue
    return OldVersion(path, size, is_used)
