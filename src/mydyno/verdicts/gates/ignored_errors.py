"""Deadlocks and lock time-outs that the driver swallows and repeats: too many, and another workload was measured."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import StepFacts


def closed(facts: StepFacts) -> str | None:
    """Closed above gates.ignored_errors_per_transaction."""
    share = facts.driver.ignored_errors / max(facts.driver.transactions, 1)
    bound = facts.bounds.ignored_errors_per_transaction
    if share <= bound:
        return None
    return f"ignored errors: {facts.driver.ignored_errors}, {share:.3g} a transaction (bound {bound:g})"
