"""All treatments by name: how their value is validated, and what makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from mydyno.model.experiment import ArmSpec
from mydyno.treatments import allocator, cgroup, environment, variables
from mydyno.treatments.base import Treatment

TREATMENTS: dict[str, tuple[TypeAdapter[Any], Callable[[Any], Treatment]]] = {
    "allocator": (allocator.SETTING, allocator.AllocatorTreatment),
    "cgroup": (cgroup.SETTING, cgroup.CgroupTreatment),
    "variables": (variables.SETTING, variables.VariablesTreatment),
    "environment": (environment.SETTING, environment.EnvironmentTreatment),
}


def treatments_of(arm: ArmSpec) -> list[Treatment]:
    """Fresh treatments for one run of an arm, in the catalogue's order. Raises KeyError for an unknown name."""
    return [make(arm.treatments[name]) for name, (_, make) in TREATMENTS.items() if name in arm.treatments]
