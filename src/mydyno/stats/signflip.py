"""The exact sign-flip test: under no effect, each block's log ratio was as likely to come with the other sign.

Inside a block the arms run in random order, so if the arm did nothing, exchanging it with the control's copy changes
only the sign of that block's log ratio. Counting in how many of the 2^n sign patterns the total is at least as far from
0 as the one observed gives a p that needs no normal distribution (Fisher 1935; Pesarin and Salmaso 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError

EXACT_LIMIT = 20
"""Blocks up to which all patterns are counted: 2^19 of them, the other half being their mirror images."""
DRAWS = 50_000
"""Random patterns above EXACT_LIMIT; p = (k + 1) / (DRAWS + 1) is then never 0 (Phipson and Smyth 2010)."""
TIE = 1e-9
"""Relative slack within which two totals are tied: patterns that are equal in arithmetic must be equal here."""


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Two-sided `p` (None for n = 0), whether all patterns were counted, and the smallest p that n blocks can give."""

    n: int
    p: float | None
    exact: bool
    smallest_p: float


def sign_flip(
    log_ratios: Sequence[float] | NDArray[np.float64], seed: int = 1, exact_limit: int = EXACT_LIMIT
) -> SignFlip:
    """The sign-flip p of a mean log ratio of 0; exact to 20 blocks, above that from seeded random patterns.

    Blocks without any difference count as they are: p is 1 if all are 0. Raises BugError for values that are not
    finite.
    """
    d = np.asarray(log_ratios, dtype=np.float64)
    if d.ndim != 1 or not np.isfinite(d).all():
        raise BugError(f"log ratios must be one finite number per block, not {log_ratios!r}")
    n = int(d.size)
    if n == 0:
        return SignFlip(0, None, True, 1.0)
    exact = n <= exact_limit
    totals = np.abs(flipped_totals(d, None if exact else random_signs(n, seed)))
    as_far = totals >= abs(float(d.sum())) - TIE * float(np.abs(d).sum())
    return SignFlip(n, share(int(as_far.sum()), as_far.size, exact), exact, smallest_p(n))


def smallest_p(n: int) -> float:
    """The smallest two-sided p that n blocks can reach: 2 / 2^n; 1 for none; above 20, that of the random patterns."""
    if n == 0:
        return 1.0
    return 2.0 ** (1 - n) if n <= EXACT_LIMIT else 1.0 / (DRAWS + 1)


def flipped_totals(d: NDArray[np.float64], signs: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """The total of d under each sign pattern: all with the first sign kept (the rest mirror them), or the rows of
    `signs`.

    The order of patterns depends on n alone, so that columns of one table are flipped together.
    """
    if signs is not None:
        return np.asarray(signs @ d, dtype=np.float64)
    totals = d[:1].copy()
    for value in d[1:]:
        totals = np.concatenate([totals + value, totals - value])
    return totals


@lru_cache(maxsize=4)
def random_signs(n: int, seed: int) -> NDArray[np.float64]:
    """DRAWS seeded sign patterns of n blocks."""
    return np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), size=(DRAWS, n))


def share(count: int, patterns: int, exact: bool) -> float:
    """The p of `count` patterns out of all; with random patterns the observed one is added to both."""
    return count / patterns if exact else (count + 1) / (patterns + 1)
