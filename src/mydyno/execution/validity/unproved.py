"""A treatment that is not verified to be in force."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.execution.validity.facts import RunFacts
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import Evidence


def closed(facts: RunFacts) -> Reason | None:
    """Closed where any evidence does not hold."""
    return unproved(facts.evidence)


def unproved(evidence: Sequence[Evidence]) -> Reason | None:
    """The reason for which these treatments are not proved; None if all of them are."""
    found = [f"{one.treatment}: {one.text}" for one in evidence if not one.holds]
    return Reason(gate="unproved", text="; ".join(found)) if found else None
