"""Is the ratio surely on the good side of a limit, or surely beyond it? Two one-sided t tests of the same limit.

`within` tests against "the ratio is at the limit or worse", `beyond` against "the ratio is at the limit or better"; at
the limit exactly either error has the probability of its own p. The noise is that of the contrast's interval
(stats/contrast.py). See Rothmann, Wiens and Chan, Design and Analysis of Non-Inferiority Trials (2011), chapter 5, for
ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import NO_SPREAD, t_tail
from mydyno.stats.tost import FEWEST_BLOCKS


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
