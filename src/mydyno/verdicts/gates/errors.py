"""Errors that reached the driver as errors."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed at the first error or lost connection."""
    if not facts.driver.errors and not facts.driver.reconnects:
        return None
    return f"errors: {facts.driver.errors} errors and {facts.driver.reconnects} lost connections in the measured window"
