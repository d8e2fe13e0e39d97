"""The mean of a window that is not steady is biased (reference: statistics, steady state)."""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the window is not steady and validity.steady is strict. An undecided window is used and reported."""
    if facts.steadiness != "not steady" or facts.bounds.steady != "strict":
        return None
    return Reason(gate="steady", text="; ".join(facts.steady_reasons))
