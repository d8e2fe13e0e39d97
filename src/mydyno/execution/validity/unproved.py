"""A treatment that is not verified to be in force."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.execution.validity.facts import RunFacts
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import Evidence

VARIABLES_HINT = "the server rounds, clips or ignores the value: set the one that it has, or leave the variable out"


def closed(facts: RunFacts) -> Reason | None:
    """Fails where any evidence does not hold."""
    return unproved(facts.evidence)


def refused_variables(evidence: Sequence[Evidence]) -> str:
    """Which server variables are not as they were set; empty if all are. No further block would change that."""
    return "; ".join(one.text for one in evidence if one.treatment == "variables" and not one.holds)


def unproved(evidence: Sequence[Evidence]) -> Reason | None:
    """The reason for which these treatments are not proved; None if all of them are."""
    found = [f"{one.treatment}: {one.text}" for one in evidence if not one.holds]
    return Reason(gate="unproved", text="; ".join(found)) if found else None
