"""The operations counted by the driver must agree with the server's counters."""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the two differ beyond tolerance."""
    if not facts.disagreements:
        return None
    return Reason(gate="counters", text="; ".join(facts.disagreements))
