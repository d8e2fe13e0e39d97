"""The kernel ended a server of the run for lack of memory.

What it ended besides, by the host's count (vmstat's oom_kill), was no part of the run: a warning names it.
"""

from __future__ import annotations

from mydyno.execution.validity.facts import RunFacts
from mydyno.language import agreed
from mydyno.model.stored.reasons import Reason


def closed(facts: RunFacts) -> Reason | None:
    """Fails where the kernel's log names one of the run's servers."""
    if not facts.servers_killed:
        return None
    text = agreed(f"the kernel killed {facts.servers_killed} servers of the run for lack of memory")
    return Reason(gate="out_of_memory", text=text)


def others_killed(kills: int | None, of_the_run: int = 0) -> tuple[str, ...]:
    """A warning where the host's count of such kills grew by more than the run's own."""
    others = (kills or 0) - of_the_run
    if others <= 0:
        return ()
    return (agreed(f"the kernel killed {others} processes of this host for lack of memory meanwhile"),)
