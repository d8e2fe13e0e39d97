"""The order of a cycle's slices: balanced over the cycles of a block, and random.

A Williams square (Australian Journal of Scientific Research A 2 (1949)): in as many cycles as there are lanes, each one
is at each position once, and follows each other lane once; with an odd number of lanes in twice as many cycles. Waiting
for a quiet host precedes a cycle, so that interference rises with the position: chance alone would leave some arms
later than others.
"""

from __future__ import annotations

from random import Random


def balanced_order(lanes: int, cycle: int, name: str) -> list[int]:
    """The lanes 0 to `lanes` - 1 in the order of a cycle (from 1). `name` seeds which lane is which, and the cycles."""
    rows = _square(lanes)
    square, row = divmod(cycle - 1, len(rows))
    random = Random(f"{name}-{square}")
    labels, order = random.sample(range(lanes), lanes), random.sample(range(len(rows)), len(rows))
    return [labels[place] for place in rows[order[row]]]


def _square(lanes: int) -> list[list[int]]:
    """The rows; of an odd number of lanes with their mirror images."""
    first = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(lanes)]
    rows = [[(place + shift) % lanes for place in first] for shift in range(lanes)]
    return rows + [row[::-1] for row in rows] * (lanes % 2 and lanes > 1)
