"""An undo journal of a study that was killed."""

from __future__ import annotations

import json

from mydyno.hosts.undo import UndoJournal


def disowned(journal: UndoJournal, pid: int = 1, start_ticks: int = -5, **facts: object) -> UndoJournal:
    """The journal as if another process had begun it; a fact that is None is left out."""
    text = journal.path.read_text()
    first = json.loads(text.splitlines()[0]) | {"pid": pid, "start_ticks": start_ticks} | facts
    first = {name: value for name, value in first.items() if value is not None}
    journal.path.write_text("\n".join([json.dumps(first), *text.splitlines()[1:]]) + "\n")
    return UndoJournal(journal.path, journal.root)
