"""What a study's live.jsonl says, from its first line to its last."""

from __future__ import annotations

from pathlib import Path

from mydyno.model.stored.live import LiveRecord
from mydyno.store.logs import LIVE_FILE, read_live


def live_records(folder: Path, damaged: int = 0) -> list[LiveRecord]:
    """Every record of a study; exactly so many lines may be of no known kind. read_live returns only a part at once."""
    found: list[LiveRecord] = []
    unknown: list[str] = []
    offset = 0
    while lines := read_live(folder / LIVE_FILE, offset):
        offset = lines[-1].end
        found += [line.record for line in lines if line.record is not None]
        unknown += [line.text for line in lines if line.record is None]
    assert len(unknown) == damaged, unknown
    return found
