"""From the text of `perf script` to folded stacks. Pure.

Symbols are perf's own: a program's symbol table, its debug symbols where they are installed, else its dynamic symbols.
A function without a symbol is [unknown], one for each module: only its module is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mydyno.store.stacks import Stack

SCRIPT_FIELDS = "tid,time,ip,sym,dso"
UNKNOWN = "[unknown]"
CUT_OFF = "[stack cut off]"
"""Outermost frame of stacks that do not reach the beginning of their thread."""
KERNEL = "kernel"
_FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)$")
_CLONES = re.compile(r"(\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)?)+$")
"""Suffixes of the compiler's copies of a function."""
_NO_ADDRESS = "ffffffffffffffff"
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")
_OUTERMOST = re.compile(
    r"^[^`]*`(start_thread|_*clone3?|_start|_dl_.*|__libc_start.*|ret_from_fork.*)$|^(libc|libpthread)[-.][^`]*`\[unknown\]$"
)
"""Where threads begin, also of a C library without symbols."""


@dataclass
class Folded:
    """The samples of one profile."""

    stacks: Counter[Stack] = field(default_factory=Counter)
    lost: int = 0
    """Samples that perf reported as lost."""
    cut_off: int = 0
    """Samples whose stack does not reach the beginning of its thread."""
    frames: int = 0
    unknown_frames: int = 0
    """Frames of all samples, and those of them without a name."""

    @property
    def samples(self) -> int:
        """Samples with a stack."""
        return self.stacks.total()

    def add(self, other: Folded) -> None:
        """Add the samples of another profile."""
        self.stacks.update(other.stacks)
        self.lost += other.lost
        self.cut_off += other.cut_off
        self.frames += other.frames
        self.unknown_frames += other.unknown_frames


def fold(lines: Iterable[str]) -> Folded:
    """The folded stacks of the output of `perf script -F tid,time,ip,sym,dso`."""
    folded = Folded()
    frames: list[str] = []
    for line in lines:
        match = _FRAME.match(line)
        if match:
            address, symbol, path = match.groups()
            if address != _NO_ADDRESS:
                frames.append(frame_name(symbol, path))
        elif lost := _LOST.search(line):
            folded.lost += int(lost[1])
        else:
            _take(folded, frames)
            frames = []
    _take(folded, frames)
    return folded


def _take(folded: Folded, innermost_first: list[str]) -> None:
    if not innermost_first:
        return
    stack = tuple(reversed(innermost_first))
    folded.frames += len(stack)
    folded.unknown_frames += sum(frame.endswith(UNKNOWN) for frame in stack)
    if not _OUTERMOST.match(stack[0]):
        folded.cut_off += 1
        stack = (CUT_OFF, *stack)
    folded.stacks[stack] += 1


def frame_name(symbol: str, path: str) -> str:
    """MODULE`FUNCTION, without the compiler's suffixes and without characters that the folded format needs."""
    module = path.removesuffix(" (deleted)").rpartition("/")[2]
    if module.startswith(("[kernel", "[guest.kernel")) or path.endswith(".ko"):
        module = KERNEL
    function = _CLONES.sub("", symbol.partition("+0x")[0])
    return f"{module}`{function}".replace(";", ":").replace(" ", "_") if function != UNKNOWN else f"{module}`{UNKNOWN}"
