"""How many studies a test simulates, and the bound on a rate of errors that goes with the number."""

from __future__ import annotations

import os
from math import sqrt

from tests.support import ALL

TIMES = int(os.environ.get("MYDYNO_SIMULATED_STUDIES", "1"))


def simulated(count: int, divisor: int = 6) -> int:
    """The number of studies: `count` times MYDYNO_SIMULATED_STUDIES in `./test --all`, else divided by `divisor`.

    A rate over fewer studies has a wider bound: the gate finds gross errors, the whole number those of a few percent.
    """
    return count * TIMES // (1 if ALL else divisor)


def at_most(rate: float, count: int, promised: float = 0.05) -> bool:
    """Whether the rate is not above the promised one by more than two standard errors."""
    return rate <= promised + 2.0 * sqrt(promised * (1.0 - promised) / count)
