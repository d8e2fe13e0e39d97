"""Facts of the host that are needed to judge or repeat a result, read from the kernel's files."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from mydyno.hosts.commands import run_command
from mydyno.hosts.limits import usable_cpus, usable_memory


def host_facts(data: Path) -> dict[str, Any]:
    """Facts of this host and of the file system under the data folder. What cannot be read is absent, never empty."""
    cpus, memory = usable_cpus(), usable_memory()
    facts: dict[str, Any] = {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "distribution": _os_release(),
        "cpus": os.cpu_count(),
        "cpus_usable": int(cpus.amount) if cpus.amount == int(cpus.amount) else cpus.amount,
        "cpus_limit": cpus.limit or None,
        "cpu_model": _match(Path("/proc/cpuinfo"), r"model name\s*: (.+)"),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "memory_usable_bytes": int(memory.amount) if memory.limit else None,
        "memory_limit": memory.limit or None,
        "glibc": platform.libc_ver()[1] or None,
        "virtualisation": _virtualisation(),
        "transparent_hugepages": _selected(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "transparent_hugepages_defrag": _selected(Path("/sys/kernel/mm/transparent_hugepage/defrag")),
        "cpu_governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "swappiness": _read(Path("/proc/sys/vm/swappiness")),
        "address_space_randomisation": _read(Path("/proc/sys/kernel/randomize_va_space")),
        "clock_source": _read(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "filesystem": _filesystem(data),
        "load_average_before": round(os.getloadavg()[0], 2),
        "root": os.geteuid() == 0,
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


def _os_release() -> str | None:
    return _match(Path("/etc/os-release"), r'PRETTY_NAME="([^"]+)"')


def _virtualisation() -> str | None:
    if shutil.which("systemd-detect-virt"):
        return run_command(["systemd-detect-virt"]).stdout.strip() or None
    return "virtual machine" if "hypervisor" in (_match(Path("/proc/cpuinfo"), r"flags\s*: (.+)") or "") else None


def _filesystem(folder: Path) -> dict[str, Any] | None:
    """Type, device and free bytes of the file system that holds the folder (or its nearest existing parent)."""
    while not folder.exists():
        folder = folder.parent
    best: tuple[str, str, str] | None = None
    for line in (_read(Path("/proc/self/mounts")) or "").splitlines():
        device, mount, kind = line.split()[:3]
        mount = mount.replace("\\040", " ")
        if (folder == Path(mount) or Path(mount) in folder.parents) and (best is None or len(mount) >= len(best[1])):
            best = (device, mount, kind)
    if best is None:
        return None
    return {"type": best[2], "device": best[0], "mount": best[1], "free_bytes": shutil.disk_usage(folder).free}
