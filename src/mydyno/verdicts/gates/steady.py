"""A window that is not steady has no mean worth printing (reference: statistics, steady state)."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed where the window is not steady and gates.steady is strict. An undecided window is used, and said."""
    if facts.steadiness != "not steady" or facts.bounds.steady != "strict":
        return None
    return f"not steady: {'; '.join(facts.steady_reasons)}"
