"""The looks of a sequential study: after how many blocks effects may be examined, and at which error rate each time.

A group-sequential design with fixed numbers of blocks. The error rates sum to 5 %, so the chance of a false difference
over all looks is at most 5 % whatever the noise. The first look has most of it: six blocks must be able to decide.
Between looks only the precision may be shown, never an effect.
"""

from __future__ import annotations

LOOKS: dict[int, float] = {6: 0.03125, 10: 0.004, 16: 0.004, 26: 0.005, 40: 0.00575}
"""Blocks → error rate of that look."""


def alpha_at(blocks: int) -> float | None:
    """The error rate of the look at exactly this number of blocks; None if no look is due."""
    return LOOKS.get(blocks)


def next_look(blocks: int) -> int | None:
    """The blocks of the first look after this number of blocks; None after the last one."""
    return next((look for look in LOOKS if look > blocks), None)


def last_look(blocks: int) -> int | None:
    """The blocks of the latest look that this number of blocks has reached; None before the first one."""
    return next((look for look in reversed(LOOKS) if look <= blocks), None)
