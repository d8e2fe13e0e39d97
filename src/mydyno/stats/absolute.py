"""The absolute value of an arm, of which the effects are the ratios."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean


def absolute_mean(values: Sequence[float]) -> float:
    """The geometric mean: the ratio of two arms' means is the effect where every block has all of its runs.

    The arithmetic mean where a value is not positive. `values` has at least one.
    """
    return geometric_mean(values) if min(values) > 0 else fmean(values)
