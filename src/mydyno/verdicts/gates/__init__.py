"""Gates: rules that make a run, or one step of it, invalid. One file each: condition, evidence, reason.

A run whose gate closed is kept and shown, with the reason, and never used.
"""

from __future__ import annotations

from collections.abc import Callable

from mydyno.model.stored.reasons import Reason
from mydyno.verdicts.gates import (
    counters,
    driver_cpu,
    driver_health,
    errors,
    ignored_errors,
    out_of_memory,
    steady,
    swap,
    throttled,
    unproved,
)
from mydyno.verdicts.gates.facts import RunFacts, StepFacts

__all__ = ["HOST_GATES", "INSTANCE_GATES", "STEP_GATES", "RunFacts", "StepFacts", "run_reasons", "step_reasons"]

RUN_GATES = (unproved.closed, out_of_memory.closed, swap.closed)
"""Each takes RunFacts and returns the reason, or None."""
STEP_GATES = (
    errors.closed,
    ignored_errors.closed,
    counters.closed,
    driver_health.closed,
    driver_cpu.closed,
    throttled.closed,
    steady.closed,
)
"""Each takes StepFacts and returns the reason, or None."""
HOST_GATES = (driver_cpu.closed, throttled.closed)
"""Those of STEP_GATES that are about the host: applied once where a step loads several instances."""
INSTANCE_GATES = tuple(gate for gate in STEP_GATES if gate not in HOST_GATES)
"""Those that are applied to each instance."""


def run_reasons(facts: RunFacts) -> list[Reason]:
    """Why the whole run is invalid; empty if it is valid."""
    return [reason for gate in RUN_GATES if (reason := gate(facts)) is not None]


def step_reasons(
    facts: StepFacts, gates: tuple[Callable[[StepFacts], Reason | None], ...] = STEP_GATES
) -> list[Reason]:
    """Why one step is invalid; empty if it is valid."""
    return [reason for gate in gates if (reason := gate(facts)) is not None]
