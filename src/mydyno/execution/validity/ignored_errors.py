"""Deadlocks and lock time-outs that the driver retries: with too many of them, another workload was measured."""

from __future__ import annotations

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails above validity.ignored_errors_per_transaction."""
    share = facts.driver.ignored_errors / max(facts.driver.transactions, 1)
    bound = facts.bounds.ignored_errors_per_transaction
    if share <= bound:
        return None
    text = f"{facts.driver.ignored_errors}, {share:.3g} per transaction (bound {bound:g})"
    return Reason(gate="ignored_errors", text=text)
