"""Differences of sampled amounts between arms: many items at once, each with an interval that holds for all of them.

An item is a function or a place in a flame graph; its amount is samples × the CPU time of one operation that a sample
stands for. One number for each item, block and server, as everywhere in mydyno. Samples are counts, so their noise
grows with their number: everything is computed on the scale of square roots, where it does not (Anscombe, Biometrika 35
(1948)), and differences are turned back into amounts at the control's mean. There the noise of a server is pooled over
the servers of the step, without arms that vary much more, as in stats/contrast.py, and is at least that of counting.

Intervals hold simultaneously over all items and contrasts that are passed in, by the largest |t|
(stats/simultaneous.py): nested frames and frames with common samples are correlated, so this costs less than
Bonferroni's correction. The correlation between items is that of their residuals, shrunk towards 0 as few blocks
estimate it badly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mydyno.model.stored.reasons import CopiesDiffer, CopiesKind
from mydyno.stats.contrast import LogBlock, estimate
from mydyno.stats.paired import t_quantile
from mydyno.stats.simultaneous import largest_t
from mydyno.stats.twoway import common_noise

ANSCOMBE = 0.375
COUNTING_VARIANCE = 0.25
"""Variance of the square root of a Poisson count."""
FEWEST_FREEDOM = 3
COPY = "A′"
"""Name of the control's second copy as an arm."""


@dataclass(frozen=True, slots=True)
class Server:
    """A column of the table: an arm, and 2 for its second copy."""

    arm: str
    copy: int = 1


@dataclass(frozen=True, slots=True)
class Sampled:
    """The profiles of one step: `counts[item, block, server]`, and `units[block, server]`, the amount that one sample
    stands for. NaN in `units`: that run has no profile. `items`: what the rows are.
    """

    servers: tuple[Server, ...]
    counts: NDArray[np.float64]
    units: NDArray[np.float64]
    items: tuple[Any, ...] = ()

    @classmethod
    def of(cls, runs: Sequence[tuple[int, Server, float, Mapping[Any, float]]]) -> Sampled:
        """From (block, server, unit, {item: count}) of each run."""
        servers = tuple(dict.fromkeys(sorted((one[1] for one in runs), key=lambda s: (s.arm, s.copy))))
        blocks = sorted({one[0] for one in runs})
        rows = {item: row for row, item in enumerate(dict.fromkeys(item for *_, of_run in runs for item in of_run))}
        counts = np.zeros((len(rows), len(blocks), len(servers)))
        units = np.full(counts.shape[1:], np.nan)
        for block, server, unit, of_run in runs:
            at = blocks.index(block), servers.index(server)
            units[at] = unit
            for item, count in of_run.items():
                counts[rows[item], *at] = count
        return cls(servers, counts, units, tuple(rows))

    def with_copy(self, control: str) -> Sampled:
        """With the control's second copy as the arm COPY."""
        return replace(self, servers=tuple(Server(COPY) if s == Server(control, 2) else s for s in self.servers))

    def columns(self, arm: str) -> list[int]:
        """The columns of an arm, one for each of its copies."""
        return [column for column, one in enumerate(self.servers) if one.arm == arm]

    def mean(self, by_server: NDArray[np.float64], arm: str) -> NDArray[np.float64]:
        """The mean over an arm's copies of an array whose last axis is the servers; NaN where none has a value."""
        own = by_server[..., self.columns(arm)]
        known = ~np.isnan(own)
        total = np.where(known, own, 0.0).sum(axis=-1)
        return np.asarray(np.where(known.any(axis=-1), total / np.maximum(known.sum(axis=-1), 1), np.nan))

    def of_both(self, by_server: NDArray[np.float64], arm: str, control: str) -> NDArray[np.float64]:
        """The mean of both sides, which does not depend on what differs between them."""
        return np.asarray((self.mean(by_server, arm) + self.mean(by_server, control)) / 2.0)

    def contrast(
        self, arm: str, control: str, both: NDArray[np.float64], enough: NDArray[np.bool_], most: int
    ) -> SampledContrast:
        """The contrast over the items that are `enough`, at most so many: the largest of `both`."""
        largest = sorted(np.flatnonzero(enough).tolist(), key=lambda item: -both[item])[:most]
        return SampledContrast(self, arm, control, tuple(sorted(largest)))

    @property
    def amounts(self) -> NDArray[np.float64]:
        """The mean amount of each item and server over the blocks, NaN for a server without any profile."""
        present = ~np.isnan(self.units)
        total = np.where(present, self.counts * np.nan_to_num(self.units), 0.0).sum(axis=1)
        return np.asarray(np.where(present.any(axis=0), total / np.maximum(present.sum(axis=0), 1), np.nan))


@dataclass(frozen=True, slots=True)
class SampledContrast:
    """Which items of a step's table are compared between which servers."""

    table: Sampled
    arm: str
    control: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The amount of an item: of the control (mean of its copies), of the arm, and the interval of the difference.

    `low` and `high` are None where too few blocks exist.
    """

    control: float
    arm: float
    low: float | None
    high: float | None

    @property
    def difference(self) -> float:
        """The arm's amount less the control's."""
        return self.arm - self.control

    @property
    def excludes_no_change(self) -> bool:
        """Whether the interval exists and lies wholly on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)


