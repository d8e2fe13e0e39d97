"""The facts that validity checks use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mydyno.model.definition.experiment import Step, ValiditySpec
from mydyno.model.stored.records import DriverResult, Evidence


@dataclass(frozen=True)
class RunFacts:
    """A whole run."""

    bounds: ValiditySpec
    evidence: Sequence[Evidence]
    swapped_bytes: int | None
    """Swapped in and out while the run lasted; None if the kernel does not report it."""
    servers_killed: int = 0
    """Servers of the run that the kernel's log names as killed for lack of memory."""


@dataclass(frozen=True)
class StepFacts:
    """One step of a run."""

    bounds: ValiditySpec
    driver: DriverResult
    whole_s: float
    """Warm-up and measured window."""
    cpus: float
    """CPUs that the driver may use."""
    throttled: Mapping[str, float] = field(default_factory=dict)
    """{file of a CPU quota of mydyno's own control groups: share of its periods in which it was used up}."""
    disagreements: Sequence[str] = field(default_factory=tuple)
    """Where the server's counters and the driver's differ."""
    step: Step | None = None
    """Its definition, where the rule on what it found applies."""
    steadiness: str = "undecided"
    steady_reasons: Sequence[str] = field(default_factory=tuple)
