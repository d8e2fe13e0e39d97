"""Errors that reached the driver as errors."""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails at the first error or lost connection."""
    if not facts.driver.errors and not facts.driver.reconnects:
        return None
    text = f"{facts.driver.errors} errors and {facts.driver.reconnects} lost connections in the measured window"
    return Reason(gate="errors", text=text)