@dataclass(frozen=True, slots=True)
class _Member:
    mean: float
    error: float
    freedom: int
    residuals: NDArray[np.float64]
    weights: dict[tuple[str, int], float]
    table: int


def differences(contrasts: Sequence[SampledContrast], alpha: float, seed: int = 1) -> list[list[Difference]]:
    """For each contrast the difference of each of its items, in order, with simultaneous intervals at alpha."""
    numbers = {id(table): place for place, table in enumerate({id(c.table): c.table for c in contrasts}.values())}
    members = [[_member(c, item, numbers[id(c.table)]) for item in c.items] for c in contrasts]
    having = [one for of in members for one in of if one is not None]
    critical = alpha
    if having:
        freedom = [one.freedom for one in having]
        critical = largest_t(_correlation(having), freedom, list(range(len(having))), alpha, seed).critical_p(alpha)
    return [
        [_difference(contrast, item, member, critical) for item, member in zip(contrast.items, of, strict=True)]
        for contrast, of in zip(contrasts, members, strict=True)
    ]


Copies = tuple[str, CopiesKind, Callable[[Any], str], SampledContrast]
"""(step, what an item is, its name, the contrast of COPY and control)."""


def copies_alarm(contrasts: Sequence[Copies], alpha: float) -> CopiesDiffer | None:
    """The first item that differs between the control's two copies."""
    found = differences([contrast for *_, contrast in contrasts], alpha)
    for (step, kind, name, contrast), of in zip(contrasts, found, strict=True):
        for item, one in zip(contrast.items, of, strict=True):
            if one.excludes_no_change:
                return CopiesDiffer(control=contrast.control, step=step, kind=kind, of=name(contrast.table.items[item]))
    return None


def _member(contrast: SampledContrast, item: int, table: int) -> _Member | None:
    """The estimate on the scale of square roots; None with too few blocks for an interval."""
    of = contrast.table
    sides = of.columns(contrast.arm), of.columns(contrast.control)
    roots = np.sqrt((of.counts[item] + ANSCOMBE) * of.units)
    names = list(dict.fromkeys([contrast.control, *(one.arm for one in of.servers)]))
    pool = common_noise(roots, [names.index(one.arm) for one in of.servers])
    blocks = {}
    for block in range(roots.shape[0]):
        known = [[float(roots[block, at]) for at in side if not np.isnan(roots[block, at])] for side in sides]
        arm, control = map(tuple, known)
        if arm and control:
            blocks[block] = LogBlock(arm, control)
    found = estimate(blocks, pool)
    if found.mean is None or found.error is None or found.freedom < FEWEST_FREEDOM:
        return None
    used = of.units[list(blocks)]
    weights: dict[tuple[str, int], float] = {}
    counting = 0.0
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        having = [at for at in side if not np.isnan(used[:, at]).all()]
        weights |= {(of.servers[at].arm, of.servers[at].copy): sign / len(having) for at in having}
        units = sum(float(np.nanmean(used[:, at])) for at in having)
        counting += COUNTING_VARIANCE * units / len(having) ** 2 / found.n
    error = max(found.error, sqrt(counting))
    return _Member(found.mean, error, found.freedom, pool.residuals, weights, table)


def _correlation(members: Sequence[_Member]) -> NDArray[np.float64]:
    """Correlation between estimates: that due to servers in common, times the shrunken one of a step's residuals."""
    servers = list(dict.fromkeys(server for one in members for server in one.weights))
    weights = np.array([[one.weights.get(server, 0.0) for server in servers] for one in members])
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    correlation = weights @ weights.T
    tables = np.array([one.table for one in members])
    for table in set(tables.tolist()):
        of = np.flatnonzero(tables == table).tolist()
        residuals = np.nan_to_num(np.array([members[i].residuals.ravel() for i in of]))
        length = np.sqrt(np.square(residuals).sum(axis=1, keepdims=True))
        directions = residuals / np.where(length > 0.0, length, 1.0)
        found = directions @ directions.T
        freedom = max(1, members[of[0]].freedom)
        shrunk = np.sign(found) * np.sqrt(np.maximum(0.0, np.square(found) - (1.0 - np.square(found)) / freedom))
        np.fill_diagonal(shrunk, 1.0)
        correlation[np.ix_(of, of)] *= shrunk
    correlation[tables[:, None] != tables[None, :]] = 0.0
    return np.asarray(correlation)


def _difference(contrast: SampledContrast, item: int, member: _Member | None, critical_p: float) -> Difference:
    """Back from square roots: the arm's amount moved by the half-width, less the control's amount."""
    amounts = contrast.table.amounts[item]
    control_amount, arm_amount = (float(contrast.table.mean(amounts, of)) for of in (contrast.control, contrast.arm))
    if member is None:
        return Difference(control_amount, arm_amount, None, None)
    mean, half = member.mean, t_quantile(1.0 - critical_p / 2.0, member.freedom) * member.error
    low = max(0.0, sqrt(arm_amount) - half) ** 2 - control_amount
    high = (sqrt(arm_amount) + half) ** 2 - control_amount
    if abs(mean) <= half:
        low, high = min(low, 0.0), max(high, 0.0)
    return Difference(control_amount, arm_amount, low, high)
