"""Which disk a folder lies on, as the kernel's I/O limits want it: the number of the whole disk.

A file's st_dev is that of a partition, where limits are refused, or an anonymous number (overlay, btrfs, tmpfs), where
they mean nothing. So the mount's source is looked up, and a partition's parent taken. LVM, dm-crypt and md count as
disks themselves: that is where the server's bios are seen.

How fast the disk takes small writes that must be on it, which is what a commit waits for, is measured once before a
study, while nothing of it runs, for half a second.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from math import nan
from pathlib import Path

from mydyno.errors import HostError
from mydyno.files.private import new_file
from mydyno.hosts.cgroups import lines

WRITEBACK_FILESYSTEMS = ("ext2", "ext3", "ext4", "btrfs", "f2fs", "xfs")
"""File systems whose written-back pages are charged to the group that dirtied them (cgroup-v2.rst, Writeback)."""
MEASURED_S = 0.5
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
    folder = folder.resolve()
    while not folder.exists():
        folder = folder.parent
    number = folder.stat().st_dev
    best = _mount_of(folder, root)
    if best is None:
        raise HostError(f"no mount of this host holds {folder}")
    own, kind, source = best
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


def _mount_of(folder: Path, root: Path) -> tuple[str, str, str] | None:
    """(device number, file system, source) of the innermost mount over the folder (proc(5), mountinfo)."""
    best: tuple[int, tuple[str, str, str]] | None = None
    for line in lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, behind = before.split(), after.split()
        point = Path(fields[4].replace("\\040", " "))
        if (folder == point or point in folder.parents) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), (fields[2], behind[0], behind[1]))
    return best[1] if best else None


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
