"""Several contrasts at once: the max-|t| sign-flip, which keeps their correlation, with Holm where blocks differ too
much.

Under no effect, each block's log ratio was as likely to come with the other sign: inside a block the arms run in random
order, so if the arm did nothing, exchanging it with the control's copy changes only the sign. Counting in how many of
the 2^n sign patterns the total is at least as far from 0 as the one observed gives a p that needs no normal
distribution (Fisher 1935; Pesarin and Salmaso 2010).

All contrasts of a block are flipped together, so the correlation between connection counts (and between arms that share
one control) stays as it is; the adjusted p of a contrast is the share of patterns whose largest |t| over the family is
at least as large as the contrast's own (single step; Westfall and Young 1993; Winkler et al., NeuroImage 92 (2014)).
For one contrast this is the plain sign-flip. It is exact where the blocks' errors are symmetric.

The p of t comes from the largest |t| when the *residuals* are flipped, from 7 blocks on; it is held between that of the
contrast alone and Bonferroni's.

Missing runs: a contrast uses the blocks in which it exists. With unequal n the |t| are compared by their own t
distribution (the min-p form of the same procedure).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.paired import has_no_spread, t_p_value
from mydyno.stats.permutation import holm

EXACT_LIMIT = 20
"""Blocks up to which all patterns are counted: 2^19 of them, the other half being their mirror images."""
DRAWS = 50_000
"""Random patterns above EXACT_LIMIT; p = (k + 1) / (DRAWS + 1) is then never 0 (Phipson and Smyth 2010)."""
TIE = 1e-9
"""Relative slack within which two totals are tied: patterns that are equal in arithmetic must be equal here."""


def sign_flip(
    log_ratios: Sequence[float] | NDArray[np.float64], seed: int = 1, exact_limit: int = EXACT_LIMIT
) -> float | None:
    """The two-sided p of a mean log ratio of 0; exact to 20 blocks, above that from seeded random patterns.

    Blocks without any difference count as they are: p is 1 if all are 0, None without blocks. Raises BugError for
    values that are not finite.
    """
    d = np.asarray(log_ratios, dtype=np.float64)
    if d.ndim != 1 or not np.isfinite(d).all():
        raise BugError(f"log ratios must be one finite number per block, not {log_ratios!r}")
    n = int(d.size)
    if n == 0:
        return None
    exact = n <= exact_limit
    totals = np.abs(flipped_totals(d, None if exact else random_signs(n, seed)))
    as_far = totals >= abs(float(d.sum())) - TIE * float(np.abs(d).sum())
    return share(int(as_far.sum()), as_far.size, exact)


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


FEWEST_BLOCKS_FOR_RESIDUALS = 7
"""Under 7 blocks the patterns are too few for a 5 % quantile."""
SMALLEST_COMMON_SHARE = 0.5
"""Holm replaces max-t where a smaller share of the blocks has every contrast: flips shared by few say little."""

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contrast:
    """One contrast of a family: its adjusted p by t, and `p`, the larger of that and the adjusted p of the sign-flip.

    Both are None if n is 0; with n = 1, and where all blocks gave one ratio, t does not exist and the sign-flip stands
    alone.
    """

    n: int
    p_adjusted_t: float | None
    p: float | None


def family_test(log_ratios: Table, seed: int = 1) -> tuple[Contrast, ...]:
    """Adjusted p values of a table of log ratios, in column order: a row per block, a column per contrast.

    NaN marks a contrast that the block lacks; a column without any value is answered with None and is no member of the
    family. Raises BugError for a table that has not two dimensions, or holds an infinity.
    """
    table = np.asarray(log_ratios, dtype=np.float64)
    if table.ndim != 2 or np.isinf(table).any():
        raise BugError(f"log ratios must be a table of blocks by contrasts without infinities, not shape {table.shape}")
    present = ~np.isnan(table)
    members = np.flatnonzero(present.any(axis=0))
    contrasts = [Contrast(0, None, None)] * table.shape[1]
    if members.size == 0:
        return tuple(contrasts)
    part = table[np.ix_(present.any(axis=1), members)]
    blocks_with_all = int((~np.isnan(part)).all(axis=1).sum())
    use_holm = blocks_with_all < SMALLEST_COMMON_SHARE * part.shape[0]
    for column, contrast in zip(members, (_holm if use_holm else _max_t)(part, seed), strict=True):
        contrasts[int(column)] = contrast
    return tuple(contrasts)


def _max_t(table: Table, seed: int) -> list[Contrast]:
    blocks, members = table.shape
    sizes = (~np.isnan(table)).sum(axis=0)
    common_n = int(sizes[0]) if (sizes == sizes[0]).all() else None
    signs = None if blocks <= EXACT_LIMIT else random_signs(blocks, seed)
    largest = _largest_strength(table, signs, common_n)
    largest_residual = _largest_strength(_residuals(table), signs, common_n)
    answers = []
    for j in range(members):
        column = table[~np.isnan(table[:, j]), j]
        own = float(_strength(np.array([column.sum()]), column, common_n)[0]) * (1.0 - TIE)
        p_flip = share(int((largest >= own).sum()), largest.size, signs is None)
        enough = column.size >= FEWEST_BLOCKS_FOR_RESIDUALS and members > 1
        answers.append(_contrast(column, members, p_flip, float((largest_residual >= own).mean()) if enough else None))
    return answers


def _holm(table: Table, seed: int) -> list[Contrast]:
    columns = [table[~np.isnan(table[:, j]), j] for j in range(table.shape[1])]
    p_flips = holm([sign_flip(column, seed) or 0.0 for column in columns])
    return [_contrast(column, len(columns), p, None) for column, p in zip(columns, p_flips, strict=True)]


def _residuals(table: Table) -> Table:
    """The table less its column means; a column without spread becomes exactly 0, not the rounding that is left."""
    residuals = np.asarray(table - np.nanmean(table, axis=0), dtype=np.float64)
    for j in range(table.shape[1]):
        if has_no_spread(table[~np.isnan(table[:, j]), j]):
            residuals[:, j] = np.where(np.isnan(table[:, j]), np.nan, 0.0)
    return residuals


def _largest_strength(table: Table, signs: Table | None, common_n: int | None) -> NDArray[np.float64]:
    """The largest strength over the contrasts for each sign pattern; a missing block adds 0 to a total."""
    largest: NDArray[np.float64] | None = None
    for j in range(table.shape[1]):
        column = table[~np.isnan(table[:, j]), j]
        strength = _strength(flipped_totals(np.nan_to_num(table[:, j]), signs), column, common_n)
        largest = strength if largest is None else np.maximum(largest, strength)
    assert largest is not None
    return largest


def _strength(totals: NDArray[np.float64], column: NDArray[np.float64], common_n: int | None) -> NDArray[np.float64]:
    """An increasing function of |t| that may be compared between contrasts.

    With one n for all it is u = total² / (n·sum of squares), because t² = (n - 1)·u / (1 - u); otherwise it is
    -ln p of that t. Without any difference, or with one block, there is no evidence: 0.
    """
    n, squares = column.size, float(np.square(column).sum())
    if squares == 0.0 or n < 2:
        return np.zeros_like(totals)
    u = np.minimum(np.square(totals) / (n * squares), 1.0)
    if common_n is not None:
        return u
    with np.errstate(divide="ignore"):
        t = np.sqrt((n - 1) * u / (1.0 - u))
        log_tail = np.log(np.asarray(scipy.special.stdtr(n - 1, -t), dtype=np.float64))
    return np.minimum(-(log(2.0) + log_tail), 1e6)


def _contrast(column: NDArray[np.float64], members: int, p_flip: float, p_residual: float | None) -> Contrast:
    n, p_t = column.size, None
    if n >= 2:
        sd = 0.0 if has_no_spread(column) else float(column.std(ddof=1))
        p_t = t_p_value(float(column.mean()), sd, n)
    if p_t is None:
        return Contrast(n, None, p_flip)
    p_adjusted_t = min(1.0, members * p_t)
    if p_residual is not None:
        p_adjusted_t = min(max(p_residual, p_t), p_adjusted_t)
    return Contrast(n, p_adjusted_t, max(p_flip, p_adjusted_t))
