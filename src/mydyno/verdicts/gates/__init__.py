"""Gates: rules that make a run, or one step of it, invalid. One file each: condition, evidence, sentence.

A run behind a closed gate is kept and shown, with the reason, and never used.
"""

from __future__ import annotations

from mydyno.verdicts.gates import (
    counters,
    driver_cpu,
    driver_health,
    errors,
    ignored_errors,
    out_of_memory,
    steady,
    steal,
    swap,
    unproved,
)
from mydyno.verdicts.gates.facts import RunFacts, StepFacts

__all__ = ["RunFacts", "StepFacts", "run_reasons", "step_reasons"]

RUN_GATES = (unproved.closed, out_of_memory.closed, swap.closed)
"""Each takes RunFacts and gives the reason, or None."""
STEP_GATES = (
    errors.closed,
    ignored_errors.closed,
    counters.closed,
    driver_health.closed,
    driver_cpu.closed,
    steal.closed,
    steady.closed,
)
"""Each takes StepFacts and gives the reason, or None."""


def run_reasons(facts: RunFacts) -> list[str]:
    """Why the whole run is invalid; empty where it is not."""
    return [reason for gate in RUN_GATES if (reason := gate(facts)) is not None]


def step_reasons(facts: StepFacts) -> list[str]:
    """Why one step is invalid; empty where it is not."""
    return [reason for gate in STEP_GATES if (reason := gate(facts)) is not None]
