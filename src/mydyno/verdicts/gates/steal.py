"""The hypervisor took CPU time away: somebody else's load is in the numbers."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed above gates.steal."""
    if facts.steal_pct is None or facts.steal_pct / 100 <= facts.bounds.steal:
        return None
    return f"steal: the hypervisor took {facts.steal_pct:.1f} % of the CPU time (bound {facts.bounds.steal:.0%})"
