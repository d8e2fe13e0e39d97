"""Kernel settings that several servers of one study need at the same time: set for the first, restored after the last.

The value from before the first is in the undo journal, once, before anything is written. So whatever the order in which
the servers are taken down, and after kill -9 too, it is that value that comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.kernel_settings import read_setting, write_setting
from mydyno.hosts.root import HostRoot
from mydyno.hosts.undo import UndoJournal


@dataclass(eq=False)
class Hold:
    """One server's share of a setting; pass it to HeldSettings.release()."""

    path: Path
    amount: int | None
    """What was added; None: a value that is the same for all."""


@dataclass
class _Held:
    """A setting while a server holds it."""

    undo: UndoJournal
    entry: int | None
    """Entry in the undo journal; None: the setting already had the wanted value."""
    value: str | None
    """The value of all holders; None if each adds an amount."""
    holds: list[Hold]


class HeldSettings:
    """The settings held now. To be used from one thread."""

    def __init__(self, write: Callable[[Path, str, HostRoot], str] = write_setting) -> None:
        self._write_setting = write
        self._held: dict[Path, _Held] = {}

    def hold(self, undo: UndoJournal, path: Path, value: str) -> tuple[Hold, str]:
        """Set a value; returns the hold and the value that the kernel accepted.

        Raises HostError if the kernel refuses it, or a server holds the setting with another value.
        """
        held = self._held.get(path)
        if held is None:
            before = read_setting(path)
            entry = None if before == value else undo.will_change("sysctl", path=str(path), before=before)
            held = self._held[path] = _Held(undo, entry, value, [])
            hold = self._add(held, path, None)
            return hold, (before if before == value else self._write(undo, hold, value))
        if held.value != value:
            wanted = "amounts that are added up" if held.value is None else held.value
            raise HostError(f"{path} must be {value}, but another server of this study needs {wanted}")
        return self._add(held, path, None), read_setting(path)

    def add(self, undo: UndoJournal, path: Path, amount: int) -> tuple[Hold, int]:
        """Raise a count by an amount; returns the hold and by how much the kernel raised it, which can be less.

        Raises HostError if the kernel refuses it, or a server holds the setting with one value.
        """
        now = int(read_setting(path))
        held = self._held.get(path)
        if held is None:
            entry = undo.will_change("sysctl", path=str(path), before=str(now))
            held = self._held[path] = _Held(undo, entry, None, [])
        if held.value is not None:
            raise HostError(f"{path} must be raised, but another server of this study needs {held.value}")
        hold = self._add(held, path, amount)
        return hold, int(self._write(undo, hold, str(now + amount))) - now

    def _add(self, held: _Held, path: Path, amount: int | None) -> Hold:
        hold = Hold(path, amount)
        held.holds.append(hold)
        return hold

    def _write(self, undo: UndoJournal, hold: Hold, value: str) -> str:
        try:
            return self._write_setting(hold.path, value, undo.root)
        except HostError:
            self.release(hold)
            raise

    def release(self, hold: Hold) -> None:
        """Release this share; releasing the last one restores the setting. Safe to call again."""
        held = self._held.get(hold.path)
        if held is None or hold not in held.holds:
            return
        held.holds.remove(hold)
        if not held.holds:
            del self._held[hold.path]
            if held.entry is not None:
                held.undo.undo(held.entry)
        elif hold.amount is not None:
            left = max(0, int(read_setting(hold.path)) - hold.amount)
            self._write_setting(hold.path, str(left), held.undo.root)
