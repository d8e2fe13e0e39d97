"""What this host can and cannot do for a measurement, each with the reason; nothing is changed to find out."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts import network_card
from mydyno.hosts.cgroups import Cgroups
from mydyno.hosts.disks import disk_of
from mydyno.hosts.facts import host_facts
from mydyno.hosts.left_namespaces import ownerless_namespaces
from mydyno.hosts.link import free_addresses, taken_networks
from mydyno.hosts.network_means import network_means
from mydyno.hosts.settings import Settings
from mydyno.model.quantities import format_bytes


@dataclass(frozen=True)
class Ability:
    """One thing that a study may need."""

    name: str
    possible: bool
    text: str
    """What is there, or what is missing and what would make it possible."""


def abilities(settings: Settings) -> list[Ability]:
    """Every ability, in the order of how many studies need it."""
    return [
        _programs("private servers", ("setpriv", "env", "cp", "sync"), "util-linux and coreutils"),
        _programs(
            "packages of servers and tools", ("apt-get", "dpkg-deb"), "a Debian or Ubuntu host, or server.basedir"
        ),
        _programs("proof of allocators", ("ldd",), "libc-bin"),
        _engine(settings),
        _disk(settings),
        _reflink(settings),
        _pressure(),
        _repeatable_cpu(),
        _links(),
        _latency(),
        _network_cards(),
        _left_namespaces(settings),
        _root(),
        *_control_groups(),
        _limited_disk(settings),
    ]


def _programs(name: str, programs: tuple[str, ...], source: str) -> Ability:
    missing = [program for program in programs if shutil.which(program) is None]
    text = f"{', '.join(missing)} not on PATH: needs {source}" if missing else ", ".join(programs)
    return Ability(name, not missing, text)


def _engine(settings: Settings) -> Ability:
    path = settings.engine / "dynoprobe"
    return Ability(
        "telemetry", path.is_file(), str(path) if path.is_file() else f"{path} is missing: start by ./mydyno"
    )


def _disk(settings: Settings) -> Ability:
    folder = settings.data
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Ability(
        "disk for data", free > 2 << 30, f"{format_bytes(free)} free at {settings.data} (--data DIR for another)"
    )


def _reflink(settings: Settings) -> Ability:
    facts = host_facts(settings.data).get("filesystem", {})
    kind = facts.get("type", "unknown")
    able = kind in ("btrfs", "xfs", "bcachefs", "zfs")
    return Ability(
        "copies that share blocks", able, f"{kind}" + ("" if able else ": data are copied byte by byte for each run")
    )


def _pressure() -> Ability:
    able = Path("/proc/pressure/cpu").exists()
    return Ability(
        "pressure stall information", able, "/proc/pressure" if able else "kernel without CONFIG_PSI, or psi=0"
    )


def _repeatable_cpu() -> Ability:
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not governor.exists():
        return Ability("fixed CPU frequency", False, "the host does not tell its governor (usual in virtual machines)")
    name = governor.read_text().strip()
    return Ability("fixed CPU frequency", name == "performance", f"governor {name}")


def _links() -> Ability:
    """Hosts in namespaces with a shaped link between them, for the treatment `network`."""
    obstacle = network_means().obstacle(bandwidth=True, latency=False)
    if obstacle is None:
        try:
            free_addresses(taken_networks())
        except HostError as error:
            obstacle = f"{error.message}; {error.hint}"
    return Ability("shaped links between namespaces", obstacle is None, obstacle or "network namespaces, veth, tbf")


def _latency() -> Ability:
    obstacle = network_means().obstacle(bandwidth=False, latency=True)
    return Ability("added network latency", obstacle is None, obstacle or "netem")


def _network_cards() -> Ability:
    """Cards whose speed ethtool can set, for `network` with an external server (server.card)."""
    name = "speed of a network card"
    obstacles = {card: network_card.obstacle(card, None) for card in network_card.cards()}
    able = [card for card, obstacle in obstacles.items() if obstacle is None]
    if able:
        return Ability(name, True, ", ".join(able))
    return Ability(name, False, "; ".join(filter(None, obstacles.values())) or "this host has no network card")


def _left_namespaces(settings: Settings) -> Ability:
    left = ownerless_namespaces(settings)
    if not left:
        return Ability("no namespaces left behind", True, "none below /run/netns")
    names = ", ".join(path.name for path in left)
    return Ability("no namespaces left behind", False, f"{names}: mydyno clean removes them")


def _root() -> Ability:
    text = (
        "root" if os.geteuid() == 0 else "not root: experiments with cgroups, namespaces or huge pages are not possible"
    )
    return Ability("changing the host", os.geteuid() == 0, text)


def _control_groups() -> list[Ability]:
    uses = {"cpuset": "CPUs", "cpu": "CPU quota", "io": "disk bandwidth", "memory": "memory"}
    found = []
    for controller, use in uses.items():
        slots, reasons = Cgroups().slots([controller])
        text = "; ".join(reasons) or "".join(f"cgroup v{slot.version}, below {slot.parent}" for slot in slots.values())
        found.append(Ability(f"control group: {use}", not reasons, text))
    return found


def _limited_disk(settings: Settings) -> Ability:
    try:
        disk = disk_of(settings.data)
    except HostError as error:
        return Ability("a disk that can be limited", False, error.message)
    return Ability("a disk that can be limited", True, f"{disk.name} ({disk.device}), {disk.filesystem}")
