"""`doctor` on many hosts: compares facts and abilities, and the offset of each host's clock.

The offset is that of the answer with the shortest round trip, as in NTP's clock filter (RFC 5905, section 10): the
host's time against the middle of the round trip here; wrong by half the round trip at most. One round trip includes
starting date(1) on the host, about 1 ms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mydyno.errors import HostError
from mydyno.fleet.installation import ensure_installed
from mydyno.hosts.capabilities import capabilities
from mydyno.hosts.facts import host_facts
from mydyno.hosts.left_behind import left_studies
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.model.definition.quantities import format_bytes

OWN_TO_EACH = ("hostname", "load_average_before")
"""Facts that always differ and explain nothing."""
CLOCK_READINGS = 7
ALIKE_MEMORY = 0.02
"""Memory that differs by less is the firmware's."""


@dataclass(frozen=True)
class ClockOffset:
    """The host's clock minus this host's."""

    offset_ms: float
    error_ms: float
    """At most; half of the round trip."""


@dataclass(frozen=True)
class CheckedHost:
    """What doctor reports on a host, or why it could not be examined."""

    address: str
    group: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    abilities: tuple[Mapping[str, Any], ...] = ()
    clock: ClockOffset | None = None
    left_studies: tuple[str, ...] = ()
    """Folders of studies that lost this host."""
    error: str = ""
    hint: str = ""

    @property
    def missing(self) -> list[Mapping[str, Any]]:
        """Abilities that the host lacks."""
        return [ability for ability in self.abilities if not ability["possible"]]


async def check_host(host: SshHost, group: str) -> CheckedHost:
    """Run doctor on a host. Raises HostError."""
    start = await ensure_installed(host)
    done = await host.run([start, "doctor", "--json"], timeout_s=300)
    try:
        report = json.loads(done.output)
    except ValueError:
        raise HostError(f"{host.name}: mydyno doctor failed: {done.output.strip()[-300:]}") from None
    return CheckedHost(
        host.name,
        group,
        flat(report["facts"]),
        tuple(report["abilities"]),
        await clock_offset(host),
        tuple(report.get("left_studies", ())),
    )


def check_local(group: str, paths: HostPaths) -> CheckedHost:
    """The same of the host that this program runs on."""
    abilities = tuple(ability.__dict__ for ability in capabilities(paths))
    left = tuple(str(study) for study in left_studies(paths.cache))
    return CheckedHost("local", group, flat(host_facts(paths.data, paths.root)), abilities, ClockOffset(0.0, 0.0), left)


async def clock_offset(host: SshHost) -> ClockOffset:
    """The offset of the host's clock, from the reading with the shortest round trip. Raises HostError."""
    process = await host.start(["sh", "-c", "while read -r _; do date +%s.%N; done"])
    lines = process.lines()
    found = []
    for _ in range(CLOCK_READINGS):
        began, sent = time.monotonic(), time.time()
        await process.write("\n")
        there = float(await anext(lines))
        round_trip_s = time.monotonic() - began
        found.append(ClockOffset((there - sent - round_trip_s / 2) * 1000, round_trip_s * 500))
    process.close_stdin()
    await process.wait(30)
    return min(found, key=lambda reading: reading.error_ms)


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts with those of the file system beside the others, without its free space."""
    found = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    filesystem = facts.get("filesystem") or {}
    return found | {f"filesystem_{name}": filesystem[name] for name in ("type", "device") if name in filesystem}


def differences(hosts: Sequence[CheckedHost]) -> dict[str, dict[str, str]]:
    """Fact → address → value as text, for facts that differ between hosts; "-" where a host does not report it."""
    checked = [host for host in hosts if host.facts]
    names = dict.fromkeys(name for host in checked for name in host.facts if name not in OWN_TO_EACH)
    return {
        name: {host.address: shown(name, host.facts.get(name)) for host in checked}
        for name in names
        if _differ(name, [host.facts.get(name) for host in checked])
    }


def shared(hosts: Sequence[CheckedHost]) -> dict[str, str]:
    """Facts that all hosts have in common."""
    checked = [host for host in hosts if host.facts]
    unlike = differences(hosts)
    facts = checked[0].facts if checked else {}
    return {name: shown(name, value) for name, value in facts.items() if name not in unlike and name not in OWN_TO_EACH}


def shown(name: str, value: object) -> str:
    """A fact for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    return str(value)


def _differ(name: str, values: Sequence[Any]) -> bool:
    if name == "memory_bytes" and all(values):
        return bool(max(values) - min(values) > ALIKE_MEMORY * max(values))
    return len(set(map(str, values))) > 1
