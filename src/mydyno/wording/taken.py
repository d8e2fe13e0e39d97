"""What hypervisor and other programs took of the CPU time of a study: the first cause of noise to look at."""

from __future__ import annotations

from mydyno.model.stored.summary import Summary
from mydyno.results.precision import steal_share, strangers_share

NAMED_SHARE = 0.05
"""Share of the CPU time below which neither hypervisor nor other programs are named."""


def taken_of_cpus(summary: Summary, least: float = NAMED_SHARE) -> str:
    """A clause on what hypervisor and other programs took of the CPU time; empty if that is less than `least`."""
    steal, others = steal_share(summary) or 0.0, strangers_share(summary) or 0.0
    if steal + others < least:
        return ""
    whose = "this host's" if summary.host_groups is None else "these hosts'"
    if others < NAMED_SHARE:
        return f"The hypervisor took {steal * 100:.0f} % of {whose} CPU time"
    if steal < NAMED_SHARE:
        return f"Other programs used {others * 100:.0f} % of {whose} CPU time"
    return f"The hypervisor took {steal * 100:.0f} % of {whose} CPU time, and other programs used {others * 100:.0f} %"
