"""The driver's own checks of its result: late, starved, overrun."""

from __future__ import annotations

from mydyno.model.reasons import Reason
from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> Reason | None:
    """Closed where the driver reports its result as invalid."""
    if facts.driver.health != "invalid":
        return None
    text = f"{facts.driver.driver}: {'; '.join(facts.driver.health_reasons)}"
    return Reason(gate="driver_health", text=text)
