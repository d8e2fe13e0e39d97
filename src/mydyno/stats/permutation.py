"""The permutation of labels inside blocks, of all contrasts of a study together; Holm's and Hochberg's adjustments.

Inside a block the order is random, so if the arm did nothing, its label could have been on any of the block's runs: on
the arm's own, on the control's first copy A or on its second copy A′. Each assignment of labels gives each contrast
another sum of d_b; in how many of them it is at least as far from 0 as the observed one is a p without any assumption
on the noise but that the three are exchangeable (Fisher 1935; Pesarin and Salmaso 2010). An arm with two copies as well
leaves six assignments. A control without a second copy leaves two, ±d; where the block has another arm's A and A′, also
±(A′ − A), as a difference of two servers that are alike (exact if these four vary alike).

The contrasts of a study are permuted together: in a block every contrast has the same label. A sum is divided by the
root of the sum of the mean squares of its blocks' possible d, which no assignment changes, so that contrasts of any
noise compare, and each contrast's own test stays exact. To each mean square the square of a `floor` is added (as s0 in
Tusher, Tibshirani and Chu, PNAS 98 (2001)): the statistic is bounded, and a contrast whose values are nearly all equal
would reach the bound by a difference of any size, as often as there are such contrasts. The adjusted p is the share of
assignments in which the largest statistic of the contrasts still in play is at least this one's, from the largest down
(Westfall and Young, Resampling-Based Multiple Testing (1993), algorithm 4.1). Unlike Holm's, it can be as small as a
single contrast's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.contrast import LogBlock

MOST_ENUMERATED = 60_000
"""Assignments up to which all are counted: those of three labels in ten blocks."""
DRAWS = 20_000
"""Random assignments where there are more; p = (k + 1) / (DRAWS + 1) is then never 0 (Phipson and Smyth 2010)."""
AT_ONCE = 4_000
"""Assignments that are in memory at the same time."""
TIE = 1e-9
"""Relative slack within which two sums are tied: assignments that are equal in arithmetic must be equal here."""
SHIFT = {
    2: (1.0, -1.0), 3: (1.0, -0.5, -0.5), 4: (1.0, -1.0, 0.0, 0.0), 6: (1.0, 0.0, 0.0, 0.0, 0.0, -1.0)
}  # fmt: skip
"""{number of labels: what an effect of 1 adds to each possible d}."""

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One contrast: {block: every d that it could have had, the observed one first}, and the weights of the blocks.

    `apart` is by how much the effect on a block's host is known to differ from the mean over the hosts. `floor` is the
    size of d, a log ratio, far below which differences count for less than their share of the noise. `size` multiplies
    the statistic where it is compared with those of other contrasts.
    """

    differences: Mapping[int, tuple[float, ...]]
    weights: Mapping[int, float]
    apart: Mapping[int, float] = field(default_factory=dict)
    floor: float = 0.0
    size: float = 1.0

    def moved(self, effect: float) -> Exchange:
        """The same if the arm's log values were smaller by `effect`."""
        return self._less(dict.fromkeys(self.differences, effect))

    def alike(self) -> Exchange:
        """The same if all hosts had the mean effect."""
        return self._less(self.apart) if self.apart else self

    def _less(self, effects: Mapping[int, float]) -> Exchange:
        moved = {
            block: tuple(d - effects[block] * shift for d, shift in zip(of, SHIFT[len(of)], strict=True))
            for block, of in self.differences.items()
        }
        return replace(self, differences=moved, apart={})

    def mirrored(self) -> Exchange:
        """The same with arm and control in each other's place."""
        differences = {block: tuple(-d for d in of) for block, of in self.differences.items()}
        return replace(self, differences=differences, apart={})


