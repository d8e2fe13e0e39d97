"""Facts of the host that are needed to judge or repeat a result, read from the kernel's files."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from mydyno.hosts.limits import usable_cpus, usable_memory
from mydyno.hosts.root import HERE, HostRoot


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
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


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
    while not folder.exists():
        folder = folder.parent
    best: tuple[str, str, str] | None = None
    for line in (_read(root.proc / "self/mounts") or "").splitlines():
        device, mount, kind = line.split()[:3]
        mount = mount.replace("\\040", " ")
        if (folder == Path(mount) or Path(mount) in folder.parents) and (best is None or len(mount) >= len(best[1])):
            best = (device, mount, kind)
    if best is None:
        return None
    return {"type": best[2], "device": best[0], "mount": best[1], "free_bytes": root.free_bytes(folder)}
