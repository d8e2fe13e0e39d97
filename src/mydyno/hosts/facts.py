"""Facts of the host that are needed to judge or repeat a result, read from the kernel's files.

Which disk a folder lies on, as the kernel's I/O limits want it, is the number of the whole disk. A file's st_dev is
that of a partition, where limits are refused, or an anonymous number (overlay, btrfs, tmpfs), where they mean nothing.
So the mount's source is looked up, and a partition's parent taken. LVM, dm-crypt and md count as disks themselves: that
is where the server's bios are seen. How fast the disk takes small writes that must be on it, which is what a commit
waits for, is measured once before a study, while nothing of it runs, for half a second.
"""

from __future__ import annotations

import os
import platform
import re
import time
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.files.private import new_file
from mydyno.hosts.cgroups import lines
from mydyno.hosts.limits import usable_cpus, usable_memory
from mydyno.hosts.root import HERE, HostRoot, text_of

WRITEBACK_FILESYSTEMS = ("ext2", "ext3", "ext4", "btrfs", "f2fs", "xfs")
"""File systems whose written-back pages are charged to the group that dirtied them (cgroup-v2.rst, Writeback)."""
MEASURED_S = 0.5
"""For synced writes."""
_WRITTEN = bytes(4096)


@dataclass(frozen=True)
class Disk:
    """The whole disk below a folder."""

    device: str
    """MAJOR:MINOR."""
    name: str
    filesystem: str


def disk_of(folder: Path, root: Path = Path("/")) -> Disk:
    """The disk of a folder or of its nearest existing parent. Raises HostError if there is none to limit."""
    folder = nearest_existing(folder.resolve())
    number = folder.stat().st_dev
    best = _mount_of(folder, root)
    if best is None:
        raise HostError(f"no mount of this host holds {folder}")
    _, own, kind, source = best
    if os.major(number) == 0:
        try:
            number = Path(source).stat().st_rdev if source.startswith("/") else 0
        except OSError:
            number = 0
        if os.major(number) == 0:
            raise HostError(
                f"{folder} is on {kind} ({source}), which is not on a disk that can be limited",
                "put the data on ext4, xfs or btrfs on a disk: --data DIR",
            )
        own = f"{os.major(number)}:{os.minor(number)}"
    block = root / "sys/dev/block" / own
    if not block.exists():
        raise HostError(f"{folder} is on device {own} ({kind}), which is not a block device of this host")
    if kind not in WRITEBACK_FILESYSTEMS:
        raise HostError(
            f"{folder} is on {kind}: its written-back pages are not charged to a group, so no limit applies to writes",
            f"put the data on one of {', '.join(WRITEBACK_FILESYSTEMS)}: --data DIR",
        )
    real = block.resolve()
    if (real / "partition").exists():
        real = real.parent
    return Disk((real / "dev").read_text().strip(), real.name, kind)


def nearest_existing(folder: Path) -> Path:
    """The folder, or its nearest parent that is there."""
    return next(one for one in (folder, *folder.parents) if one.exists())


def _mount_of(folder: Path, root: Path) -> tuple[Path, str, str, str] | None:
    """(mount point, device number, file system, source) of the innermost mount over the folder (proc(5), mountinfo)."""
    found = []
    for line in lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, (kind, source, *_) = before.split(), after.split()
        found.append((Path(fields[4].replace("\\040", " ")), fields[2], kind, source))
    over = [mount for mount in reversed(found) if mount[0] in (folder, *folder.parents)]
    return max(over, key=lambda mount: len(mount[0].parts), default=None)


def synced_writes_per_s(folder: Path) -> float:
    """Writes of 4 KB to the folder's disk, each with fdatasync(2), one after the other; NaN if it failed."""
    path = folder / f".synced-{os.getpid()}"
    try:
        descriptor = new_file(path)
        try:
            count, began = 0, time.monotonic()
            while time.monotonic() - began < MEASURED_S:
                os.pwrite(descriptor, _WRITTEN, 0)
                os.fdatasync(descriptor)
                count += 1
            return count / (time.monotonic() - began)
        finally:
            os.close(descriptor)
            path.unlink()
    except (HostError, OSError):
        return nan


def host_facts(data: Path, root: HostRoot = HERE) -> dict[str, Any]:
    """Facts of this host and of the file system under the data folder. What cannot be read is absent, never empty."""
    cpus, memory = usable_cpus(root), usable_memory(root)
    facts: dict[str, Any] = {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "distribution": _match(root.folder / "etc/os-release", r'PRETTY_NAME="([^"]+)"'),
        "cpus": root.cpu_count,
        "cpus_usable": int(cpus.amount) if cpus.amount == int(cpus.amount) else cpus.amount,
        "cpus_limit": cpus.limit or None,
        "cpu_model": _match(root.proc / "cpuinfo", r"model name\s*: (.+)"),
        "memory_bytes": root.memory_bytes,
        "memory_usable_bytes": int(memory.amount) if memory.limit else None,
        "memory_limit": memory.limit or None,
        "glibc": platform.libc_ver()[1] or None,
        "virtualisation": _virtualisation(root),
        "transparent_hugepages": _selected(root.sys / "kernel/mm/transparent_hugepage/enabled"),
        "transparent_hugepages_defrag": _selected(root.sys / "kernel/mm/transparent_hugepage/defrag"),
        "cpu_governor": _read(root.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "swappiness": _read(root.proc / "sys/vm/swappiness"),
        "address_space_randomisation": _read(root.proc / "sys/kernel/randomize_va_space"),
        "clock_source": _read(root.sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        "numa_nodes": len(list((root.sys / "devices/system/node").glob("node[0-9]*"))) or None,
        "filesystem": _filesystem(data, root),
        "load_average_before": round(os.getloadavg()[0], 2),
        "root": root.is_root,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _read(path: Path) -> str | None:
    return text_of(path).strip() or None


def _match(path: Path, pattern: str) -> str | None:
    match = re.search(pattern, _read(path) or "")
    return match[1].strip() if match else None


def _selected(path: Path) -> str | None:
    """The bracketed word of files such as "always [madvise] never"."""
    return _match(path, r"\[(\w+)\]")


def _virtualisation(root: HostRoot) -> str | None:
    if root.which("systemd-detect-virt"):
        return root.call(["systemd-detect-virt"]).stdout.strip() or None
    return "virtual machine" if "hypervisor" in (_match(root.proc / "cpuinfo", r"flags\s*: (.+)") or "") else None


def _filesystem(folder: Path, root: HostRoot) -> dict[str, Any] | None:
    """Type, device and free bytes of the file system that holds the folder (or its nearest existing parent)."""
    folder = nearest_existing(folder.absolute())
    best = _mount_of(folder, root.folder)
    if best is None:
        return None
    return {"type": best[2], "device": best[3], "mount": str(best[0]), "free_bytes": root.free_bytes(folder)}
