"""slices.jsonl: one SliceRecord a line, in order of time. It lies in the block's folder, blocks/NN/slices.jsonl.

What was counted in slices apart, for the servers of one run at one step, is in the run's folder: waits/STEP.json,
kernel/STEP.json and, of a CPU profile, folded stacks in profiles/STEP.folded.gz.

A line is a stack and how often it was sampled: frames from the outermost to the innermost, separated by ";", then a
space and the count; the format that flame graph programs read. A frame is MODULE`FUNCTION, as DTrace writes it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from mydyno.errors import UserError
from mydyno.files.atomic import INCOMPLETE, readable, write_text
from mydyno.model.stored.counted import CountedTotals
from mydyno.model.stored.records import SliceRecord

SLICES_FILE = "slices.jsonl"
ALONE_FILE = "alone.jsonl"
"""The control's slices with the other servers stopped; in a study's first block."""
PROFILED_FILE = "profiled.jsonl"
"""The slices in which the servers were profiled, apart from the measured ones."""
WAITS_FILE = "waits.jsonl"
"""The slices in which the servers' waits were counted, apart from the measured ones."""
KERNEL_FILE = "kernel.jsonl"
"""The same of the slices in which the kernel's events were counted."""
CountedKind = Literal["waits", "kernel"]
"""The folder below the run's."""
T = TypeVar("T", bound=CountedTotals)
PROFILES_FOLDER = "profiles"
WAITING = "uninterruptible wait"
"""Second frame of samples of threads that waited for a disk or a lock of the kernel: no CPU time. Not by perf."""
RUN_QUEUE = "waits for a CPU"
"""Second frame of samples of threads that were ready to run and on no CPU: no CPU time. Not by perf."""
Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]
"""Frames from the outermost to the innermost → samples."""


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


def is_waiting(stack: Stack) -> bool:
    """Whether the sample is of a thread on no CPU, and so stands for no CPU time."""
    return len(stack) > 1 and stack[1] in (WAITING, RUN_QUEUE)


def stacks_file(step: str) -> str:
    """Where the stacks of a step lie, below the run's folder."""
    return f"{PROFILES_FOLDER}/{step}.folded.gz"


def write_stacks(path: Path, stacks: Stacks) -> None:
    """Replace the file as a whole; the same stacks give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = sorted(f"{';'.join(stack)} {count}\n" for stack, count in stacks.items())
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def read_stacks(path: Path) -> dict[Stack, int]:
    """Every stack of the file. Raises UserError if it is missing or damaged."""
    found: dict[Stack, int] = {}
    with readable(path):
        content = path.read_bytes()
        for line in gzip.decompress(content or b"empty").decode().splitlines():
            frames, _, count = line.rpartition(" ")
            found[tuple(frames.split(";"))] = int(count)
    return found
