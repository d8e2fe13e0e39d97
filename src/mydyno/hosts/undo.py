"""The undo journal, and what else is left on this host, which `doctor` names and `clean` removes.

Each change to the host is written into the journal before it is made, and is undone however the study ends. One file
per study below the cache. On success it is empty of open entries and removed; after kill -9 it stays, and `mydyno
clean` (or the next run) undoes what it lists, newest first. Kinds of change register in UNDOERS.

Folders of studies that a mydyno on another host controlled here, and did not remove because it lost this host. Network
namespaces that no live study owns, even where their journal is gone. What other versions of mydyno left in the cache:
engines and Python environments, which bootstrap.sh makes. Each version whose engine or locked packages differ gets a
folder of its own, so that several checkouts can be used side by side. All of it is made again when it is needed.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import stat
import time
import weakref
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.files.atomic import remove_tree
from mydyno.hosts.cgroups import remove_group, return_delegation
from mydyno.hosts.identity import (
    ProcessIdentity,
    boot_id,
    end_all,
    pid_namespace,
    processes_with_cookie,
    words_of,
)
from mydyno.hosts.kernel_settings import give_back
from mydyno.hosts.lock import CLEANING, study_lock
from mydyno.hosts.network import network_card
from mydyno.hosts.network.namespace import remove_namespace, stale_namespaces, study_of
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.quantities import format_bytes
from mydyno.store.logs import Journal

Undoer = Callable[[dict[str, Any], HostRoot], str | None]
"""Receives the entry's facts and the host; returns None when undone, else what remains."""


def _remove_folder(facts: dict[str, Any], _root: HostRoot) -> str | None:
    path = Path(facts["path"])
    if path.exists():
        remove_tree(path)
    return f"the folder {path}" if path.exists() else None


def _end_processes(facts: dict[str, Any], _root: HostRoot) -> str | None:
    left = end_all(processes_with_cookie(facts["cookie"]))
    return f"processes {', '.join(str(process.pid) for process in left)}" if left else None


def _remove_control_group(facts: dict[str, Any], root: HostRoot) -> str | None:
    left = remove_group((Path(folder) for folder in facts["folders"]), root)
    return f"the control group {', '.join(map(str, left))}" if left else None


def _return_delegation(facts: dict[str, Any], _root: HostRoot) -> str | None:
    folder = Path(facts["folder"])
    return None if return_delegation(folder, facts["controllers"]) else f"the settings of {folder}"


UNDOERS: dict[str, Undoer] = {
    "cgroup": _remove_control_group,
    "cgroup_delegation": _return_delegation,
    "folder": _remove_folder,
    "namespace": remove_namespace,
    "network_card": network_card.give_back,
    "processes": _end_processes,
    network_card.KIND: network_card.remove_root,
    "sysctl": give_back,
}


@dataclass(frozen=True)
class Entry:
    """One change to the host that is still to be undone."""

    number: int
    kind: str
    facts: dict[str, Any]

    def undo(self, root: HostRoot) -> str | None:
        """As an Undoer; a kind that is unknown here remains."""
        if (undoer := UNDOERS.get(self.kind)) is None:
            return f"a change of the kind {self.kind}: `mydyno clean` of the version that made it undoes it"
        return undoer(self.facts, root)


