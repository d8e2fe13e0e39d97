"""What was counted for the servers of one run at one step: waits/STEP.json and kernel/STEP.json in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from mydyno.files.atomic import write_text
from mydyno.model.stored.slices_apart import CountedTotals
from mydyno.store.reading import readable

CountedKind = Literal["waits", "kernel"]
"""The folder below the run's."""
T = TypeVar("T", bound=CountedTotals)


def totals_file(kind: CountedKind, step: str) -> str:
    """Where the counts of a step lie, below the run's folder."""
    return f"{kind}/{step}.json"


def write_totals(path: Path, totals: CountedTotals) -> None:
    """Replace the file as a whole."""
    write_text(path, totals.model_dump_json(indent=1) + "\n")


def read_totals(path: Path, kind: type[T]) -> T:
    """The file's content. Raises UserError if it is missing or damaged."""
    with readable(path):
        return kind.model_validate_json(path.read_bytes())
