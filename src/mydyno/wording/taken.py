"""What hypervisor and other programs took of the CPU time of a study: the first cause of noise to look at."""

from __future__ import annotations

from mydyno.model.stored.summary import Summary
from mydyno.results.precision import steal_share, strangers_share

NAMED_SHARE = 0.05
"""Share of the CPU time below which neither hypervisor nor other programs are named."""


def taken_of_cpus(summary: Summary, least: float = NAMED_SHARE) -> str:
    """A clause on what hypervisor and other programs took of the CPU time; empty if that is less than `least`."""
    shares = {"steal": steal_share(summary) or 0.0, "others": strangers_share(summary) or 0.0}
    if sum(shares.values()) < least:
        return ""
    texts = {name: f"{share * 100:.0f} %" for name, share in shares.items()}
    alone = summary.host_groups is None
    if shares["others"] < NAMED_SHARE:
        if alone:
            return f"The hypervisor took {texts['steal']} of this host's CPU time"
        return f"The hypervisor took {texts['steal']} of these hosts' CPU time"
    if shares["steal"] < NAMED_SHARE:
        if alone:
            return f"Other programs used {texts['others']} of this host's CPU time"
        return f"Other programs used {texts['others']} of these hosts' CPU time"
    if alone:
        return "The hypervisor took {steal} of this host's CPU time, and other programs used {others}".format(**texts)
    return "The hypervisor took {steal} of these hosts' CPU time, and other programs used {others}".format(**texts)
