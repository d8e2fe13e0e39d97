"""What other versions of mydyno left in the cache: engines and Python environments, which bootstrap.sh makes.

Each version whose engine or locked packages differ gets a folder of its own, so that several checkouts can be used side
by side. All of it is made again when it is needed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.remote.left_studies import arguments_in_use

MARK = ".complete"
"""Name of the file in a folder that the bootstrap has finished."""
BUILD_FILES = Path("engine/target")
"""Cargo's, below the cache; it never removes those of older versions."""
UNPACKED = ("debian", "servers")
"""What comes from packages and archives, below the cache. Earlier versions unpacked it with special files."""


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
    found = [_measured(path, _is_used(path, arguments)) for path in made if path.resolve() not in kept]
    target = cache / BUILD_FILES
    if target.is_dir():
        found.append(_measured(target, any(target.parent.glob("*.lock")) or _is_used(target, arguments)))
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


def _measured(path: Path, is_used: bool) -> OldVersion:
    size = 0
    for file in path.rglob("*"):
        try:
            size += file.lstat().st_blocks * 512
        except OSError:
            continue
    return OldVersion(path, size, is_used)
