"""The buffer pool's pages: "4k", "thp" (transparent huge pages) or "hugetlb" (large_pages, 2 MB reserved ahead).

Every arm sets both: large_pages, and the host's transparent_hugepage/enabled (never, or always for "thp"). For hugetlb,
vm.nr_hugepages is raised by what this server can ask for, and vm.hugetlb_shm_group is set for MySQL before 8.0. All
three are restored after the run (kernel: admin-guide/mm/hugetlbpage.rst). Proved from smaps of the live process:
servers fall back to small pages silently. Memory on hugetlb pages is not in RSS but in server_hugetlb_bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from mydyno.errors import HostError
from mydyno.hosts.held_settings import Hold
from mydyno.hosts.kernel_settings import read_setting
from mydyno.hosts.root import text_of
from mydyno.model.definition.experiment import Scalar, ServerSpec
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.stored.records import Evidence
from mydyno.servers.catalogue import known_servers
from mydyno.servers.my_cnf import adapt_variables
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import as_private
from mydyno.treatments.allocator_memory import pool_mappings, read_mappings, where_memory_lies
from mydyno.treatments.base import Treatment

Pages = Literal["4k", "thp", "hugetlb"]
SETTING: TypeAdapter[Any] = TypeAdapter(Pages)
THP = "kernel/mm/transparent_hugepage/enabled"
"""Below /sys."""
NR_HUGEPAGES = "sys/vm/nr_hugepages"
SHM_GROUP = "sys/vm/hugetlb_shm_group"
"""Below /proc."""
PAGE_BYTES = 2 << 20
DEFAULT_POOL_BYTES = 128 << 20
OTHER_CACHES: dict[str, int] = {
    "key_buffer_size": 128 << 20,
    "aria_pagecache_buffer_size": 128 << 20,
    "innodb_log_buffer_size": 16 << 20,
}
"""The other users of huge pages when large_pages is on, with the largest default of any version."""
SPARE_SHARE = 0.06
"""Block descriptors and rounding: 3 to 5 % on top of the pool in MySQL (measured on 5.5, 5.6 and 9.7)."""


class HugePagesTreatment(Treatment):
    """One arm's pages."""

    name = "huge_pages"

    def __init__(self, value: Pages) -> None:
        self._pages = value
        self._holds: list[Hold] = []
        self._instance: RunningServer | None = None

    @property
    def alone_because(self) -> str:
        """THP is switched for the whole host, and the other pages need it switched off."""
        if self._pages != "thp":
            return ""
        return f"thp sets {self._switch} to always for the whole host, and so for every arm's server"

    @property
    def needed_in_every_arm_because(self) -> str:
        """4 KB pages and reserved ones alike keep THP switched off."""
        return f"it sets {self._switch} to {self._thp} for the whole host"

    def obstacle(self, server: ServerSpec) -> str | None:
        """Root, and a kernel that has them."""
        if server.dsn is not None:
            return "an external server (dsn) is never reconfigured; use server.name or server.basedir"
        if not self.root.is_root:
            return "changing the kernel's huge page settings needs root: run mydyno as root"
        for path in (self._switch, self._count):
            if not os.access(path, os.W_OK):
                return f"{path} cannot be written (a container, or a kernel without huge pages)"
        return None

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """THP that the server switches off for itself; for hugetlb too little free memory."""
        entry = known_servers().get(server.name or "")
        if self._pages == "thp" and entry is not None and entry.version.flavour == "mariadb":
            return f"{entry.title} switches transparent huge pages off for itself once its buffers are allocated"
        if self._pages == "hugetlb" and server.dsn is None:
            needed, free = reserve_bytes(server.variables), self._free_bytes()
            if needed > free:
                return f"{format_bytes(needed)} of huge pages are needed, but {format_bytes(free)} of memory are free"
        return None

    def host_changes(self, server: ServerSpec) -> list[str]:
        """What is set for the time of a run."""
        del server
        changes = [f"{self._switch} = {self._thp} (restored after each run)"]
        if self._pages == "hugetlb":
            changes.append("vm.nr_hugepages and vm.hugetlb_shm_group (restored after each run)")
        return changes

    @property
    def _thp(self) -> str:
        return "always" if self._pages == "thp" else "never"

    @property
    def _switch(self) -> Path:
        return self.root.sys / THP

    @property
    def _count(self) -> Path:
        return self.root.proc / NR_HUGEPAGES

    def _free_bytes(self) -> int:
        pairs = dict(line.split(":", 1) for line in (self.root.proc / "meminfo").read_text().splitlines())
        return int(pairs["MemAvailable"].split()[0]) << 10

    async def apply(self, instance: RunningServer) -> None:
        """Set the kernel, then my.cnf. Raises HostError if the kernel refuses."""
        self._instance = instance
        instance.settings.variables["large_pages"] = "ON" if self._pages == "hugetlb" else "OFF"
        self._set(self._switch, self._thp)
        if self._pages != "hugetlb":
            return
        build = as_private(instance).build
        base = adapt_variables(instance.settings.base, build.version, build.variables).variables
        pages = -(-reserve_bytes({**base, **instance.settings.variables}) // PAGE_BYTES)
        if (owner := instance.host.server_owner) is not None:
            self._set(self.root.proc / SHM_GROUP, str(owner[1]))
        hold, granted = instance.host.held_settings.add(instance.undo, self._count, pages)
        self._holds.append(hold)
        if granted < pages:
            await self.undo()
            raise HostError(
                f"vm.nr_hugepages: {pages} more pages were requested, the kernel reserved {granted}",
                "memory is fragmented: reboot, or echo 1 > /proc/sys/vm/compact_memory, or use a smaller buffer pool",
            )

    def _set(self, path: Path, value: str) -> None:
        assert self._instance is not None
        hold, _ = self._instance.host.held_settings.hold(self._instance.undo, path, value)
        self._holds.append(hold)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """The pool's mappings in the live process, and the kernel's setting."""
        async with instance.control() as control:
            variables = await control.variables()
        pool = int(variables["innodb_buffer_pool_size"])
        mappings = read_mappings(instance.pid)
        found = pool_mappings(mappings or [], unit_bytes(variables))
        thp = read_setting(self._switch)
        reasons = []
        if self._pages == "thp" and _switched_off(instance.pid):
            reasons.append("the server has switched transparent huge pages off for itself (THP_enabled: 0)")
        where = {"hugetlb": found.hugetlb, "thp": found.eligible, "4k": found.plain}[self._pages]
        if mappings is None:
            reasons.append("smaps of the live process cannot be read")
        elif where < 0.98 * pool:
            words = {"hugetlb": "2 MB pages", "thp": "mappings open to transparent huge pages", "4k": "4 KB pages"}
            reasons.append(
                f"{format_bytes(where)} of the pool's {format_bytes(pool)} are on {words[self._pages]} (hugetlb "
                f"{format_bytes(found.hugetlb)}, THP-eligible {format_bytes(found.eligible)}, 4 KB "
                f"{format_bytes(found.plain)}); large_pages says {variables.get('large_pages')}"
            )
        if self._pages != "hugetlb" and found.hugetlb:
            reasons.append(f"{format_bytes(found.hugetlb)} are on hugetlb pages")
        if thp != self._thp:
            reasons.append(f"{self._switch} is {thp}, wanted {self._thp}")
        text = "; ".join(reasons) or _words(self._pages, where, pool, thp)
        facts = {
            "pool_bytes": pool,
            **found.__dict__,
            "transparent_hugepage": thp,
            "nr_hugepages": read_setting(self._count),
            "large_pages": variables.get("large_pages"),
        }
        return Evidence(treatment=self.name, holds=not reasons, text=text, facts=facts, instance=instance.number)

    async def account(self, instance: RunningServer) -> Evidence:
        """The use of memory after the load; it is information only, and an unavailable value is not a failure."""
        facts = await where_memory_lies(instance, None)
        text = f"use of memory after the last load level: {facts.get('untold', 'smaps read')}"
        return Evidence(treatment=self.name, holds=True, text=text, facts=facts, instance=instance.number)

    async def undo(self) -> None:
        """Restore every setting, the last one first; one that another server needs stays until that server stops."""
        if self._instance is None:
            return
        for hold in reversed(self._holds):
            self._instance.host.held_settings.release(hold)
        self._holds.clear()


def _words(pages: Pages, where: int, pool: int, thp: str) -> str:
    what = {
        "hugetlb": "on reserved 2 MB pages",
        "thp": "open to transparent huge pages",
        "4k": "on 4 KB pages and closed to huge ones",
    }[pages]
    return f"{format_bytes(where)} of mappings for a pool of {format_bytes(pool)} {what} (smaps; THP is {thp})"


def _switched_off(pid: int) -> bool:
    """Whether the process did prctl(PR_SET_THP_DISABLE); false if the kernel does not report it (before 5.0)."""
    return "\nTHP_enabled:\t0" in text_of(Path(f"/proc/{pid}/status"))


def unit_bytes(variables: dict[str, str]) -> int:
    """The least size of a mapping that holds a piece of the pool: a chunk, an instance's share, or the whole pool."""
    pool = int(variables["innodb_buffer_pool_size"])
    chunk = int(variables.get("innodb_buffer_pool_chunk_size") or 0)
    instances = int(variables.get("innodb_buffer_pool_instances") or 1)
    return min(pool, chunk) if chunk else pool // max(1, instances)


def reserve_bytes(variables: dict[str, Scalar]) -> int:
    """How much a server with these variables may ask for: pool, its descriptors, and the other caches."""
    plain = {name.lower().replace("-", "_"): value for name, value in variables.items()}
    pool = parse_bytes(plain.get("innodb_buffer_pool_size", DEFAULT_POOL_BYTES))
    others = sum(parse_bytes(plain.get(name, default)) + PAGE_BYTES for name, default in OTHER_CACHES.items())
    log_buffer = parse_bytes(plain.get("innodb_log_buffer_size", OTHER_CACHES["innodb_log_buffer_size"]))
    return int(pool * (1 + SPARE_SHARE)) + others + log_buffer + 16 * PAGE_BYTES
