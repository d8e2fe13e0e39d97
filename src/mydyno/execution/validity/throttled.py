"""A CPU quota of the container or unit that mydyno runs in stopped server and load together.

A quota that an arm's own control group has (`cgroup.cpu_quota`) is the treatment, and is not meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.definition.experiment import ValiditySpec
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Fails where the quota was used up in a larger share of its periods than validity.throttled, during the step."""
    return throttled(facts.throttled, facts.bounds)


def throttled(shares: Mapping[str, float], bounds: ValiditySpec) -> Reason | None:
    """The reason for these quotas; None if none of them was used up too often."""
    found = [
        f"the CPU quota in {path} was used up in {share:.0%} of its periods (bound {bounds.throttled:.0%})"
        for path, share in shares.items()
        if share > bounds.throttled
    ]
    return Reason(gate="throttled", text="; ".join(found)) if found else None
