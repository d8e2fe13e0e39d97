"""slices.jsonl: one SliceRecord a line, in order of time. It lies in the block's folder, blocks/NN/slices.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from mydyno.errors import UserError
from mydyno.files.atomic import write_text
from mydyno.model.stored.records import SliceRecord
from mydyno.store.reading import INCOMPLETE, readable

SLICES_FILE = "slices.jsonl"
ALONE_FILE = "alone.jsonl"
"""The control's slices with the other servers stopped; in a study's first block."""
PROFILED_FILE = "profiled.jsonl"
"""The slices in which the servers were profiled, apart from the measured ones."""
WAITS_FILE = "waits.jsonl"
"""The slices in which the servers' waits were counted, apart from the measured ones."""
KERNEL_FILE = "kernel.jsonl"
"""The same of the slices in which the kernel's events were counted."""


def write_slices(path: Path, slices: Iterable[SliceRecord]) -> None:
    """Replace the file as a whole; what has its default value is omitted."""
    write_text(path, "".join(one.model_dump_json(by_alias=True, exclude_defaults=True) + "\n" for one in slices))


def read_slices(path: Path) -> list[SliceRecord]:
    """Every slice of the file, in its order; an absent file has none. Raises UserError if a line is damaged."""
    with readable(path):
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
    slices = []
    for number, line in enumerate(lines, 1):
        try:
            slices.append(SliceRecord.model_validate_json(line))
        except ValidationError as error:
            raise UserError(f"{path}, line {number}: {error}", INCOMPLETE) from error
    return slices
