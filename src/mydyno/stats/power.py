"""How many blocks: for an effect to be found, for equivalence to be shown, and for an exact test to be able to speak.

`sd` is always that of the block differences of logs (sqrt(2) times the sd of one run's log, where arms are alike);
effects and margins are fractions (0.02 is 2 %) read as differences of logs: ln 1.02 = 0.0198, and planning is not
finer. Both powers are the normal probability given the observed sd, averaged over the distribution of that sd; for
equivalence (at a true ratio of 1) see Phillips, Journal of Pharmacokinetics and Biopharmaceutics 18 (1990).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from mydyno.errors import BugError
from mydyno.stats.paired import t_quantile

MOST_BLOCKS = 10_000
"""Beyond this the answer is this: nobody runs that many, and the noise is what must change."""
SD_QUANTILES = 2_000

Factors = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plan:
    """Blocks that a margin needs: to find it, to show equivalence, for an exact p; `blocks` is the largest of them."""

    detection: int
    equivalence: int
    exactness: int
    blocks: int


def blocks_for_detection(sd: float, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest blocks with which a two-sided paired t finds a true effect of this size so often; at least 2."""
    _check(sd, effect)
    return _fewest(lambda n: detection_power(n, sd, effect, alpha) >= power)


def detection_power(n: int, sd: float, effect: float, alpha: float = 0.05) -> float:
    """The power of the two-sided paired t with n >= 2 blocks."""
    if sd == 0.0:
        return 1.0
    shift, critical = effect * sqrt(n) / sd, t_quantile(1.0 - alpha / 2.0, n - 1)
    return _expected_over_sd(
        lambda factor: special.ndtr(shift - critical * factor) + special.ndtr(-shift - critical * factor), n
    )


def detectable_effect(n: int, sd: float, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest effect (a fraction) that n blocks find with this power; None for fewer than 2 blocks."""
    if n < 2:
        return None
    if sd == 0.0:
        return 0.0
    return float(optimize.brentq(lambda effect: detection_power(n, sd, effect, alpha) - power, 0.0, 1000.0 * sd))


def blocks_for_equivalence(sd: float, margin: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest blocks with which a true ratio of 1 is shown to be within ±margin with this power; at least 2."""
    _check(sd, margin)
    return _fewest(lambda n: equivalence_power(n, sd, margin, alpha) >= power)


def equivalence_power(n: int, sd: float, margin: float, alpha: float = 0.05) -> float:
    """The power of the two one-sided tests with n >= 2 blocks when arm and control are truly alike."""
    if sd == 0.0:
        return 1.0
    half, critical = margin * sqrt(n) / sd, t_quantile(1.0 - alpha, n - 1)
    return _expected_over_sd(lambda factor: np.maximum(2.0 * special.ndtr(half - critical * factor) - 1.0, 0.0), n)


def blocks_for_half_width(sd: float, half_width: float, level: float = 0.95) -> int:
    """The fewest blocks whose t interval reaches no further than `half_width` (a fraction) from the estimate."""
    _check(sd, half_width)
    quantile = 0.5 + level / 2.0
    return _fewest(lambda n: t_quantile(quantile, n - 1) * sd / sqrt(n) <= half_width)


def minimum_blocks(contrasts: int, alpha: float = 0.05) -> int:
    """The fewest blocks with which a sign-flip can still be significant after Holm over this many contrasts.

    The smallest p of n blocks is 2^(1-n), so n = 1 + log2(contrasts / alpha), rounded up: 6 for one contrast, 8 for
    five.
    """
    if contrasts < 1:
        raise BugError(f"a family has at least one contrast, not {contrasts}")
    return ceil(1.0 + log2(contrasts / alpha) - 1e-9)


def plan(sd: float, margin: float, contrasts: int = 1, alpha: float = 0.05) -> Plan:
    """Blocks that find an effect as large as the margin, or else show equivalence within it, each with 80 % power."""
    detection = blocks_for_detection(sd, margin, alpha=alpha)
    equivalence = blocks_for_equivalence(sd, margin, alpha=alpha)
    exactness = minimum_blocks(contrasts, alpha)
    return Plan(detection, equivalence, exactness, max(detection, equivalence, exactness))


def internal_pilot(
    *, sd_identical: float, sd_residual: float, margin: float, contrasts: int, planned: int, alpha: float = 0.05
) -> int:
    """The number of blocks to fix after a pilot that looked at spread only: never fewer than planned.

    `sd_identical` is that of ln(A′ / A) over the pilot's blocks, `sd_residual` that of the arms' block residuals turned
    into one of differences (times sqrt(2)); the larger one decides. Effects must not have been looked at: stopping by
    looks at them finds "differences" between identical arms in 21.8 % of experiments (peeking from 3 to 20 blocks).
    """
    return max(planned, plan(max(sd_identical, sd_residual), margin, contrasts, alpha).blocks)


def _check(sd: float, size: float) -> None:
    if not sd >= 0.0 or not size > 0.0:
        raise BugError(f"sd must be at least 0 and the effect or margin above 0, not {sd!r} and {size!r}")


def _expected_over_sd(probability: Callable[[Factors], Factors], n: int) -> float:
    """The mean of a probability over how far the observed sd may be from the true one (factor² ~ chi² / (n - 1)).

    Mid-point rule over the quantiles of chi²: scipy's noncentral t returns NaN for some of the arguments needed here.
    """
    return float(np.mean(probability(_sd_factors(n))))


@lru_cache(maxsize=256)
def _sd_factors(n: int) -> Factors:
    """Quantiles of observed sd / true sd for n normal values."""
    levels = (np.arange(SD_QUANTILES) + 0.5) / SD_QUANTILES
    return np.asarray(np.sqrt(2.0 * special.gammaincinv((n - 1) / 2.0, levels) / (n - 1)), dtype=np.float64)


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest n from 2 to MOST_BLOCKS that is enough, `enough` being monotone; MOST_BLOCKS if none is."""
    low, high = 2, 2
    while high < MOST_BLOCKS and not enough(high):
        low, high = high, min(2 * high, MOST_BLOCKS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
