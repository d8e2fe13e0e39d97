"""Facts of the host that are needed to judge or repeat a result, read from the kernel's files.

Which disk a folder lies on, as the kernel's I/O limits want it, is the number of the whole disk. A file's st_dev is
that of a partition, where limits are refused, or an anonymous number (overlay, btrfs, tmpfs), where they mean nothing.
So the mount's source is looked up, and a partition's parent taken. LVM, dm-crypt and md count as disks themselves: that
is where the server's bios are seen. How fast the disk takes small writes that must be on it, which is what a commit
waits for, is measured once before a study, while nothing of it runs, for half a second.

Memory bandwidth is what the engine's dynomem measures on each NUMA node and between them, beside what the DIMMs allow:
for all CPUs together, for one CPU, and, where the host has several nodes, for the CPUs of each node on the memory of
each node. Stored in the cache until the next boot, so that studies can carry it without the cost.
"""

from __future__ import annotations

import json
import os
import platform
import re
import struct
import time
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.files.atomic import new_file, write_text
from mydyno.hosts.cgroups import lines
from mydyno.hosts.commands import run_command
from mydyno.hosts.identity import boot_id
from mydyno.hosts.limits import usable_cpus, usable_memory
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HERE, HostRoot, text_of
from mydyno.model.definition.quantities import format_bytes, numbers_of

KERNELS = ("copy", "scale", "add", "triad")
REPEATS = 10
"""Runs of each kernel; the first is not counted."""
LEAST_ARRAY_BYTES = 64 << 20
CACHE_MULTIPLE = 4
"""An array is at least so many times all last-level caches together (STREAM's rule)."""
SMBIOS = Path("/sys/firmware/dmi/tables/DMI")
NODES = Path("/sys/devices/system/node")
MEMORY_DEVICE, END_OF_TABLE = 17, 127


@dataclass(frozen=True)
class Bandwidth:
    """One measurement, in bytes per second (best repetition, as STREAM reports)."""

    where: str
    threads: int
    best_bytes_per_s: dict[str, float]
    median_bytes_per_s: dict[str, float]


def measure_bandwidth(paths: HostPaths) -> dict[str, Any]:
    """Every measurement, the theoretical figure, and what could not be read. Raises HostError without the engine."""
    program = paths.program("dynomem")
    array_bytes, notes = _array_bytes()
    everything = sorted(os.sched_getaffinity(0))
    nodes = {node: [cpu for cpu in cpus if cpu in everything] for node, cpus in _nodes().items()}
    nodes = {node: cpus for node, cpus in nodes.items() if cpus}
    found = [
        run_dynomem(program, "one CPU", everything[:1], everything[:1], array_bytes),
        run_dynomem(program, f"all {len(everything)} CPUs", everything, everything, array_bytes),
    ]
    if len(nodes) > 1:
        for node, cpus in nodes.items():
            for memory, touch in nodes.items():
                where = f"CPUs of node {node}, memory of node {memory}"
                found.append(run_dynomem(program, where, cpus, touch, array_bytes))
    elif not NODES.is_dir():
        notes.append(f"{NODES} does not exist: NUMA nodes unknown, measured as one")
    theory, why = theoretical_bytes_per_s(_smbios())
    if theory is None:
        notes.append(why)
    measurement = {
        "boot": boot_id(),
        "array_bytes": array_bytes,
        "measured": [bandwidth.__dict__ for bandwidth in found],
        "theoretical_bytes_per_s": theory,
        "theoretical": why,
        "notes": notes,
    }
    paths.cache.mkdir(parents=True, exist_ok=True)
    write_text(_kept(paths), json.dumps(measurement, indent=1))
    return measurement


def remembered_bandwidth(paths: HostPaths) -> dict[str, Any] | None:
    """The measurement of this boot, if one was made."""
    try:
        measurement: dict[str, Any] = json.loads(_kept(paths).read_text())
    except (OSError, ValueError):
        return None
    return measurement if measurement.get("boot") == boot_id() else None


def bandwidth_lines(measurement: dict[str, Any]) -> list[str]:
    """For a terminal: GB/s (10^9, as STREAM prints)."""
    head = f"memory bandwidth, GB/s (best of {REPEATS - 1})"
    text = [f"{head:<44}" + "".join(f"{kernel:>9}" for kernel in KERNELS)]
    for one in measurement["measured"]:
        rates = "".join(f"{one['best_bytes_per_s'][kernel] / 1e9:>9.1f}" for kernel in KERNELS)
        text.append(f"  {one['where']:<42}{rates}")
    text.append(f"  arrays of {format_bytes(measurement['array_bytes'])} each; own kernels, not STREAM's program")
    if measurement["theoretical_bytes_per_s"] is not None:
        text.append(f"  theory: {measurement['theoretical_bytes_per_s'] / 1e9:.1f} GB/s ({measurement['theoretical']})")
    return [*text, *(f"  not read: {note}" for note in measurement["notes"])]


