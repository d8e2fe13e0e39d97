"""Where a live server's memory lies, asked once behind the last step of a run: of the kernel, and of the allocator.

- /proc/PID/smaps: resident memory of the heap, of other private memory, of files; beside it, InnoDB's own count of the
  pages that hold data. Costs the kernel some milliseconds.
- The server's answer to COM_DEBUG (`mysqladmin debug`): it calls mallinfo2 or mallinfo(3) and prints what it is told
  to its log. glibc and tcmalloc serve the call (in tcmalloc's words everything is "non-mmapped"). jemalloc and mimalloc
  do not: the C library would answer for itself, so it is not asked. Theirs are to be had from code inside the process
  alone, or when it ends, after the server has given its memory back; neither is done.

Wrong where mallinfo counts in 32 bits and the process has 2 GiB or more: then its figures are left out, aloud.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import ServerError
from mydyno.servers.instance import Instance
from mydyno.servers.sql import Control
from mydyno.treatments.dynamic_linker import STATISTICS_SYMBOLS, Bindings
from mydyno.treatments.smaps import HUGETLB_NAMES, Mapping, read_mappings

_LABELS = {
    "Non-mmapped space allocated from system": "arenas",
    "Space in mmapped regions": "mapped",
    "Total allocated space": "in_use",
}
_LINE = re.compile(rf"^({'|'.join(_LABELS)}):\s+(-?\d+)\s*$", re.MULTILINE)
NOT_CALLED = "this server has no words by which to ask"
NOT_SERVED = "it tells its own figures only to code inside the process"
LARGEST_COUNTED = 1 << 31


@dataclass(frozen=True)
class Told:
    """What the allocator says of itself, in bytes."""

    held: int
    """Taken from the kernel and not given back."""
    in_use: int
    """Of that, what the server has asked for and not freed."""


@dataclass(frozen=True)
class StatisticsCall:
    """How the server asks the allocator what it holds."""

    symbol: str
    """mallinfo2 or mallinfo; empty where there is no way."""
    because: str = ""
    """Why there is none."""


def statistics_call(found: Bindings, program: Path, library: Path) -> StatisticsCall:
    """The program's call, where this library serves it; where another one answers, its figures would be that one's."""
    for symbol in STATISTICS_SYMBOLS:
        for provider, users in found.of(symbol).items():
            if any(Path(user).resolve() == program.resolve() for user in users):
                ours = Path(provider).resolve() == library.resolve()
                return StatisticsCall(symbol) if ours else StatisticsCall("", NOT_SERVED)
    return StatisticsCall("", NOT_CALLED)


async def where_memory_lies(instance: Instance, call: StatisticsCall | None) -> dict[str, Any]:
    """Bytes by kind, and under "untold" why the allocator's own figures are not among them. Never raises.

    `call` is None where nobody asks for those.
    """
    mappings = read_mappings(instance.pid)
    if mappings is None:
        return {"untold": "the kernel does not let mydyno read the server's smaps"}
    facts: dict[str, Any] = _of_mappings(mappings)
    try:
        async with instance.control() as control:
            facts["pool_data_bytes"] = await _pool_data_bytes(control)
            if call is None:
                return facts
            told = await _told(instance, control, call, mappings)
    except ServerError as error:
        return facts | {"untold": f"the server did not answer: {error.message}"}
    if isinstance(told, str):
        return facts | {"untold": told}
    return facts | {"allocator_held_bytes": told.held, "allocator_in_use_bytes": told.in_use}


def _of_mappings(mappings: list[Mapping]) -> dict[str, int]:
    heap = sum(one.resident_bytes for one in mappings if one.name == "[heap]")
    private = sum(one.resident_bytes for one in mappings if one.anonymous)
    whole = sum(one.resident_bytes for one in mappings)
    return {
        "heap_bytes": heap,
        "anonymous_bytes": private,
        "other_bytes": whole - heap - private,
        "transparent_huge_bytes": sum(one.anonymous_huge_bytes for one in mappings),
        "reserved_huge_bytes": sum(one.size_bytes for one in mappings if one.name.startswith(HUGETLB_NAMES)),
    }


async def _pool_data_bytes(control: Control) -> int:
    status = await control.status()
    return int(status.get("Innodb_buffer_pool_pages_data", 0) * status.get("Innodb_page_size", 0))


async def _told(instance: Instance, control: Control, call: StatisticsCall, mappings: list[Mapping]) -> Told | str:
    if not call.symbol:
        return call.because
    writable = sum(one.size_bytes for one in mappings if one.anonymous or one.name == "[heap]")
    if call.symbol == "mallinfo" and writable >= LARGEST_COUNTED:
        return "mallinfo counts in 32 bits, and this process has 2 GiB or more"
    begins = instance.log.stat().st_size if instance.log.exists() else 0
    for _ in range(2):  # MySQL 5.5 leaves the end of an answer in a buffer, which the next answer flushes
        await control.debug()
    with instance.log.open("rb") as log:
        log.seek(begins)
        return parse_memory_status(log.read().decode(errors="replace")) or "the server's log does not hold its answer"


def parse_memory_status(text: str) -> Told | None:
    """The "Memory status" of a server's answer to COM_DEBUG, the last one in the text; None where it is not whole."""
    found = {_LABELS[label]: int(value) for label, value in _LINE.findall(text)}
    if len(found) < len(_LABELS):
        return None
    return Told(held=found["arenas"] + found["mapped"], in_use=found["in_use"] + found["mapped"])
