"""The exact permutation of labels inside blocks, and Holm's and Hochberg's adjustment of p values.

Inside a block the order is random, so if the arm did nothing, its label could have been on any of the block's runs: on
the arm's own, on the control's first copy A or on its second copy A′. Counting in how many of the 3^n assignments the
sum of d_b is at least as far from 0 as the one observed gives a p without any assumption on the noise but that the
three are exchangeable (Fisher 1935; Pesarin and Salmaso 2010). A block with one control has two assignments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError

EXACT_LIMIT = 20
"""Blocks up to which all assignments are counted: sums of two halves of 3^10 each are matched in sorted order."""
DRAWS = 50_000
"""Random assignments above EXACT_LIMIT; p = (k + 1) / (DRAWS + 1) is then never 0 (Phipson and Smyth 2010)."""
TIE = 1e-9
"""Relative slack within which two sums are tied: assignments that are equal in arithmetic must be equal here."""


def label_permutation(blocks: Sequence[Sequence[float]], seed: int = 1) -> float | None:
    """The two-sided p of no effect; None without a block.

    A block is the log value of the arm followed by those of the control's copies, one or two. Exact to 20 blocks, above
    that from seeded random assignments. Raises BugError for a block without a control or a value that is not finite.
    """
    _check(blocks)
    if not blocks:
        return None
    choices = [_differences(np.asarray(block, dtype=np.float64)) for block in blocks]
    observed = abs(sum(float(choice[0]) for choice in choices))
    slack = TIE * sum(float(np.abs(choice).max()) for choice in choices)
    if observed <= slack:
        return 1.0
    if len(blocks) > EXACT_LIMIT:
        totals = np.abs(_drawn_totals(choices, seed))
        return (int((totals >= observed - slack).sum()) + 1) / (DRAWS + 1)
    first, second = _totals(choices[::2]), np.sort(_totals(choices[1::2]))
    above = second.size - np.searchsorted(second, observed - slack - first, side="left")
    below = np.searchsorted(second, slack - observed - first, side="right")
    return float(above.sum() + below.sum()) / (first.size * second.size)


def label_permutation_tails(blocks: Sequence[Sequence[float]], seed: int = 1) -> tuple[float, float] | None:
    """The one-sided p that the sum of d_b is so large, and the p that it is so small; None without a block.

    Blocks, exactness and errors are those of label_permutation.
    """
    _check(blocks)
    if not blocks:
        return None
    choices = [_differences(np.asarray(block, dtype=np.float64)) for block in blocks]
    observed = sum(float(choice[0]) for choice in choices)
    slack = TIE * sum(float(np.abs(choice).max()) for choice in choices)
    if len(blocks) > EXACT_LIMIT:
        totals = _drawn_totals(choices, seed)
        large, small = int((totals >= observed - slack).sum()), int((totals <= observed + slack).sum())
        return (large + 1) / (DRAWS + 1), (small + 1) / (DRAWS + 1)
    first, second = _totals(choices[::2]), np.sort(_totals(choices[1::2]))
    above = second.size - np.searchsorted(second, observed - slack - first, side="left")
    below = np.searchsorted(second, observed + slack - first, side="right")
    count = first.size * second.size
    return float(above.sum()) / count, float(below.sum()) / count


def _check(blocks: Sequence[Sequence[float]]) -> None:
    if any(len(block) < 2 or not np.isfinite(block).all() for block in blocks):
        raise BugError("a block of a label permutation is the arm and at least one control, finite log values")


def smallest_p(labels: Sequence[int]) -> float:
    """The smallest p that blocks with so many exchangeable runs each can give: 1/27 for three blocks of A, A′ and arm.

    1 without a block. With one control in every block the mirror image is as extreme: 2/2^n.
    """
    if not labels:
        return 1.0
    least = 1.0 / prod(float(count) for count in labels)
    if all(count == 2 for count in labels):
        least *= 2.0
    return least if len(labels) <= EXACT_LIMIT else max(least, 1.0 / (DRAWS + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Scandinavian Journal of Statistics 6 (1979)), in the order given."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def hochberg(p_values: Sequence[float]) -> list[float]:
    """Hochberg's step-up adjustment (Biometrika 75 (1988)), in the order given.

    Where all p are at most alpha, all adjusted ones are: no test need be clearer because there are others. It keeps the
    family's error rate for independent and for positively dependent tests (Sarkar, Annals of Statistics 26 (1998)).
    """
    order = sorted(range(len(p_values)), key=lambda index: -p_values[index])
    adjusted, smallest = [1.0] * len(p_values), 1.0
    for rank, index in enumerate(order):
        smallest = min(smallest, (rank + 1) * p_values[index])
        adjusted[index] = smallest
    return adjusted


def _differences(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """What d of the block would be if the arm's label were on each of its runs in turn; the observed one first."""
    others = block.size - 1
    return np.asarray(block - (block.sum() - block) / others, dtype=np.float64)


def _totals(choices: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The sums of all assignments of these blocks; a single 0 without any."""
    totals = np.zeros(1)
    for choice in choices:
        totals = (totals[:, None] + choice).ravel()
    return totals


def _drawn_totals(choices: Sequence[NDArray[np.float64]], seed: int) -> NDArray[np.float64]:
    """The sums of DRAWS random assignments."""
    totals = np.full(DRAWS, sum(float(choice[0]) for choice in choices))
    for label, chosen in _drawn_labels(tuple(choice.size for choice in choices), seed).items():
        gain = np.array([choice[label] - choice[0] if label < choice.size else 0.0 for choice in choices])
        totals += gain @ chosen
    return totals


@lru_cache(maxsize=4)
def _drawn_labels(labels: tuple[int, ...], seed: int) -> dict[int, NDArray[np.float32]]:
    """{label: 1 where a random assignment has it in that block, blocks × DRAWS} for all labels but the observed one."""
    drawn = (np.random.default_rng(seed).random((len(labels), DRAWS)) * np.array(labels)[:, None]).astype(np.int8)
    return {label: (drawn == label).astype(np.float32) for label in range(1, max(labels))}
