"""[profile] of an experiment: what is looked at in slices of its own. Frozen; no I/O."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PROFILE_EVERY = 8
"""Cycles from one cycle of profiled slices to the next."""
SHORTEST_APART_S = 2.0
"""Length of slices apart from the measured ones: begin and end of a profiler take about a second each time."""


def apart_slice_s(slice_s: float) -> float:
    """The length of slices apart (profiles, waits, the kernel view) where measured slices have this length."""
    return max(slice_s, SHORTEST_APART_S)


class ProfileSpec(BaseModel):
    """What is looked at besides the measured slices: profiled slices of their own, which enter no verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cpu: bool = Field(
        False,
        description="interleaved: profile the servers' CPU time with perf, in extra slices: one for each arm after the "
        "first cycle of each step and block, and after every eighth cycle from there on (`run --profile`)",
    )
    waits: bool = Field(
        False,
        description="interleaved: start the servers with performance_schema, and count in extra slices as those of "
        "`cpu`: what the load's threads wait for, stages, statements, active sessions (`run --waits`)",
    )
    kernel: bool = Field(
        False,
        description="interleaved: trace the kernel with bpftrace in extra slices as those of `cpu`: run-queue latency, "
        "futex waits, fsync, block I/O, TCP retransmits and system calls of the servers (`run --kernel`)",
    )
    frequency: int = Field(499, ge=19, le=9999, description="samples of the profile per second and CPU")

    def rate_of_causes(self, alpha: float, operations: bool) -> float:
        """The error rate of each family of findings beside the effects, which share `alpha` equally: costs; types of
        transactions, if the load has `operations`; functions, places in the flame graph; waits, counters of
        performance_schema; the kernel view.
        """
        return alpha / (1 + operations + 2 * self.cpu + 2 * self.waits + self.kernel)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The keys that are set of those that need slices of their own."""
        return tuple(name for name in ("cpu", "waits", "kernel") if getattr(self, name))
