"""A treatment that is not proved to be in force."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import RunFacts


def closed(facts: RunFacts) -> str | None:
    """Closed where any evidence does not hold."""
    unproved = [f"{evidence.treatment}: {evidence.text}" for evidence in facts.evidence if not evidence.holds]
    return f"treatment not proved: {'; '.join(unproved)}" if unproved else None
