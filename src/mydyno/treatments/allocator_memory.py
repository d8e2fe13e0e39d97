"""The use of memory of a live server, read once after the last step of a run from the kernel and from the allocator.

- /proc/PID/smaps: resident memory of the heap, of other private memory, of files; beside it, InnoDB's own count of the
  pages that hold data. Costs the kernel some milliseconds.
- The server's answer to COM_DEBUG (`mysqladmin debug`): it calls mallinfo2 or mallinfo(3) and prints the result to its
log. glibc and tcmalloc serve the call (in tcmalloc's words everything is "non-mmapped"). jemalloc and mimalloc
  do not: the C library would report its own figures, so the call is not made. Their figures are available only to code
  inside the process, or when it ends, after the server has released its memory; neither is used.

Wrong where mallinfo counts in 32 bits and the process has 2 GiB or more: then its figures are omitted, with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import ServerError
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Control
from mydyno.treatments.dynamic_linker import STATISTICS_SYMBOLS, Bindings
from mydyno.treatments.smaps import HUGETLB_NAMES, Mapping, read_mappings

_LABELS = {
    "Non-mmapped space allocated from system": "arenas",
    "Space in mmapped regions": "mapped",
    "Total allocated space": "in_use",
}
_LINE = re.compile(rf"^({'|'.join(_LABELS)}):\s+(-?\d+)\s*$", re.MULTILINE)
NOT_CALLED = "this server cannot print it"
NOT_SERVED = "it reports its figures only to code inside the process"
LARGEST_COUNTED = 1 << 31


@dataclass(frozen=True)
class AllocatorReport:
    """The allocator's own figures, in bytes."""

    held: int
    """Obtained from the kernel and not released."""
    in_use: int
    """The part of `held` that the server has allocated and not freed."""


@dataclass(frozen=True)
class StatisticsCall:
    """How the server reads the allocator's figures."""

    symbol: str
    """mallinfo2 or mallinfo; empty if there is none."""
    because: str = ""
    """Why there is none."""


def statistics_call(found: Bindings, program: Path, library: Path) -> StatisticsCall:
    """The program's call if this library provides it; otherwise the figures would be those of another library."""
    for symbol in STATISTICS_SYMBOLS:
        for provider, users in found.of(symbol).items():
            if any(Path(user).resolve() == program.resolve() for user in users):
                ours = Path(provider).resolve() == library.resolve()
                return StatisticsCall(symbol) if ours else StatisticsCall("", NOT_SERVED)
    return StatisticsCall("", NOT_CALLED)


async def where_memory_lies(instance: RunningServer, call: StatisticsCall | None) -> dict[str, Any]:
    """Bytes by kind, and under "untold" why the allocator's own figures are not among them. Never raises.

    `call` is None if they are not requested.
    """
    mappings = read_mappings(instance.pid)
    if mappings is None:
        return {"untold": "the kernel does not permit reading the server's smaps"}
    facts: dict[str, Any] = _of_mappings(mappings)
    try:
        async with instance.control() as control:
            facts["pool_data_bytes"] = await _pool_data_bytes(control)
            if call is None:
                return facts
            reported = await _allocator_report(instance, control, call, mappings)
    except ServerError as error:
        return facts | {"untold": f"the server did not answer: {error.message}"}
    if isinstance(reported, str):
        return facts | {"untold": reported}
    return facts | {"allocator_held_bytes": reported.held, "allocator_in_use_bytes": reported.in_use}


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


async def _allocator_report(
    instance: RunningServer, control: Control, call: StatisticsCall, mappings: list[Mapping]
) -> AllocatorReport | str:
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
        return (
            parse_memory_status(log.read().decode(errors="replace")) or "the server's log does not contain the output"
        )


def parse_memory_status(text: str) -> AllocatorReport | None:
    """The "Memory status" of a server's answer to COM_DEBUG, the last one in the text; None if it is incomplete."""
    found = {_LABELS[label]: int(value) for label, value in _LINE.findall(text)}
    if len(found) < len(_LABELS):
        return None
    return AllocatorReport(held=found["arenas"] + found["mapped"], in_use=found["in_use"] + found["mapped"])
