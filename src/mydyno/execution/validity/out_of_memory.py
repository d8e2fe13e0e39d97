"""The kernel ended a process of the host for lack of memory (vmstat's oom_kill).

Where it was a server, its load failed, and so did the arm. Where the load ended in order it was another program, which
is no result of the arm: the run is only left out.
"""

from __future__ import annotations

from mydyno.execution.validity.facts import RunFacts
from mydyno.model.stored.reasons import Reason


def closed(facts: RunFacts) -> Reason | None:
    """Closed where the host's count of such kills grew during the run."""
    if not facts.out_of_memory_kills:
        return None
    text = f"the kernel killed {facts.out_of_memory_kills} process(es) during the run"
    return Reason(gate="out_of_memory", text=text)
