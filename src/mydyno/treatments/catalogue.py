"""All treatments by name: how their value is validated, and how one is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from mydyno.model.definition.experiment import ArmSpec
from mydyno.treatments import (
    affinity,
    allocator,
    cgroup,
    compression,
    dsn,
    environment,
    huge_pages,
    memcached,
    network,
    server,
    sysctl,
    tls,
    variables,
)
from mydyno.treatments.base import Treatment

TREATMENTS: dict[str, tuple[TypeAdapter[Any], Callable[[Any], Treatment]]] = {
    "server": (server.SETTING, server.ServerTreatment),
    "dsn": (dsn.SETTING, dsn.DsnTreatment),
    "allocator": (allocator.SETTING, allocator.AllocatorTreatment),
    "cgroup": (cgroup.SETTING, cgroup.CgroupTreatment),
    "huge_pages": (huge_pages.SETTING, huge_pages.HugePagesTreatment),
    "variables": (variables.SETTING, variables.VariablesTreatment),
    "environment": (environment.SETTING, environment.EnvironmentTreatment),
    "memcached": (memcached.SETTING, memcached.MemcachedTreatment),
    "affinity": (affinity.SETTING, affinity.AffinityTreatment),
    "sysctl": (sysctl.SETTING, sysctl.SysctlTreatment),
    # In this order: a link gives the load its path, TLS and compression say what is spoken on it.
    "network": (network.SETTING, network.NetworkTreatment),
    "tls": (tls.SETTING, tls.TlsTreatment),
    "compression": (compression.SETTING, compression.CompressionTreatment),
}


def treatments_of(arm: ArmSpec) -> list[Treatment]:
    """Fresh treatments for one run of an arm, in the catalogue's order: the server first. Raises KeyError."""
    return [make(arm.treatments[name]) for name, (_, make) in TREATMENTS.items() if name in arm.treatments]
