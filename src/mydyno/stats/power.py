"""How many blocks: for an effect to be found, for equivalence, for an exact test, and for an interval of some width.

`sd` is that of one block's difference of logs, as the contrast's interval has it: for an arm against the mean of A and
A′ it is sqrt(1.5) times the sd of one log value. Effects and margins are fractions (0.02 is 2 %) read as differences of
logs: ln 1.02 = 0.0198, and planning is not finer. `freedom` is how many degrees of freedom each further block adds: 1
for the contrast's own differences, one less than the servers of a step where the noise is pooled. Both powers are the
normal probability given the observed sd, averaged over the distribution of that sd; for equivalence (at a true ratio
of 1) see Phillips, Journal of Pharmacokinetics and Biopharmaceutics 18 (1990).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import expm1, log1p, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.model.definition.plan import InterimAnalyses
from mydyno.stats.paired import t_quantile
from mydyno.stats.permutation import smallest_p
from mydyno.stats.tost import FEWEST_BLOCKS

MOST_BLOCKS = 10_000
"""Beyond this the answer is this: so many are impractical, and the noise must be reduced."""
SD_QUANTILES = 500
Factors = NDArray[np.float64]


@lru_cache(maxsize=1024)
def blocks_for_detection(sd: float, effect: float, power: float = 0.8, alpha: float = 0.05, freedom: int = 1) -> int:
    """The fewest blocks with which a two-sided t test finds a true effect of this size so often; at least 2."""
    _check(sd, effect)
    return _fewest(lambda n: detection_power(n, sd, effect, alpha, freedom) >= power)


def detection_power(n: int, sd: float, effect: float, alpha: float = 0.05, freedom: int = 1) -> float:
    """The power of the two-sided t test with n >= 2 blocks."""
    if sd == 0.0:
        return 1.0
    degrees = (n - 1) * freedom
    shift, critical = effect * sqrt(n) / sd, t_quantile(1.0 - alpha / 2.0, degrees)
    return _expected_over_sd(
        lambda factor: scipy.special.ndtr(shift - critical * factor) + scipy.special.ndtr(-shift - critical * factor),
        degrees,
    )


@lru_cache(maxsize=1024)
def blocks_for_equivalence(sd: float, margin: float, power: float = 0.8, alpha: float = 0.05, freedom: int = 1) -> int:
    """The fewest blocks with which a true ratio of 1 is shown to be within ±margin with this power; at least 6."""
    _check(sd, margin)
    enough = _fewest(lambda n: equivalence_power(n, sd, margin, alpha, freedom) >= power)
    return max(enough, FEWEST_BLOCKS)


def equivalence_power(n: int, sd: float, margin: float, alpha: float = 0.05, freedom: int = 1) -> float:
    """The power of the two one-sided tests with n >= 2 blocks when arm and control are truly alike."""
    if sd == 0.0:
        return 1.0
    degrees = (n - 1) * freedom
    half, critical = margin * sqrt(n) / sd, t_quantile(1.0 - alpha, degrees)
    return _expected_over_sd(
        lambda factor: np.maximum(2.0 * scipy.special.ndtr(half - critical * factor) - 1.0, 0.0), degrees
    )


def detectable(half: float, critical_p: float, degrees: int, power: float = 0.8) -> float:
    """The true difference of logs that an interval with this half-width leaves out 0 for so often.

    `critical_p` is the two-sided p of the interval's t, `degrees` its degrees of freedom. A difference of the
    half-width itself is found in half of the studies.
    """
    critical = t_quantile(1.0 - critical_p / 2.0, degrees)

    def lacks(shift: float) -> float:
        return power - _expected_over_sd(lambda factor: scipy.special.ndtr(shift - critical * factor), degrees)

    return half * float(scipy.optimize.brentq(lacks, 0.0, 10.0 * critical)) / critical


def projected_half_width(
    sd: float, n_blocks: int, servers: int, contrasts: int = 1, alpha: float = 0.05, copies: int = 1
) -> float | None:
    """The half-width (a fraction: 0.02 is ±2 %) that each of `contrasts` simultaneous intervals will have.

    `sd` is that of ln(A′ / A), one number per block, for example from a pilot; `servers` are those of a block, copies
    among them; `copies` are those of a treated arm, the control has two. The critical value is Šidák's, which is
    slightly too large for contrasts that share a control. None for fewer than 2 blocks. Raises
    BugError for fewer than 2 servers.
    """
    _check(sd, 1.0)
    if servers < 2 or contrasts < 1:
        raise BugError(f"a block has at least 2 servers and 1 contrast, not {servers} and {contrasts}")
    if n_blocks < 2:
        return None
    one = -expm1(log1p(-alpha) / contrasts)
    critical = t_quantile(1.0 - one / 2.0, (n_blocks - 1) * (servers - 1) + 1)
    of_a_a = (1.0 / copies + 1.0 / 2.0) / 2.0  # variance of a contrast as a share of that of A′ − A
    return expm1(critical * sd * sqrt(of_a_a / n_blocks))


def can_be_significant(labels: Sequence[int], contrasts: int, alpha: float) -> bool:
    """Whether the clearest effect there can be has a p of at most alpha in the joint test of this many contrasts.

    `labels`: how many each block has. With two, a statistic is at most the root of the number of blocks, which must be
    beyond what the largest of the others is by chance: about the normal quantile after Bonferroni.
    """
    if smallest_p(labels) > alpha * (1.0 + 1e-9):
        return False
    if contrasts == 1 or max(labels) > 2:
        return True
    return sqrt(len(labels)) >= float(scipy.special.ndtri(1.0 - alpha / (2.0 * contrasts)))


def minimum_blocks(contrasts: int, alpha: float = 0.05, labels: int = 3) -> int:
    """The fewest blocks with which the joint permutation of labels can be significant.

    With A, A′ and the arm in each block the smallest p is 3^-n, however many contrasts there are: 3 blocks at 0.05, 4
    at 0.03125. With one control (labels = 2) it is 2^(1-n): 6 for one contrast at 0.05, 7 for five.
    """
    if contrasts < 1:
        raise BugError(f"a family has at least one contrast, not {contrasts}")
    return next(n for n in range(1, 100) if can_be_significant([labels] * n, contrasts, alpha) or n == 99)


@lru_cache(maxsize=1024)
def sample_size(
    sd: float, margin: float, contrasts: int = 1, alpha: float = 0.05, freedom: int = 1, labels: int = 3
) -> int:
    """Blocks that find an effect as large as the margin, or else show equivalence within it, each with 80 % power.

    Detection is planned at Bonferroni's share of alpha, so that it holds for each of the contrasts.
    """
    detection = blocks_for_detection(sd, margin, alpha=alpha / contrasts, freedom=freedom)
    equivalent = blocks_for_equivalence(sd, margin, alpha=alpha, freedom=freedom)
    return max(detection, equivalent, minimum_blocks(contrasts, alpha, labels))


def planned_look(
    looks: InterimAnalyses, sd: float, margin: float, contrasts: int, after: int, freedom: int = 1, labels: int = 3
) -> int | None:
    """The first look after so many blocks that meets `sample_size` at its own error rate; None where none does."""
    for look, alpha in looks.rates.items():
        if look > after and sample_size(sd, margin, contrasts, alpha, freedom, labels) <= look:
            return look
    return None


def planned_exact_look(looks: InterimAnalyses, contrasts: int, after: int, labels: int = 3) -> int | None:
    """The first look after so many blocks at which a label permutation can be significant; None if none is."""
    rates = looks.rates.items()
    able = (look for look, alpha in rates if look > after and minimum_blocks(contrasts, alpha, labels) <= look)
    return next(able, None)


def _check(sd: float, size: float) -> None:
    if not sd >= 0.0 or not size > 0.0:
        raise BugError(f"sd must be at least 0 and the effect or margin above 0, not {sd!r} and {size!r}")


def _expected_over_sd(probability: Callable[[Factors], Factors], degrees: int) -> float:
    """The mean of a probability over how far the observed sd may be from the true one (factor² ~ chi² / degrees).

    Mid-point rule over the quantiles of chi²: scipy's noncentral t returns NaN for some of the arguments needed here.
    """
    return float(np.mean(probability(_sd_factors(degrees))))


@lru_cache(maxsize=256)
def _sd_factors(degrees: int) -> Factors:
    """Quantiles of observed sd / true sd."""
    levels = (np.arange(SD_QUANTILES) + 0.5) / SD_QUANTILES
    return np.asarray(np.sqrt(2.0 * scipy.special.gammaincinv(degrees / 2.0, levels) / degrees), dtype=np.float64)


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest n from 2 to MOST_BLOCKS that is enough, `enough` being monotone; MOST_BLOCKS if none is."""
    low, high = 2, 2
    while high < MOST_BLOCKS and not enough(high):
        low, high = high, min(2 * high, MOST_BLOCKS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
