"""Folded stacks: what a CPU profile of one run at one step found. profiles/STEP.folded.gz in the run's folder.

A line is a stack and how often it was sampled: frames from the outermost to the innermost, separated by ";", then a
space and the count; the format that flame graph programs read. A frame is MODULE`FUNCTION, as DTrace writes it.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from mydyno.store.reading import readable

PROFILES_FOLDER = "profiles"
WAITING = "uninterruptible wait"
"""Second frame of samples of threads that waited for a disk or a lock of the kernel: no CPU time. Not by perf."""
RUN_QUEUE = "waits for a CPU"
"""Second frame of samples of threads that were ready to run and on no CPU: no CPU time. Not by perf."""
Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]
"""Frames from the outermost to the innermost → samples."""


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
