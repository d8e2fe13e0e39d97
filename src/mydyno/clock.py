"""The time of a study: Unix time that does not step when the wall clock is set.

It is the wall clock's when this process began, plus the time that has passed since by CLOCK_MONOTONIC, which all
programs of a host share (clock_gettime(2)). The wall clock may be set while a study runs, by NTP, an administrator or
a hypervisor; samples, steps and slices would no longer fit together. What dynoprobe and dynoload report is placed by
their monotonic times. CLOCK_MONOTONIC stands still while the host is suspended.
"""

from __future__ import annotations

import time

READINGS = 5
LEAST_STEP_S = 0.2
"""A process may lose its CPU between the readings of two clocks, for some milliseconds; NTP slews what is less."""


def wall_offset_ns() -> int:
    """By how much the wall clock is ahead of the monotonic one; it changes when the wall clock is set."""
    pairs = []
    for _ in range(READINGS):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        pairs.append((after - before, wall - (before + after) // 2))
    return min(pairs)[1]


_OFFSET_NS = wall_offset_ns()


def unix_ns() -> int:
    """Nanoseconds since 1970 UTC."""
    return of_monotonic(time.monotonic_ns())


def of_monotonic(monotonic_ns: int) -> int:
    """The same of a time that a program of this host has read from CLOCK_MONOTONIC."""
    return monotonic_ns + _OFFSET_NS


def step_words(offset_ns: int = _OFFSET_NS) -> list[str]:
    """A sentence if the wall clock was set since wall_offset_ns() returned `offset_ns`, or since this process began."""
    step_s = (wall_offset_ns() - offset_ns) / 1e9
    if abs(step_s) < LEAST_STEP_S:
        return []
    return [
        f"the wall clock was set by {step_s:+.1f} s meanwhile".replace("-", "−")
        + "; samples and load levels are placed by the monotonic clock"
    ]
