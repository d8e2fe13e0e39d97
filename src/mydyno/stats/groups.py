"""A contrast whose blocks ran on several host groups: the mean over the groups, its error, and how the groups differ.

Blocks are nested in groups: d_gb = effect of group g + noise of block b. Three questions have three answers.

These hosts. The estimand is the mean of the groups' effects, each group counting alike: which host makes how many
blocks depends on its speed and on what was lost, and that must not change what is estimated. Noise is what is left
inside the groups, so a difference between hosts does not widen the interval, and nothing about other hosts follows. The
variance is the sum over groups of s²_g / n_g, divided by G², each group with its own s², so that a noisy host with few
blocks is not taken for a quiet one; degrees of freedom by Satterthwaite, Biometrics Bulletin 2 (1946). With one group
it is the estimate of stats/contrast.py.

Hosts like these. The groups are a sample of hosts; the t interval of their means with G − 1 degrees of freedom contains
the variance between hosts and that within them. It holds where the means have unequal variances, as they do after
unequal numbers of blocks: for two-sided errors up to 8.3 % the t test is then conservative (Bakirov and Székely,
Zapiski Nauchnykh Seminarov POMI 328 (2005); Ibragimov and Müller, Journal of Business and Economic Statistics 28
(2010)). It assumes that the hosts were not chosen for their results.

Do the hosts differ? Two tests of equal group means, of which the larger p counts: the F test of one-way analysis of
variance, group means against the variance inside the groups, and Welch's (Biometrika 38 (1951)), which weights each
group by its own variance. The first assumes normal noise that is equally large on all hosts and finds false differences
in a quarter of studies where a host with two blocks of eight has three times the noise; the second does so with many
groups of two or three blocks. Together: 2 to 5 %, up to 9 % in the first case (simulated at nominal 5 %, one contrast).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.model.stored.summary import FEWEST_HOSTS
from mydyno.stats.contrast import Estimate, LogBlocks, estimate_sums, log_ratios
from mydyno.stats.paired import Interval, has_no_spread, ratio_of, t_interval, t_quantile
from mydyno.stats.twoway import UNEQUAL_ABOVE, TwoWay, common_noise, larger_than_pooled

LONE_SHARE = 0.25
"""Share of the blocks up to which those that are alone on their host do not count."""

Value = TypeVar("Value")
GroupOf = Mapping[int, str]
"""{block: the host group that executed it}; a block without an entry belongs to the group ""."""


@dataclass(frozen=True, slots=True)
class GroupedNoise:
    """The noise of a step's table: `of_group` fits block + arm inside each group alone (empty: one group).

    `pool` has the residuals and the common sd of these fits; with one group it is the fit of the whole table.
    """

    of_group: Mapping[str, TwoWay]
    pool: TwoWay


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """One group's own effect: the ratio of its `n` blocks with the unadjusted t interval, from two blocks on."""

    group: str
    n: int
    ratio: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Heterogeneity:
    """Whether the groups' effects differ.

    `p` is the larger of the F test's and Welch's; None with fewer than two groups, or where a group has one block or
    nothing varies inside them. `between_sd` is the standard deviation of the groups' true log ratios, by the method of
    moments, at least 0: 0.03 is about 3 %.
    """

    p: float | None
    between_sd: float | None


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The names in ascending order, numbers in them by their size: vm2 before vm10. Each once."""
    return tuple(sorted(set(names), key=lambda name: [(not part.isdigit(), int(part) if part.isdigit() else 0, part)
                                                      for part in re.split(r"(\d+)", name) if part]))  # fmt: skip


def groups_among(blocks: Iterable[int], group_of: GroupOf) -> tuple[str, ...]:
    """The groups of these blocks, in order."""
    return in_order(group_of.get(block, "") for block in blocks)


def by_group(blocks: Iterable[int], group_of: GroupOf) -> dict[str, list[int]]:
    """{group: its blocks in ascending order}, the groups in order."""
    found: dict[str, list[int]] = {name: [] for name in groups_among(blocks, group_of)}
    for block in sorted(blocks):
        found[group_of.get(block, "")].append(block)
    return found


def block_weights(blocks: Iterable[int], group_of: GroupOf) -> dict[int, float]:
    """{block: all blocks / (groups × blocks of its group)}: weights of mean 1 with which every group counts alike."""
    groups = by_group(blocks, group_of)
    n = sum(map(len, groups.values()))
    return {block: n / (len(groups) * len(of)) for of in groups.values() for block in of}


def weighted_mean(values: Mapping[int, float], group_of: GroupOf) -> float:
    """The mean over groups of the means of their blocks, {block: value} with at least one block."""
    return float(np.mean([of.mean() for of in _values(values, group_of).values()]))


def without_group_means(values: Mapping[int, float], group_of: GroupOf) -> list[float]:
    """The values with their group's mean replaced by the mean over the groups: the noise, for the flag of skew.

    As they are where a group has one block.
    """
    apart = group_deviations(values, group_of)
    return [value - apart.get(block, 0.0) for block, value in values.items()]


def group_deviations(values: Mapping[int, float], group_of: GroupOf) -> dict[int, float]:
    """{block: the mean of its group less the mean over the groups}; empty where a group has one block, or of one."""
    groups = _values(values, group_of)
    if len(groups) < 2 or has_single_block(values, group_of):
        return {}
    centre = weighted_mean(values, group_of)
    means = {name: float(of.mean()) for name, of in groups.items()}
    return {block: means[group_of.get(block, "")] - centre for block in values}


def grouped_noise(
    table: NDArray[np.float64],
    arms: Sequence[int],
    groups: Sequence[str],
    fit: Callable[[NDArray[np.float64], Sequence[int]], TwoWay] = common_noise,
) -> GroupedNoise:
    """The noise of a table of log values, a row per block, a column per server; `groups` names each row's group.

    The control is number 0 of `arms`. `fit`: two_way keeps arms that vary much more than the others.
    """
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        return GroupedNoise({}, fit(table, arms))
    labels = np.array(groups)
    of_group = {name: fit(table[labels == name], arms) for name in names}
    residuals = np.full(table.shape, np.nan)
    for name, found in of_group.items():
        residuals[labels == name] = found.residuals
    freedom = sum(found.freedom for found in of_group.values())
    squares = sum(found.freedom * found.sd**2 for found in of_group.values() if found.sd is not None)
    return GroupedNoise(of_group, TwoWay(residuals, sqrt(squares / freedom) if freedom else None, freedom))


def grouped_estimate(
    blocks: LogBlocks, noise: GroupedNoise, group_of: GroupOf, unequal_above: float = UNEQUAL_ABOVE
) -> Estimate:
    """The mean over the groups of their mean log ratios: grouped_sums() of an arm against its control."""
    squares = {block: one.squares for block, one in blocks.items()}
    return grouped_sums(log_ratios(blocks), squares, noise, group_of, unequal_above)


def grouped_sums(
    d: Mapping[int, float],
    squares: Mapping[int, float],
    noise: GroupedNoise,
    group_of: GroupOf,
    unequal_above: float = UNEQUAL_ABOVE,
) -> Estimate:
    """The mean over the groups of the mean of any weighted sum of log values, for these hosts, with the noise inside
    the groups: {block: sum} and {block: sum of the squared weights}.

    As in stats/contrast.py the noise is that of all servers of the step, unless the contrast's own is larger, by the
    same test on the groups' variances, each relative to its pooled one. If a group has one block, the noise inside it
    is unknown: then the groups' means are the units, with G − 1 degrees of freedom, which is right for any noise and
    for hosts like these as well. `block_sd` is error · sqrt(blocks): that of further blocks, spread as these are.
    """
    groups = by_group(d, group_of)
    if len(groups) < 2:
        pool = noise.of_group.get(next(iter(groups), ""), noise.pool)
        return estimate_sums(np.array(list(d.values())), np.array([squares[block] for block in d]), pool, unequal_above)
    n, count = len(d), len(groups)
    values = _values(d, group_of)
    mean = weighted_mean(d, group_of)
    if has_single_block(d, group_of):
        error = _sd(np.array([of.mean() for of in values.values()])) / sqrt(count)
        return Estimate(n, mean, error, count - 1, error * sqrt(n), False)
    own = {name: _sd(of) ** 2 for name, of in values.items()}
    pooled = {name: _pooled(noise.of_group[name], [squares[block] for block in of]) for name, of in groups.items()}
    excess = sum((values[name].size - 1) * _ratio(own[name], pooled[name]) for name in groups)
    freedom = sum(noise.of_group[name].freedom for name in groups)
    known = all(noise.of_group[name].sd is not None for name in groups)
    own_excess = excess / (n - count)
    shared = known and freedom > n - count
    shared = shared and not larger_than_pooled(own_excess, n - count, 1.0, freedom, unequal_above)
    if shared:
        terms = [(pooled[name] / of.size, noise.of_group[name].freedom) for name, of in values.items()]
    else:
        terms = [(max(own[name], pooled[name]) / of.size, of.size - 1) for name, of in values.items()]
    variance, degrees = _combined(terms)
    return Estimate(n, mean, sqrt(variance), degrees, sqrt(variance * n), shared)


def _pooled(fit: TwoWay, squares: Sequence[float]) -> float:
    """The variance of one block's sum in a group, from the noise of all its servers."""
    return (fit.sd or 0.0) ** 2 * sum(squares) / len(squares)


