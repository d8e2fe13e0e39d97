"""The undo journal: each change to the host is written here before it is made, and is undone however the study ends.

One file per study below the cache. On success it is empty of open entries and removed; after kill -9 it stays, and
`mydyno clean` (or the next run) undoes what it lists, newest first. Kinds of change register in UNDOERS.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.files.logs import Journal
from mydyno.files.private import remove_tree
from mydyno.hosts.cgroups import remove_group, return_delegation
from mydyno.hosts.identity import ProcessIdentity, boot_id, end_all, processes_with_cookie
from mydyno.hosts.kernel_settings import give_back
from mydyno.hosts.network import network_card
from mydyno.hosts.network.namespace import remove_namespace
from mydyno.hosts.root import HERE, HostRoot

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


class UndoJournal:
    """The undo journal of one study."""

    def __init__(self, path: Path, root: HostRoot = HERE) -> None:
        self.path = path
        self.root = root
        self._journal = Journal(path)
        self._next = 1 + max((event.get("number", 0) for event in self._journal.read()), default=0)

    @classmethod
    def begin(cls, folder: Path, study: str, study_path: Path, root: HostRoot = HERE) -> UndoJournal:
        """A new journal, owned by this process."""
        folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder / f"{study}.{os.getpid()}.jsonl", root)
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
        )
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
                left = UNDOERS[entry.kind](entry.facts, self.root)
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
        alone, because nothing here shows whether its process lives.
        """
        owner = self.owner()
        if owner is None:
            return True
        began = next(event for event in self._journal.read() if event["event"] == "owner")
        boot = began.get("boot_id")  # none in journals of older versions
        if boot and boot_id() and boot != boot_id():
            return bool(began.get("hostname") == platform.node())
        return not owner[0].alive()

    def undo_all(self) -> list[str]:
        """Undo everything still open, newest first; removes the journal when nothing remains. Returns what remains.

        Processes come before all else: what still runs writes into folders and keeps mounts busy.
        """
        left = []
        for entry in sorted(self.open_entries(), key=lambda entry: entry.kind != "processes"):
            remains = UNDOERS[entry.kind](entry.facts, self.root)
            if remains is not None:
                left.append(remains)
                continue
            with suppress(OSError):  # a full disk: undoing twice is harmless, stopping half-way is not
                self.undone(entry.number)
        if not left:
            self.path.unlink(missing_ok=True)
        return left


def stale_journals(folder: Path, root: HostRoot = HERE) -> list[UndoJournal]:
    """Journals of studies that were killed on this host."""
    journals = [UndoJournal(path, root) for path in sorted(folder.glob("*.jsonl"))]
    return [journal for journal in journals if journal.is_stale()]


def clean_up(folder: Path, say: Callable[[str], None], root: HostRoot = HERE) -> list[str]:
    """Undo what killed studies left on this host; returns what could not be undone."""
    left = []
    for journal in stale_journals(folder, root):
        owner = journal.owner()
        count = len(journal.open_entries())
        left += journal.undo_all()
        if count:
            say(f"cleaned up after {owner[1] if owner else 'a killed study'}: {count} entries undone")
    return left
