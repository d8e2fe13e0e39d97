"""The host swapped: the measurement then shows memory pressure, not the treatment."""

from __future__ import annotations

from mydyno.execution.validity.facts import RunFacts
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.stored.reasons import Reason


def closed(facts: RunFacts) -> Reason | None:
    """Fails where more was swapped in and out than validity.swap_bytes."""
    if facts.swapped_bytes is None or facts.swapped_bytes <= facts.bounds.swap_bytes:
        return None
    bound = format_bytes(facts.bounds.swap_bytes)
    text = f"the host swapped {format_bytes(facts.swapped_bytes)} during the run (bound {bound})"
    return Reason(gate="swap", text=text)
