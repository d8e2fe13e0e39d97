"""What this host can and cannot do for a measurement, each with the reason. Nothing is changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mydyno import __version__
from mydyno.errors import HostError
from mydyno.hosts.cgroups import Cgroups
from mydyno.hosts.commands import run_command
from mydyno.hosts.facts import disk_of, host_facts
from mydyno.hosts.limits import (
    OPEN_FILES,
    TASKS,
    open_files_shortage,
    quota_periods,
    tasks_shortage,
    usable_cpus,
    usable_memory,
)
from mydyno.hosts.network import network_card
from mydyno.hosts.network.link import addresses_obstacle
from mydyno.hosts.network.namespace import network_capabilities
from mydyno.hosts.paths import ENGINE_PROGRAMS, HostPaths
from mydyno.hosts.root import HostRoot
from mydyno.hosts.server_user import OWN_IDS, VARIABLE, is_own
from mydyno.hosts.telemetry import unreadable_here, words_of
from mydyno.hosts.tracing.bpftrace import absent as absent_programs
from mydyno.hosts.tracing.bpftrace import kernel_obstacle
from mydyno.hosts.tracing.bpftrace import version as bpftrace_version
from mydyno.hosts.tracing.perf import EVENT as PERF_EVENT
from mydyno.hosts.tracing.perf import counters_obstacle, event, perf_obstacle
from mydyno.hosts.tracing.perf import version as perf_version
from mydyno.hosts.undo import ownerless_namespaces, privileged_files
from mydyno.model.definition.quantities import format_bytes


@dataclass(frozen=True)
class Capability:
    """One capability that a study may need."""

    name: str
    possible: bool
    text: str
    """What was found, or what is missing and how to provide it."""


def capabilities(paths: HostPaths) -> list[Capability]:
    """All capabilities; those that most studies need come first."""
    root = paths.root
    return [
        _programs(root, "private servers", ("setpriv", "env", "cp", "sync"), "util-linux and coreutils"),
        _programs(root, "packages of servers and tools", ("apt-get",), "a Debian or Ubuntu host, or server.basedir"),
        _programs(root, "proof of allocators", ("ldd",), "libc-bin"),
        _engine(paths),
        _telemetry(paths),
        _whole_host(root),
        _unless("open files of servers", open_files_shortage(), f"{OPEN_FILES:,}"),
        _unless("processes and threads", tasks_shortage(root), f"{TASKS:,} or more"),
        _disk(paths),
        _reflink(paths),
        _unless(
            "pressure stall information",
            None if (root.proc / "pressure/cpu").exists() else "kernel without CONFIG_PSI, or psi=0",
            "/proc/pressure",
        ),
        _repeatable_cpu(root),
        _profiles(root),
        _unless("instructions per query", counters_obstacle(root), "instructions and cycles, counted by the processor"),
        _kernel_view(root),
        _unless(
            "shaped links between namespaces",
            network_capabilities(root).obstacle(bandwidth=True, latency=False) or addresses_obstacle(root),
            "network namespaces, veth, tbf",
        ),
        _unless("added network latency", network_capabilities(root).obstacle(bandwidth=False, latency=True), "netem"),
        _network_cards(root),
        _left_namespaces(paths),
        _privileged_files(paths),
        _root(root),
        _server_user(paths),
        *_control_groups(root),
        _limited_disk(paths),
    ]


def _unless(name: str, obstacle: str | None, text: str) -> Capability:
    return Capability(name, obstacle is None, obstacle or text)


def _programs(root: HostRoot, name: str, programs: tuple[str, ...], source: str) -> Capability:
    missing = [program for program in programs if root.which(program) is None]
    text = f"{', '.join(missing)} not on PATH: needs {source}" if missing else ", ".join(programs)
    return Capability(name, not missing, text)


def _engine(paths: HostPaths) -> Capability:
    """Whether load program and probe are there, and of this version: another one may lack options."""
    hint = f"install mydyno-engine {__version__}, or start mydyno with ./mydyno"
    for name in ENGINE_PROGRAMS:
        path = paths.engine / name
        if not path.is_file():
            return Capability("load and telemetry", False, f"{path} is missing: {hint}")
        found = _version_of(path)
        if found != __version__:
            return Capability("load and telemetry", False, f"{path} is {found}, not {__version__}: {hint}")
    return Capability("load and telemetry", True, f"{', '.join(ENGINE_PROGRAMS)} {__version__} at {paths.engine}")


def _telemetry(paths: HostPaths) -> Capability:
    try:
        unreadable = unreadable_here(paths)
    except HostError as error:
        return Capability("all telemetry", False, str(error))
    return Capability("all telemetry", not unreadable, words_of(unreadable) or "every family of metrics can be read")


def _version_of(program: Path) -> str:
    """The version that a program of the engine reports, or what went wrong in words."""
    try:
        done = run_command([str(program), "--version"], timeout_s=10.0)
    except OSError as error:
        return f"a program that does not start ({error})"
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words else "a program that does not report its version"


def _whole_host(root: HostRoot) -> Capability:
    cpus, memory = usable_cpus(root), usable_memory(root)
    text = f"{cpus.amount:g} CPUs{cpus.where}, {format_bytes(memory.amount)}{memory.where}"
    if quota_periods(root):
        text += "; a load level in which the CPU quota is used up does not count"
    return Capability("all CPUs and memory of the host", not (cpus.limit or memory.limit), text)


def _disk(paths: HostPaths) -> Capability:
    free = paths.root.free_bytes(paths.data)
    return Capability(
        "disk for data", free > 2 << 30, f"{format_bytes(free)} free at {paths.data} (--data DIR for another)"
    )


def _reflink(paths: HostPaths) -> Capability:
    facts = host_facts(paths.data, paths.root).get("filesystem", {})
    kind = facts.get("type", "unknown")
    able = kind in ("btrfs", "xfs", "bcachefs", "zfs")
    return Capability(
        "copies that share blocks", able, f"{kind}" + ("" if able else ": data are copied byte by byte for each run")
    )


def _repeatable_cpu(root: HostRoot) -> Capability:
    governor = root.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    if not governor.exists():
        return Capability(
            "fixed CPU frequency", False, "the host does not report its governor (usual in virtual machines)"
        )
    name = governor.read_text().strip()
    return Capability("fixed CPU frequency", name == "performance", f"governor {name}")


def _network_cards(root: HostRoot) -> Capability:
    """Cards whose speed ethtool can set, for `network` with an external server (server.card)."""
    name = "speed of a network card"
    obstacles = {card: network_card.obstacle(card, None, root) for card in network_card.cards(root)}
    able = [card for card, obstacle in obstacles.items() if obstacle is None]
    if able:
        return Capability(name, True, ", ".join(able))
    return Capability(name, False, "; ".join(filter(None, obstacles.values())) or "this host has no network card")


def _left_namespaces(paths: HostPaths) -> Capability:
    left = ownerless_namespaces(paths)
    if not left:
        return Capability("no remaining namespaces", True, "none in /run/netns")
    names = ", ".join(path.name for path in left)
    return Capability("no remaining namespaces", False, f"{names}: mydyno clean removes them")


def _privileged_files(paths: HostPaths) -> Capability:
    name, found = "no privileged files in the cache", privileged_files(paths.cache)
    if not found:
        return Capability(name, True, "no set-user-ID program or device of a package or archive")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return Capability(name, False, f"{found[0]}{more}, of an earlier version: mydyno clean takes their rights away")


def _root(root: HostRoot) -> Capability:
    text = "root" if root.is_root else "not root: experiments with cgroups, namespaces or huge pages are not possible"
    return Capability("changing the host", root.is_root, text)


def _server_user(paths: HostPaths) -> Capability:
    """Whether other programs of the host run as the servers' user: they could read and change what servers do."""
    name, user = "a user of its own for servers", paths.server_user
    if user is None:
        return Capability(name, False, "not root: servers run as the present user")
    if is_own(user):
        return Capability(name, True, f"ids {OWN_IDS[0]} to {OWN_IDS[-1]}, another one for each study")
    chosen = os.environ.get(VARIABLE)
    why = f"{VARIABLE}={user}" if chosen else f"{user}: ids {OWN_IDS[0]} to {OWN_IDS[-1]} cannot be used on this host"
    return Capability(name, False, f"{why}; other programs of that user can read and change the servers' data")