def _ratio(own: float, pooled: float) -> float:
    return own / pooled if pooled > 0.0 else float(own > 0.0) * 1e6


def without_lone_blocks(blocks: Mapping[int, Value], group_of: GroupOf) -> Mapping[int, Value]:
    """The blocks without those that are the only one of their group, where these are at most a quarter of all.

    One block shows nothing of its host's noise, yet in a mean over the groups it would count as much as all blocks of
    another host: a host that was lost after one block would take the precision of the whole study with it. Where more
    blocks are alone, the study was spread so thin by plan, and they all count (see grouped_estimate). The choice rests
    on numbers of blocks only.
    """
    groups = by_group(blocks, group_of)
    lone = {of[0] for of in groups.values() if len(of) == 1}
    if len(groups) < 2 or not 0 < len(lone) <= LONE_SHARE * len(blocks):
        return blocks
    return {block: values for block, values in blocks.items() if block not in lone}


def has_single_block(blocks: Iterable[int], group_of: GroupOf) -> bool:
    """Whether any of these blocks' groups has one of them only."""
    return any(len(of) < 2 for of in by_group(blocks, group_of).values())


def _sd(values: NDArray[np.float64]) -> float:
    return 0.0 if has_no_spread(values) else float(values.std(ddof=1))


def _combined(terms: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """(variance of the mean over the groups, its degrees of freedom by Satterthwaite, rounded down).

    From each group's variance of its mean and the degrees of freedom that this was estimated with.
    """
    total = sum(term for term, _ in terms)
    squares = sum(term**2 / freedom for term, freedom in terms)
    freedom = total**2 / squares if squares > 0.0 else float(sum(freedom for _, freedom in terms))
    return total / len(terms) ** 2, max(1, int(freedom + 1e-9))


def group_effects(d: Mapping[int, float], group_of: GroupOf, level: float = 0.95) -> tuple[GroupEffect, ...]:
    """The effect of each group that has a block, from {block: log ratio}: its own t interval with n − 1 freedom."""
    found = []
    for name, values in _values(d, group_of).items():
        mean, n = float(values.mean()), int(values.size)
        interval = Interval(None, None, level) if n < 2 else t_interval(mean, _sd(values), n, level)
        found.append(GroupEffect(name, n, ratio_of(mean), interval))
    return tuple(found)


def heterogeneity(d: Mapping[int, float], group_of: GroupOf) -> Heterogeneity:
    """The test that all groups have one mean, and the sd between them, from {block: log ratio}."""
    groups = list(_values(d, group_of).values())
    sizes = np.array([of.size for of in groups])
    count, n = len(groups), int(sizes.sum())
    if count < 2 or (sizes < 2).any():
        return Heterogeneity(None, None)
    means, variances = np.array([of.mean() for of in groups]), np.array([_sd(of) ** 2 for of in groups])
    between = float((sizes * np.square(means - np.average(means, weights=sizes))).sum()) / (count - 1)
    within = float(((sizes - 1) * variances).sum()) / (n - count)
    size = (n - float(np.square(sizes).sum()) / n) / (count - 1)
    sd = sqrt(max(0.0, between - within) / size)
    if within == 0.0:
        return Heterogeneity(None, sd)
    p = float(scipy.special.fdtrc(count - 1, n - count, between / within))
    return Heterogeneity(max(p, _welch(sizes, means, variances)) if variances.all() else p, sd)


def _welch(sizes: NDArray[np.int64], means: NDArray[np.float64], variances: NDArray[np.float64]) -> float:
    """The p of Welch's test of equal means, without the assumption of equal variances."""
    count = sizes.size
    weights = sizes / variances
    shares = weights / weights.sum()
    between = float((weights * np.square(means - float((shares * means).sum()))).sum()) / (count - 1)
    uneven = float((np.square(1.0 - shares) / (sizes - 1)).sum())
    factor = 1.0 + 2.0 * (count - 2) * uneven / (count**2 - 1)
    return float(scipy.special.fdtrc(count - 1, (count**2 - 1) / (3.0 * uneven), between / factor))


def hosts_interval(d: Mapping[int, float], group_of: GroupOf, critical_p: float, level: float) -> Interval:
    """The ratio's interval for hosts like these, whose t with G − 1 degrees of freedom has this two-sided p outside.

    `level` is what it is called. Without ends for fewer than FEWEST_HOSTS groups.
    """
    means = np.array([of.mean() for of in _values(d, group_of).values()])
    if means.size < FEWEST_HOSTS:
        return Interval(None, None, level)
    half = t_quantile(1.0 - critical_p / 2.0, means.size - 1) * _sd(means) / sqrt(means.size)
    centre = float(means.mean())
    return Interval(ratio_of(centre - half), ratio_of(centre + half), level)


def _values(d: Mapping[int, float], group_of: GroupOf) -> dict[str, NDArray[np.float64]]:
    return {name: np.array([d[block] for block in of]) for name, of in by_group(d, group_of).items()}
