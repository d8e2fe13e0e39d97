"""The facts of hosts that are compared, and those that differ between the hosts of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mydyno.model.definition.quantities import format_bytes

FIRST_FACTS = ("kernel", "cpu_model", "cpus", "cpu_governor", "memory_bytes")
"""Facts that are named first where they differ."""
NOT_COMPARED = ("hostname", "load_average_before", "synced_writes_per_s")

Fact = str | bool


def comparable_facts(facts: Mapping[str, Any]) -> dict[str, Fact]:
    """The facts of one host; of the file system its type. Other facts with several parts are left out.

    Values are compared as they are printed, so that two sizes of memory that read alike are equal.
    """
    found: dict[str, Fact] = {}
    for name, value in facts.items():
        if name == "filesystem" and isinstance(value, Mapping):
            found[name] = str(value.get("type", ""))
        elif isinstance(value, bool):
            found[name] = value
        elif name.endswith("_bytes") and isinstance(value, int | float):
            found[name] = format_bytes(float(value))
        elif isinstance(value, str | int | float):
            found[name] = str(value)
    return {name: value for name, value in found.items() if value != ""}


def fact_differences(hosts: Mapping[str, Mapping[str, Any]], groups: Sequence[str]) -> dict[str, dict[str, Fact]]:
    """{fact: {group: value}} of what differs between the server hosts, kernel, CPU, governor, memory first."""
    known = {group: comparable_facts(hosts[group]) for group in groups if group in hosts}
    names = dict.fromkeys([*FIRST_FACTS, *sorted({name for facts in known.values() for name in facts})])
    found = {}
    for name in names:
        values = {group: facts[name] for group, facts in known.items() if name in facts}
        if name not in NOT_COMPARED and (len(set(values.values())) > 1 or 0 < len(values) < len(known)):
            found[name] = values
    return found
