"""The workload proves its name: the server must have counted what the driver says it asked."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed where the two differ beyond tolerance."""
    return f"counters disagree: {'; '.join(facts.disagreements)}" if facts.disagreements else None
