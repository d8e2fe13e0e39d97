"""Equivalence: is the ratio surely within ±margin? Two one-sided t tests, read off the 1 − 2·alpha interval.

Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987). Each one-sided test has size alpha, and being
equivalent needs both, so the whole has size alpha at most. The margin is one of the ratio: 0.02 is 0.98 to 1.02.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import Interval, t_tail

FEWEST_BLOCKS = 6
"""An arm that stalls in a few windows only was called equivalent from 2 blocks in 63 to 87 % of studies (simulated)."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether the ratio is within ±`margin`, the interval, the p (larger of the two), and the smallest margin.

    Without an interval (n < 2) nothing is equivalent, and `p` and `smallest_margin` are None. `smallest_margin` is the
    bound of the margins for which these data would be called equivalent.
    """

    margin: float
    equivalent: bool
    interval: Interval
    p: float | None
    smallest_margin: float | None


def equivalence(found: Estimate, margin: float, alpha: float = 0.05) -> Equivalence:
    """The verdict of the two one-sided tests; fewer than 6 blocks are never equivalent.

    Without spread the ratio decides alone. Raises BugError unless 0 < margin < 1.
    """
    check_margin(margin)
    interval = found.interval(2.0 * alpha, 1.0 - 2.0 * alpha)
    if found.mean is None or found.error is None or interval.low is None or interval.high is None:
        return Equivalence(margin, False, interval, None, None)
    inside = found.n >= FEWEST_BLOCKS and 1.0 - margin < interval.low and interval.high < 1.0 + margin
    smallest = max(interval.high - 1.0, 1.0 - interval.low)
    return Equivalence(margin, inside, interval, tost_p(found.mean, found.error, found.freedom, margin), smallest)


def tost_p(mean: float, error: float, freedom: int, margin: float) -> float:
    """The larger p of the two one-sided tests against 1 - margin and 1 + margin."""
    below, above = mean - log(1.0 - margin), log(1.0 + margin) - mean
    if error == 0.0:
        return 0.0 if min(below, above) > 0.0 else 1.0
    return t_tail(min(below, above) / error, freedom)


def check_margin(margin: float) -> None:
    """Raises BugError unless the margin is a fraction between 0 and 1, for example 0.02 for ±2 %."""
    if not 0.0 < margin < 1.0:
        raise BugError(f"margin must be a fraction between 0 and 1 (0.02 is ±2 %), not {margin!r}")
