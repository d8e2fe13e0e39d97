"""Is a covariate free of the arms? One that an arm changes must not adjust it: the adjustment would take away effect.

TLS, for example, raises the load program's CPU time per query; adjusted for it, TLS would seem to cost nothing. So a
covariate that differs from the control's in the same cycles by more than noise is dropped for all arms and steps. The
test counts slices, not starts: it is to find a shift, and dropping a covariate in vain costs precision alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.paired import t_quantile

LEVEL = 0.99
"""Confidence level of the intervals of all arms together (Bonferroni)."""
LEAST_SHIFT = 0.02
"""In logs. An arm that shifts the covariate by surely less leaves every effect within its margin."""
LEAST_CYCLES = 6


def shifted_by_arm(
    values: NDArray[np.float64], arms: NDArray[np.str_], cycles: NDArray[np.int64], control: str
) -> list[str]:
    """The arms in which a log covariate surely differs from the control's, in the same cycles, by over LEAST_SHIFT.

    `values`, `arms` and `cycles` have one entry for each slice; a cycle's number is unique in the study. Every arm but
    the control is tested, its second copy too.
    """
    reference = {
        int(cycle): float(value) for cycle, value, arm in zip(cycles, values, arms, strict=True) if arm == control
    }
    others = [str(arm) for arm in np.unique(arms) if arm != control]
    found = []
    for arm in others:
        own = arms == arm
        pairs = [
            float(value) - reference[int(cycle)]
            for value, cycle in zip(values[own], cycles[own], strict=True)
            if int(cycle) in reference
        ]
        if len(pairs) < LEAST_CYCLES:
            continue
        half = t_quantile(1 - (1 - LEVEL) / 2 / len(others), len(pairs) - 1) * float(np.std(pairs, ddof=1))
        if abs(float(np.mean(pairs))) - half / len(pairs) ** 0.5 > LEAST_SHIFT:
            found.append(arm)
    return found
