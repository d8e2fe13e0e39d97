"""The use of memory of a live server, read once after the last step of a run from the kernel and from the allocator.

- /proc/PID/smaps: resident memory of the heap, of other private memory, of files; beside it, InnoDB's own count of the
  pages that hold data. Costs the kernel some milliseconds.
- The server's answer to COM_DEBUG (`mysqladmin debug`): it calls mallinfo2 or mallinfo(3) and prints the result to its
  log. glibc and tcmalloc serve the call (in tcmalloc's words everything is "non-mmapped"). jemalloc and mimalloc
  do not: the C library would report its own figures, so the call is not made. Their figures are available only to code
  inside the process, or when it ends, after the server has released its memory; neither is used.

Wrong where mallinfo counts in 32 bits and the process has 2 GiB or more: then its figures are omitted, with the reason.

The memory mappings of a live process, from /proc/PID/smaps (proc_pid_smaps(5)): size, page size, huge page facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import ServerError
from mydyno.hosts.root import text_of
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Control
from mydyno.treatments.dynamic_linker import STATISTICS_SYMBOLS, Bindings

_LABELS = {
    "Non-mmapped space allocated from system": "arenas",
    "Space in mmapped regions": "mapped",
    "Total allocated space": "in_use",
}
_LINE = re.compile(rf"^({'|'.join(_LABELS)}):\s+(-?\d+)\s*$", re.MULTILINE)
NOT_CALLED = "this server cannot print it"
NOT_SERVED = "it reports its figures only to code inside the process"
LARGEST_COUNTED = 1 << 31
_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \S+ *(.*)$")
_FIELD = re.compile(r"^(\w+): +(\d+)(?: kB)?$")
HUGETLB_NAMES = ("/anon_hugepage", "/SYSV")


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


@dataclass(frozen=True)
class Mapping:
    """One mapping; sizes in bytes."""

    permissions: str
    name: str
    size_bytes: int
    page_bytes: int
    """KernelPageSize: what the kernel backs it with; 2 MiB only for hugetlb, never for transparent huge pages."""
    resident_bytes: int
    anonymous_huge_bytes: int
    thp_eligible: bool

    @property
    def anonymous(self) -> bool:
        """Memory of no file, and not the heap or a stack; newer allocators give theirs a name."""
        return (self.name == "" or self.name.startswith("[anon")) and self.permissions == "rw-p"


def read_mappings(pid: int) -> list[Mapping] | None:
    """None if the kernel does not permit reading them."""
    text = text_of(Path(f"/proc/{pid}/smaps"))
    return parse_smaps(text) if text else None


def parse_smaps(text: str) -> list[Mapping]:
    """Every mapping in the order of addresses."""
    mappings: list[Mapping] = []
    head: tuple[str, str] | None = None
    fields: dict[str, int] = {}
    for line in [*text.splitlines(), "0-0 ---- 0 0 0"]:
        match = _HEAD.match(line)
        if match is None:
            field = _FIELD.match(line)
            if field is not None:
                fields[field[1]] = int(field[2])
            continue
        if head is not None:
            mappings.append(_mapping(head, fields))
        head, fields = (match[1], match[2]), {}
    return mappings


def _mapping(head: tuple[str, str], fields: dict[str, int]) -> Mapping:
    return Mapping(
        permissions=head[0],
        name=head[1],
        size_bytes=fields.get("Size", 0) << 10,
        page_bytes=fields.get("KernelPageSize", 0) << 10,
        resident_bytes=fields.get("Rss", 0) << 10,
        anonymous_huge_bytes=fields.get("AnonHugePages", 0) << 10,
        thp_eligible=bool(fields.get("THPeligible", 0)),
    )


@dataclass(frozen=True)
class PoolMappings:
    """The pages of a buffer pool by kind, in bytes."""

    hugetlb: int
    eligible: int
    """Memory on 4 KiB pages that the kernel may replace by transparent huge pages."""
    plain: int
    """Memory on 4 KiB pages that the kernel does not replace."""


def pool_mappings(mappings: Sequence[Mapping], unit_bytes: int) -> PoolMappings:
    """The mappings that can hold a piece of the pool: those of at least `unit_bytes`, a chunk or an instance's share.

    Smaller ones (key cache, log buffers) ask for huge pages too and may use pages that the pool then lacks.
    """
    hugetlb = eligible = plain = 0
    for mapping in mappings:
        if mapping.size_bytes < 0.98 * unit_bytes:
            continue
        if mapping.page_bytes > 4096 and mapping.name.startswith(HUGETLB_NAMES):
            hugetlb += mapping.size_bytes
        elif mapping.anonymous and mapping.thp_eligible:
            eligible += mapping.size_bytes
        elif mapping.anonymous or mapping.name == "[heap]":
            plain += mapping.size_bytes
    return PoolMappings(hugetlb, eligible, plain)