@dataclass(frozen=True, slots=True)
class JointTest:
    """The p of each contrast, alone and adjusted for all; in the order given.

    `largest`, ascending, is the largest statistic in each assignment when every contrast has exactly the effect that
    was observed; the observed assignment counts as infinite.
    """

    contrasts: Sequence[Exchange]
    alone: tuple[float, ...]
    adjusted: tuple[float, ...]
    largest: Table

    def interval(self, index: int, alpha: float) -> tuple[float, float] | None:
        """The effects (log ratios) of a contrast that the test of all contrasts in one step does not reject.

        None where no effect can be rejected: the blocks are too few for alpha.
        """
        critical = float(self.largest[int(np.ceil(self.largest.size * (1.0 - alpha) - TIE)) - 1])
        if critical == inf:
            return None
        critical /= self.contrasts[index].size
        one = self.contrasts[index].alike()
        w, d, squares = _summed(one)
        shifts = np.array([float(np.mean(np.square(SHIFT[len(of)]))) for of in one.differences.values()])
        # With an effect θ the statistic is (Σ w (d − θ))² / Σ w² (mean square − 2 θ d s + θ² s), s = mean square shift.
        c2 = critical**2
        a = w.sum() ** 2 - c2 * float((w**2 * shifts).sum())
        b = w.sum() * float(w @ d) - c2 * float((w**2 * shifts * d).sum())
        c = float(w @ d) ** 2 - c2 * float((w**2 * squares).sum())
        if a <= 0.0:
            return None
        half = sqrt(max(0.0, b * b - a * c)) / a
        return b / a - half, b / a + half


def possible(block: LogBlock, copies_differ: float | None = None) -> tuple[float, ...]:
    """Every d of a block, the observed one first.

    `copies_differ` is ln(A′ / A) of another arm, for one server of arm and control each. Raises BugError for a block
    without one of the two, with more than two servers of one, or a value that is not finite.
    """
    values = (*block.arm, *block.control)
    labelled = len(block.arm)
    if labelled not in (1, 2) or len(block.control) not in (1, 2) or not np.isfinite(values).all():
        raise BugError("a block of a label permutation has one or two servers of arm and control, finite log values")
    if len(values) == 2 and copies_differ is not None:
        return block.difference, -block.difference, copies_differ, -copies_differ
    total, others = sum(values), len(block.control)
    chosen = (sum(of) for of in combinations(values, labelled))
    return tuple(own / labelled - (total - own) / others for own in chosen)


def joint_test(contrasts: Sequence[Exchange], seed: int = 1, one_sided: bool = False) -> JointTest:
    """The two-sided test of no effect in any contrast; `one_sided`: of no effect above 0.

    Every contrast has a block. Exact up to MOST_ENUMERATED assignments, above that from seeded random ones.
    """
    count = len(contrasts)
    if not count:
        return JointTest((), (), (), np.array([inf]))
    digits = sorted({(block, len(of)) for one in contrasts for block, of in one.differences.items()})
    starts = dict(zip(digits, np.cumsum([0, *(labels for _, labels in digits)]).tolist(), strict=False))
    statistic = np.asarray if one_sided else np.abs
    sums, centred, scale = _scaled(contrasts, starts, sum(labels for _, labels in digits))
    observed = statistic(sums[[starts[digit] for digit in digits]].sum(axis=0))
    order = np.argsort(observed, kind="stable")
    reached = observed * (1.0 - TIE * np.sign(observed))
    alone, together = np.zeros(count), np.zeros(count)
    largest, made = [], 0
    for as_observed, moved in _totals([sums, centred], digits, starts, seed):
        totals = statistic(as_observed)
        alone += (totals >= reached).sum(axis=0)
        ordered = np.maximum.accumulate(totals[:, order], axis=1)
        together += (ordered >= reached[order]).sum(axis=0)
        largest.append(statistic(moved).max(axis=1))
        made += len(totals)
    drawn = prod(labels for _, labels in digits) > MOST_ENUMERATED
    maxima = np.concatenate(largest)
    # The observed assignment is the first of all, or is added to those that were drawn.
    maxima = np.append(maxima if drawn else maxima[1:], inf)
    adjusted = np.empty(count)
    adjusted[order] = np.maximum.accumulate(((together + drawn) / (made + drawn))[::-1])[::-1]
    p = (alone + drawn) / (made + drawn)
    p[scale == 0.0] = adjusted[scale == 0.0] = 1.0
    return JointTest(contrasts, tuple(p.tolist()), tuple(adjusted.tolist()), np.sort(maxima))


