"""Is a covariate free of the arms? One that an arm changes must not adjust it: the adjustment would take away effect.

TLS, for example, raises the load program's CPU time per query; adjusted for it, TLS would seem to cost nothing. So a
covariate whose mean in an arm differs from the control's, block by block, by more than noise is dropped for all arms.
"""

from __future__ import annotations

from math import expm1

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.paired import t_quantile

LEVEL = 0.99
"""Of all arms together (Bonferroni)."""
LEAST_SHIFT = 0.02
"""A shift that is surely smaller than this changes an adjusted effect by less than any margin in use."""
LEAST_BLOCKS = 2


def shifted_by_arm(
    values: NDArray[np.float64], arms: NDArray[np.str_], blocks: NDArray[np.int64], control: str
) -> list[str]:
    """The arms whose block means of a log covariate surely differ from the control's by more than LEAST_SHIFT.

    `values`, `arms` and `blocks` have one entry for each slice. Every arm but the control is tested, its copy too.
    """
    others = [str(arm) for arm in np.unique(arms) if arm != control]
    found = []
    for arm in others:
        differences = []
        for block in np.unique(blocks):
            own, reference = values[(arms == arm) & (blocks == block)], values[(arms == control) & (blocks == block)]
            if own.size and reference.size:
                differences.append(float(own.mean() - reference.mean()))
        if len(differences) < LEAST_BLOCKS:
            continue
        mean, sd = float(np.mean(differences)), float(np.std(differences, ddof=1))
        half = t_quantile(1 - (1 - LEVEL) / 2 / len(others), len(differences) - 1) * sd / len(differences) ** 0.5
        if abs(expm1(mean)) > LEAST_SHIFT and abs(mean) - half > LEAST_SHIFT:
            found.append(arm)
    return found
