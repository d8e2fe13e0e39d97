"""Which studies ran on the same host, by its facts: name, processor, CPUs and memory.

Kernel, distribution and settings may change on one host: a history shows them as changes.
"""

from __future__ import annotations

from mydyno.model.definition.quantities import format_bytes
from mydyno.results.across.saved import SavedStudy

IDENTITY = ("hostname", "cpu_model", "cpus", "memory_bytes")

HostIdentity = tuple[tuple[str, str], ...]
"""(fact, value in words) of IDENTITY, as far as recorded; of several host groups all of them."""


def host_identity(study: SavedStudy) -> HostIdentity:
    """What identifies the host, or the hosts, of a study."""
    hosts = [study.study.hosts[name] for name in sorted(study.study.hosts)] or [study.study.host]
    found = []
    for facts in hosts:
        for name in IDENTITY:
            value = facts.get(name)
            if value is not None:
                found.append((name, format_bytes(float(value)) if name == "memory_bytes" else str(value)))
    return tuple(found)


def host_difference(host: HostIdentity, other: HostIdentity) -> tuple[str, ...]:
    """What distinguishes another host: "hostname vm-8", "cpus 4"."""
    return tuple(f"{name} {value}" for name, value in other if (name, value) not in host)