class UndoJournal:
    """The undo journal of one study."""

    def __init__(self, path: Path, root: HostRoot = HERE) -> None:
        self.path = path
        self.root = root
        self._journal = Journal(path)
        self._next = 1 + max((event.get("number", 0) for event in self._journal.read()), default=0)
        self.release: Callable[[], object] = tuple
        """Gives up the lock of the process that began it."""

    @classmethod
    def begin(cls, folder: Path, study: str, study_path: Path, root: HostRoot = HERE) -> UndoJournal:
        """A new journal, owned by this process."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{study}.{os.getpid()}.jsonl"
        # Without an owner it would be taken for a dead study's: others see it with its first line and its lock.
        unseen = path.with_suffix(".new")
        held = os.open(unseen, os.O_RDONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        journal = cls(unseen, root)
        journal.release = weakref.finalize(journal, os.close, held)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(held, fcntl.LOCK_SH)
        owner = ProcessIdentity.of(os.getpid())
        assert owner is not None
        journal._journal.append(
            "owner",
            pid=owner.pid,
            start_ticks=owner.start_ticks,
            study=study,
            study_path=str(study_path),
            hostname=platform.node(),
            boot_id=boot_id(),
            pid_namespace=pid_namespace(),
        )
        unseen.rename(path)
        journal.path, journal._journal = path, Journal(path)
        return journal

    def will_change(self, kind: str, **facts: Any) -> int:
        """Record a change before it is made; returns the entry's number for undone()."""
        assert kind in UNDOERS, kind
        number = self._next
        self._next += 1
        self._journal.append("change", number=number, kind=kind, facts=facts)
        return number

    def undone(self, number: int) -> None:
        """Record that the change was undone by its maker."""
        self._journal.append("undone", number=number)

    def undo(self, number: int) -> str | None:
        """Undo one change now; returns what remains, or None."""
        for entry in self.open_entries():
            if entry.number == number:
                left = entry.undo(self.root)
                if left is None:
                    self.undone(number)
                return left
        return None

    def open_entries(self) -> list[Entry]:
        """Changes not yet undone, newest first."""
        events = self._journal.read()
        closed = {event["number"] for event in events if event["event"] == "undone"}
        entries = [
            Entry(event["number"], event["kind"], event["facts"])
            for event in events
            if event["event"] == "change" and event["number"] not in closed
        ]
        return sorted(entries, key=lambda entry: -entry.number)

    def owner(self) -> tuple[ProcessIdentity, str, str] | None:
        """(process, study, study's path) that began the journal; None for a file cut short at once."""
        for event in self._journal.read():
            if event["event"] == "owner":
                return ProcessIdentity(event["pid"], event["start_ticks"]), event["study"], event["study_path"]
        return None

    def is_stale(self) -> bool:
        """Whether its study was killed, and its changes are this host's to undo.

        A cache may be on a file system that several hosts share: a journal of another boot and another hostname is left
        alone, because nothing here shows whether its process lives. That of another container of this host is held by a
        lock while its process lives, which cannot be seen from here.
        """
        began = next((event for event in self._journal.read() if event["event"] == "owner"), None)
        if began is None:
            return self._is_abandoned()
        boot = began.get("boot_id")  # none in journals of older versions
        if boot and boot_id() and boot != boot_id():
            return bool(began.get("hostname") == platform.node())
        if began.get("pid_namespace", pid_namespace()) != pid_namespace():
            return self._is_abandoned()
        return not ProcessIdentity(began["pid"], began["start_ticks"]).alive()

    def _is_abandoned(self) -> bool:
        """Whether it is still there, and no process holds it."""
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def undo_all(self) -> list[str]:
        """Undo everything still open, newest first; removes the journal when nothing remains. Returns what remains.

        Processes come before all else: what still runs writes into folders and keeps mounts busy.
        """
        left = []
        for entry in sorted(self.open_entries(), key=lambda entry: entry.kind != "processes"):
            remains = entry.undo(self.root)
            if remains is not None:
                left.append(remains)
                continue
            with suppress(OSError):  # a full disk: undoing twice is harmless, stopping half-way is not
                self.undone(entry.number)
        if not left:
            self.path.unlink(missing_ok=True)
            self.release()
        return left


def stale_journals(folder: Path, root: HostRoot = HERE) -> list[UndoJournal]:
    """Journals of studies that were killed on this host."""
    journals = [UndoJournal(path, root) for path in sorted(folder.glob("*.jsonl"))]
    return [journal for journal in journals if journal.is_stale()]


def clean_up(folder: Path, say: Callable[[str], None], root: HostRoot = HERE) -> None:
    """Undo what killed studies left on this host; `say` also receives what could not be undone."""
    for journal in stale_journals(folder, root):
        owner = journal.owner()
        study, count = owner[1] if owner else "a killed study", len(journal.open_entries())
        left = journal.undo_all()
        if count > len(left):
            say(f"cleaned up after {study}: {count - len(left)} entries undone")
        for one in left:
            say(f"{study} was killed, and this could not be undone: {one}")


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
