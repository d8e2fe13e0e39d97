"""Equivalence: is the ratio surely within ±margin? Two one-sided t tests, read off the 1 − 2·alpha interval.

Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987). Each one-sided test has size alpha, and being
equivalent needs both, so the whole has size alpha at most. The margin is one of the ratio: 0.02 is 0.98 to 1.02.

Non-inferiority: is the ratio surely on the good side of a limit, or surely beyond it? `within` tests against "the ratio
is at the limit or worse", `beyond` against "the ratio is at the limit or better"; at the limit exactly either error has
the probability of its own p. See Rothmann, Wiens and Chan, Design and Analysis of Non-Inferiority Trials (2011),
chapter 5, for ratios. The noise is that of the contrast's interval (stats/contrast.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import NO_SPREAD, Interval, t_tail

FEWEST_BLOCKS = 6
"""An arm that stalls in a few windows only was called equivalent from 2 blocks in 63 to 87 % of studies (simulated)."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether the ratio is within the margin, and its interval; without an interval (n < 2) nothing is equivalent."""

    equivalent: bool
    interval: Interval


def equivalence(found: Estimate, margin: float, alpha: float = 0.05) -> Equivalence:
    """The verdict of the two one-sided tests; fewer than 6 blocks are never equivalent.

    Without spread the ratio decides alone. Raises BugError unless 0 < margin < 1.
    """
    check_margin(margin)
    interval = found.interval(2.0 * alpha, 1.0 - 2.0 * alpha)
    if found.mean is None or found.error is None or interval.low is None or interval.high is None:
        return Equivalence(False, interval)
    inside = found.n >= FEWEST_BLOCKS and 1.0 - margin < interval.low and interval.high < 1.0 + margin
    return Equivalence(inside, interval)


def check_margin(margin: float) -> None:
    """Raises BugError unless the margin is a fraction between 0 and 1, for example 0.02 for ±2 %."""
    if not 0.0 < margin < 1.0:
        raise BugError(f"margin must be a fraction between 0 and 1 (0.02 is ±2 %), not {margin!r}")


@dataclass(frozen=True, slots=True)
class LimitTest:
    """The one-sided p of being within the limit and of being beyond it; both 1 where there is too little to test.

    `distance` is ln(ratio / limit), positive on the good side; None without a block.
    """

    distance: float | None
    within: float
    beyond: float


def limit_test(found: Estimate, limit: float, better: str) -> LimitTest:
    """The tests of one contrast against a limit of its ratio: 0.98 of a metric of which more is `better` ("higher").

    With fewer than 6 blocks nothing is within: an arm that stalls in a few windows has often shown none by then.
    Raises BugError for a limit that is not positive.
    """
    if not limit > 0.0:
        raise BugError(f"a limit is a positive ratio, not {limit!r}")
    if found.mean is None or found.error is None:
        return LimitTest(None, 1.0, 1.0)
    distance = sign_of(better) * (found.mean - log(limit))
    if found.error == 0.0:
        within, beyond = float(distance <= NO_SPREAD), float(distance >= -NO_SPREAD)
    else:
        within = t_tail(distance / found.error, found.freedom)
        beyond = t_tail(-distance / found.error, found.freedom)
    return LimitTest(distance, within if found.n >= FEWEST_BLOCKS else 1.0, beyond)


def sign_of(better: str) -> float:
    """1 for a metric of which more is better ("higher"), else −1."""
    return 1.0 if better == "higher" else -1.0
