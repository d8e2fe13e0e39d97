"""The names that an experiment may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from mydyno.model.definition.experiment import DataSpec, Step


@dataclass(frozen=True)
class Vocabulary:
    """The names that an experiment may use; supplied by the layers above the model."""

    servers: Sequence[str]
    data_workloads: Sequence[str]
    workload_options: Mapping[str, type[BaseModel]]
    workload_data: Mapping[str, str]
    """Workload → the data that it needs."""
    workload_drivers: Mapping[str, Sequence[str]]
    treatments: Mapping[str, TypeAdapter[Any]]
    """Treatment name → how its value is validated."""
    metrics: Sequence[str]
    """Metrics that can have a verdict: higher or lower is better."""
    check_step: Callable[[Step], list[str]]
    """What a step's driver cannot do."""
    check_data: Callable[[DataSpec, Step], list[str]]
    """Data that a step's driver cannot make or keep as they are."""