def _summed(one: Exchange) -> tuple[Table, Table, Table]:
    """Arrays by block: weight, observed d, and the mean square of all possible d plus the square of the floor."""
    blocks = one.differences
    return (
        np.array([one.weights[block] for block in blocks]),
        np.array([of[0] for of in blocks.values()]),
        np.array([sum(d * d for d in of) / len(of) + one.floor**2 for of in blocks.values()]),
    )


def _scale(w: Table, squares: Table) -> float:
    """The root of the sum of the blocks' mean squares: the sd of the sum over all assignments."""
    return sqrt(float((w**2 * squares).sum()))


def _scaled(contrasts: Sequence[Exchange], starts: Mapping[tuple[int, int], int], rows: int) -> tuple[Table, ...]:
    """What each label of each block adds to each contrast's statistic, as it is and without the observed effect.

    A row per label, a column per contrast; and the scales by which they are divided.
    """
    sums, centred, scale = np.zeros((rows, len(contrasts))), np.zeros((rows, len(contrasts))), np.zeros(len(contrasts))
    for column, one in enumerate(contrasts):
        w, d, squares = _summed(one)
        left = one.alike().moved(float(w @ d) / float(w.sum()))
        scale[column], rest = _scale(w, squares), _scale(w, _summed(left)[2])
        for block, of in one.differences.items():
            here = slice(starts[block, len(of)], starts[block, len(of)] + len(of))
            sums[here, column] = one.weights[block] * np.array(of)
            centred[here, column] = one.weights[block] * np.array(left.differences[block])
        sums[:, column] *= one.size / (scale[column] or 1.0)
        centred[:, column] *= one.size / rest if rest > TIE * scale[column] else 0.0
    return sums, centred, scale


def _totals(
    tables: Sequence[Table], digits: Sequence[tuple[int, int]], starts: Mapping[tuple[int, int], int], seed: int
) -> Iterator[list[Table]]:
    """The statistics in the assignments, some at a time: an array for each table, a row per assignment.

    The observed assignment first, where all are counted. An assignment chooses a row of the table from each digit's.
    """
    labels = [count for _, count in digits]
    first = [starts[digit] for digit in digits]
    if prod(labels) > MOST_ENUMERATED:
        random = np.random.default_rng(seed)
        for begin in range(0, DRAWS, AT_ONCE):
            rows = np.zeros((min(AT_ONCE, DRAWS - begin), sum(labels)))
            rows[np.arange(len(rows))[:, None], first + random.integers(0, labels, (len(rows), len(labels)))] = 1.0
            yield [rows @ table for table in tables]
        return
    split = next(place for place in range(len(labels) + 1) if prod(labels[place:]) <= AT_ONCE)
    heads = [_every_sum(table, first[:split], labels[:split]) for table in tables]
    tails = [_every_sum(table, first[split:], labels[split:]) for table in tables]
    for row in range(len(heads[0])):
        yield [head[row] + tail for head, tail in zip(heads, tails, strict=True)]


def _every_sum(table: Table, first: Sequence[int], labels: Sequence[int]) -> Table:
    """The sums of a row of each digit, for every choice of them; the last digit changes fastest."""
    sums = np.zeros((1, table.shape[1]))
    for begin, count in zip(first, labels, strict=True):
        sums = (sums[:, None] + table[begin : begin + count]).reshape(-1, table.shape[1])
    return sums


def smallest_p(labels: Sequence[int]) -> float:
    """The smallest p that blocks with so many labels each can give: 1/27 for three blocks of A, A′ and arm.

    1 without a block. Without a block of three labels the mirror image is as extreme: 2/2^n with one control in each,
    2/6^n with two servers of arm and control each.
    """
    if not labels:
        return 1.0
    every = prod(float(count) for count in labels)
    least = 1.0 / every if 3 in labels else 2.0 / every
    return least if every <= MOST_ENUMERATED else max(least, 1.0 / (DRAWS + 1))


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
