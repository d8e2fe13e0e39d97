"""The kernel ended a process for lack of memory (vmstat's oom_kill)."""

from __future__ import annotations

from mydyno.verdicts.gates.facts import RunFacts


def closed(facts: RunFacts) -> str | None:
    """Closed where the host's count of such kills grew during the run."""
    if not facts.out_of_memory_kills:
        return None
    return f"out of memory: the kernel killed {facts.out_of_memory_kills} process(es) during the run"
