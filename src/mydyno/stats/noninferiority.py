"""Is the ratio surely on the good side of a limit, or surely beyond it? Two one-sided tests of the same limit.

`within` tests against "the ratio is at the limit or worse", `beyond` against "the ratio is at the limit or better"; at
the limit exactly either error has the probability of its own p. Each p is the larger of two: Student's t with the noise
that the contrast's interval has (stats/contrast.py), and the permutation of labels inside blocks after the arm's values
have been divided by the limit (stats/permutation.py), which is exact for any noise that arm and control share. See
Rothmann, Wiens and Chan, Design and Analysis of Non-Inferiority Trials (2011), chapter 5, for ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate, LogBlocks
from mydyno.stats.groups import GroupOf, weighted_blocks
from mydyno.stats.paired import NO_SPREAD, t_tail
from mydyno.stats.permutation import label_permutation_tails
from mydyno.stats.tost import FEWEST_BLOCKS


@dataclass(frozen=True, slots=True)
class LimitTest:
    """The one-sided p of being within the limit and of being beyond it; both 1 where there is too little to test.

    `distance` is ln(ratio / limit), positive on the good side; None without a block.
    """

    distance: float | None
    within: float
    beyond: float


def limit_test(
    found: Estimate, blocks: LogBlocks, limit: float, better: str, host_groups: GroupOf, seed: int = 1
) -> LimitTest:
    """The tests of one contrast against a limit of its ratio: 0.98 of a metric of which more is `better` ("higher").

    With fewer than 6 blocks nothing is within: an arm that stalls in a few windows has often shown none by then.
    Raises BugError for a limit that is not positive.
    """
    if not limit > 0.0:
        raise BugError(f"a limit is a positive ratio, not {limit!r}")
    if found.mean is None or found.error is None:
        return LimitTest(None, 1.0, 1.0)
    sign = 1.0 if better == "higher" else -1.0
    distance = sign * (found.mean - log(limit))
    if found.error == 0.0:
        within_t, beyond_t = float(distance <= NO_SPREAD), float(distance >= -NO_SPREAD)
    else:
        within_t = t_tail(distance / found.error, found.freedom)
        beyond_t = t_tail(-distance / found.error, found.freedom)
    shifted = {number: (arm - log(limit), *controls) for number, (arm, *controls) in blocks.items()}
    tails = label_permutation_tails(weighted_blocks(shifted, host_groups), seed)
    large, small = tails if tails is not None else (1.0, 1.0)
    above, below = (large, small) if better == "higher" else (small, large)
    within = max(within_t, above) if found.n >= FEWEST_BLOCKS else 1.0
    return LimitTest(distance, within, max(beyond_t, below))