def run_dynomem(
    program: Path, where: str, cpus: list[int], touch: list[int], array_bytes: int, repeats: int = REPEATS
) -> Bandwidth:
    """One measurement with a thread on each of `cpus`, memory first touched on `touch`. Raises HostError."""
    command = [
        str(program),
        f"--cpus={','.join(map(str, cpus))}",
        f"--touch-cpus={','.join(map(str, touch))}",
        f"--array-bytes={array_bytes}",
        f"--repeats={repeats}",
    ]
    done = run_command(command, timeout_s=600)
    if done.returncode:
        raise HostError(f"dynomem failed on {where}: {done.stderr.strip()}")
    kernels = json.loads(done.stdout)["kernels"]
    return Bandwidth(
        where,
        len(cpus),
        {name: kernels[name]["best_bytes_per_s"] for name in KERNELS},
        {name: kernels[name]["median_bytes_per_s"] for name in KERNELS},
    )


def _array_bytes() -> tuple[int, list[str]]:
    """Four times the last-level caches, but three arrays in at most a quarter of the free memory."""
    caches = last_level_cache_bytes()
    notes = [] if caches else ["the caches' sizes (/sys/devices/system/cpu/*/cache): arrays may be too small"]
    wanted = max(LEAST_ARRAY_BYTES, CACHE_MULTIPLE * (caches or 64 << 20))
    match = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    most = int(min(int(match[1]) << 10, usable_memory().amount)) // 12 if match else wanted
    if most < wanted:
        notes.append(
            f"arrays of {format_bytes(wanted)}: too little memory, {format_bytes(most)} used; caches affect the result"
        )
    return min(wanted, most), notes


def last_level_cache_bytes(root: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """All last-level caches together, each counted once; None if the kernel does not report them."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found: dict[tuple[int, str], int] = {}
    for index in root.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, size = int((index / "level").read_text()), (index / "size").read_text().strip()
            shared = (index / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        found[level, shared] = int(size[:-1]) * units.get(size[-1], 1)
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last) or None


def _nodes() -> dict[int, list[int]]:
    nodes = {}
    for path in NODES.glob("node[0-9]*"):
        nodes[int(path.name.removeprefix("node"))] = sorted(numbers_of((path / "cpulist").read_text()))
    return dict(sorted(nodes.items()))


def _smbios() -> bytes | None:
    try:
        return SMBIOS.read_bytes()
    except OSError:
        return None


def theoretical_bytes_per_s(table: bytes | None) -> tuple[float | None, str]:
    """The sum over populated DIMMs of data width × transfers per second, and what it rests on (SMBIOS 3, 7.18).

    An upper bound: two DIMMs of one channel share its bus, and SMBIOS does not say which do. None with the reason if it
    cannot be read.
    """
    if table is None:
        return (
            None,
            f"the DIMMs: {SMBIOS} cannot be read (needs root, and firmware that has it; virtual machines lack it)",
        )
    dimms = []
    for kind, body in _structures(table):
        if kind != MEMORY_DEVICE or len(body) < 0x17:
            continue
        width, size, speed = (struct.unpack_from("<H", body, offset)[0] for offset in (0x0A, 0x0C, 0x15))
        if len(body) >= 0x22:
            speed = struct.unpack_from("<H", body, 0x20)[0] or speed  # as configured, where the firmware says it
        if size and width not in (0, 0xFFFF) and speed not in (0, 0xFFFF):
            dimms.append((width, speed))
    if not dimms:
        return None, "the DIMMs: SMBIOS names none with width and speed (usual in virtual machines)"
    total = sum(width / 8 * speed * 1e6 for width, speed in dimms)
    kinds = sorted({f"{width} bit at {speed} MT/s" for width, speed in dimms})
    return total, f"at most: {len(dimms)} DIMMs, {', '.join(kinds)}, each on a channel of its own"


def _structures(table: bytes) -> list[tuple[int, bytes]]:
    """(type, formatted area) of every structure; strings after each are skipped."""
    found, at = [], 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 4 or kind == END_OF_TABLE:
            break
        found.append((kind, table[at : at + length]))
        end = table.find(b"\0\0", at + length)
        if end < 0:
            break
        at = end + 2
    return found


def _kept(paths: HostPaths) -> Path:
    return paths.cache / "memory-bandwidth.json"


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