def _control_groups(root: HostRoot) -> list[Capability]:
    uses = {"cpuset": "CPUs", "cpu": "CPU quota", "io": "disk bandwidth", "memory": "memory"}
    found = []
    for controller, use in uses.items():
        slots, reasons = Cgroups(root.folder).slots([controller])
        text = "; ".join(reasons) or "".join(f"cgroup v{slot.version}, below {slot.parent}" for slot in slots.values())
        found.append(Capability(f"control group: {use}", not reasons, text))
    return found


def _profiles(root: HostRoot) -> Capability:
    obstacle = perf_obstacle(root)
    if obstacle is not None:
        instead = "without it kernel stacks are sampled from /proc"
        return Capability("CPU profiles of servers", False, f"{obstacle}; {instead}")
    kernel = "" if event(root) == PERF_EVENT else ", without the kernel"
    return Capability("CPU profiles of servers", True, f"{perf_version(root)}, {event(root)}{kernel}")


def _kernel_view(root: HostRoot) -> Capability:
    obstacle = kernel_obstacle(root)
    if obstacle is not None:
        return Capability("kernel view of servers", False, obstacle)
    without = [f"without {name}: {why}" for name, why in absent_programs(root).items()]
    return Capability("kernel view of servers", True, ", ".join([bpftrace_version(root), *without]))


def _limited_disk(paths: HostPaths) -> Capability:
    try:
        disk = disk_of(paths.data, paths.root.folder)
    except HostError as error:
        return Capability("a disk that can be limited", False, error.message)
    return Capability("a disk that can be limited", True, f"{disk.name} ({disk.device}), {disk.filesystem}")
