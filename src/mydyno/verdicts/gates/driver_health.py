"""The driver's own verdict on itself: late, starved, overrun."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed where the driver calls its own result invalid."""
    if facts.driver.health != "invalid":
        return None
    return f"{facts.driver.driver} calls its result invalid: {'; '.join(facts.driver.health_reasons)}"
