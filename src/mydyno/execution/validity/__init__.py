"""Rules that make a run, or one step of it, invalid. One file each: condition, evidence, reason.

A run that fails one is kept and shown, with the reason, and never used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mydyno.execution.validity import (
    counters,
    driver_cpu,
    driver_health,
    errors,
    ignored_errors,
    not_found,
    out_of_memory,
    steady,
    swap,
    throttled,
    unproved,
)
from mydyno.execution.validity.facts import RunFacts, StepFacts
from mydyno.model.stored.reasons import Reason, joined
from mydyno.model.stored.records import StepRecord

__all__ = [
    "HOST_RULES",
    "INSTANCE_RULES",
    "SLICES_RULES",
    "STEP_RULES",
    "RunFacts",
    "StepFacts",
    "no_valid_step",
    "run_reasons",
    "step_reasons",
]

RUN_RULES = (unproved.closed, out_of_memory.closed, swap.closed)
"""Each takes RunFacts and returns the reason, or None."""
STEP_RULES = (
    errors.closed,
    ignored_errors.closed,
    counters.closed,
    not_found.closed,
    driver_health.closed,
    driver_cpu.closed,
    throttled.closed,
    steady.closed,
)
"""Each takes StepFacts and returns the reason, or None."""
HOST_RULES = (driver_cpu.closed, throttled.closed)
"""The rules of STEP_RULES about the host: applied once where a step loads several instances."""
INSTANCE_RULES = tuple(rule for rule in STEP_RULES if rule not in HOST_RULES)
"""The rules of STEP_RULES that are applied to each instance."""

SLICES_RULES = (counters.closed, not_found.closed, driver_health.closed, throttled.closed)
"""The rules of STEP_RULES that are applied to the sum of a step's slices: errors are the arm's failure there, and each
slice is judged by what the host was in it."""


def run_reasons(facts: RunFacts) -> list[Reason]:
    """Why the whole run is invalid; empty if it is valid."""
    return [reason for rule in RUN_RULES if (reason := rule(facts)) is not None]


def no_valid_step(steps: Sequence[StepRecord]) -> list[Reason]:
    """Why a run is invalid whose steps all are; empty if one is not: an arm that failed at one has a result there."""
    if not steps or not all(step.reasons for step in steps):
        return []
    return [Reason(gate="no_valid_step", text=joined(dict.fromkeys(one for step in steps for one in step.reasons)))]


def step_reasons(
    facts: StepFacts, rules: tuple[Callable[[StepFacts], Reason | None], ...] = STEP_RULES
) -> list[Reason]:
    """Why one step is invalid; empty if it is valid."""
    return [reason for rule in rules if (reason := rule(facts)) is not None]
