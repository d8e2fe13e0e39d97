"""The memory mappings of a live process, from /proc/PID/smaps (proc_pid_smaps(5)): size, page size, huge page facts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S{4}) \S+ \S+ \S+ *(.*)$")
_FIELD = re.compile(r"^(\w+): +(\d+)(?: kB)?$")
HUGETLB_NAMES = ("/anon_hugepage", "/SYSV")


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
    try:
        return parse_smaps(Path(f"/proc/{pid}/smaps").read_text(errors="replace"))
    except OSError:
        return None


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
