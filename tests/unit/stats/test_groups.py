"""Blocks on several host groups: equal weights, noise inside the groups, their differences, hosts like these."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy import stats

from mydyno.stats.contrast import Estimate, LogBlock, LogBlocks, estimate
from mydyno.stats.groups import (
    _welch,
    block_weights,
    group_effects,
    grouped_estimate,
    grouped_noise,
    heterogeneity,
    hosts_interval,
    in_order,
    weighted_mean,
    without_group_means,
    without_lone_blocks,
)
from mydyno.stats.twoway import two_way
from tests.support.host_groups import spread

ARMS = [0, 0, 1, 2]


def table(sizes: tuple[int, ...], effects: tuple[float, ...], sd: float = 0.01, seed: int = 3) -> np.ndarray:
    """Log values of A, A′, x and y: x has its group's effect, each block its own level."""
    random = np.random.default_rng(seed)
    logs = random.normal(0.0, sd, (sum(sizes), 4)) + random.normal(0.0, 0.3, (sum(sizes), 1))
    logs[:, 2] += np.repeat(effects, sizes)
    return np.asarray(logs)


def rows(logs: np.ndarray, arm: int = 2) -> LogBlocks:
    return {block: LogBlock((row[arm],), (row[0], row[1])) for block, row in enumerate(logs.tolist(), 1)}


def of_groups(logs: np.ndarray, sizes: tuple[int, ...], arm: int = 2) -> Estimate:
    group_of = spread(sizes)
    return grouped_estimate(rows(logs, arm), grouped_noise(logs, ARMS, list(group_of.values())), group_of)


def test_one_group_is_estimated_as_without_groups() -> None:
    logs = table((6,), (0.05,))
    plain = estimate(rows(logs), two_way(logs, ARMS))
    assert grouped_estimate(rows(logs), grouped_noise(logs, ARMS, [""] * 6), {}) == plain
    assert grouped_estimate(rows(logs), grouped_noise(logs, ARMS, ["vm1"] * 6), spread((6,))) == plain


def test_every_group_counts_alike_whatever_its_number_of_blocks() -> None:
    found = of_groups(table((8, 2), (-0.08, 0.02), sd=1e-6), (8, 2))
    assert found.mean == pytest.approx(-0.03, abs=1e-5)
    weights = block_weights(range(1, 11), spread((8, 2)))
    assert sum(weights.values()) == pytest.approx(10.0)
    assert weights[1] * 8 == pytest.approx(weights[9] * 2)


def test_a_difference_between_the_hosts_does_not_widen_the_interval_for_these_hosts() -> None:
    same, apart = (of_groups(table((5, 5), effects), (5, 5)) for effects in ((0.0, 0.0), (-0.08, 0.08)))
    assert apart.error == pytest.approx(same.error)
    assert (apart.freedom, apart.pooled) == (same.freedom, True)


def test_equal_groups_of_equal_noise_have_about_the_error_of_one_group() -> None:
    """The variance of a mean of 10 blocks, with one degree of freedom per group, arm and block fewer at most."""
    logs = table((5, 5), (0.0, 0.0))
    fits = [two_way(part, ARMS) for part in (logs[:5], logs[5:])]
    found = of_groups(logs, (5, 5))
    variance = sum((fit.sd or 0.0) ** 2 * 1.5 / 5 for fit in fits) / 4
    assert found.error == pytest.approx(sqrt(variance))
    assert 13 <= found.freedom <= 26


def test_a_noisy_host_with_few_blocks_has_its_own_noise() -> None:
    quiet, noisy = table((8, 2), (0.0, 0.0)), table((8, 2), (0.0, 0.0))
    noisy[8:] = noisy[8:].mean() + 5.0 * (noisy[8:] - noisy[8:].mean(axis=1, keepdims=True))
    assert (of_groups(noisy, (8, 2)).error or 0.0) > 3.0 * (of_groups(quiet, (8, 2)).error or 1.0)


def test_an_arm_with_more_noise_than_the_others_has_its_own() -> None:
    logs = table((5, 5), (0.0, 0.0))
    logs[:, 2] += 10.0 * np.random.default_rng(8).normal(0.0, 0.01, 10)
    found, other = of_groups(logs, (5, 5)), of_groups(logs, (5, 5), arm=3)
    assert not found.pooled and (found.error or 0.0) > (other.error or 1.0)
    assert found.freedom <= 8


def test_groups_of_one_block_make_the_groups_the_units() -> None:
    logs = table((1, 1, 1, 1), (0.0, 0.01, 0.02, 0.03))
    d = [one.difference for one in rows(logs).values()]
    found = of_groups(logs, (1, 1, 1, 1))
    assert found.error == pytest.approx(np.std(d, ddof=1) / 2)
    assert found.freedom == 3


def test_a_block_alone_on_its_host_does_not_count_among_many() -> None:
    blocks = rows(table((5, 4, 1), (0.0, 0.0, 0.0)))
    assert list(without_lone_blocks(blocks, spread((5, 4, 1)))) == list(range(1, 10))
    assert without_lone_blocks(blocks, {}) == blocks
    thin = rows(table((2, 1, 1), (0.0, 0.0, 0.0)))
    assert without_lone_blocks(thin, spread((2, 1, 1))) == thin, "half of the blocks are alone: by plan"


def test_the_noise_without_the_group_means_keeps_the_mean_over_the_groups() -> None:
    group_of = spread((3, 2))
    d = {1: 0.1, 2: 0.2, 3: 0.3, 4: 1.0, 5: 1.2}
    found = without_group_means(d, group_of)
    assert np.mean(found) == pytest.approx(weighted_mean(d, group_of)) == pytest.approx(0.65)
    assert max(found) - min(found) == pytest.approx(0.2)
    assert without_group_means(d, {}) == list(d.values())


def test_each_groups_own_interval_is_students() -> None:
    d = {1: 0.1, 2: 0.12, 3: 0.11, 4: 0.3}
    first, second = group_effects(d, spread((3, 1)))
    half = stats.t.ppf(0.975, 2) * 0.01 / sqrt(3)
    assert (first.group, first.n, first.ratio) == ("vm1", 3, pytest.approx(exp(0.11)))
    assert first.interval.low == pytest.approx(exp(0.11 - half))
    assert (second.n, second.ratio, second.interval.low) == (1, pytest.approx(exp(0.3)), None)


def test_the_p_of_heterogeneity_is_the_larger_of_the_f_tests_and_welchs() -> None:
    """For equal and for unequal variances; with two groups Welch's is the t test of Welch."""
    random = np.random.default_rng(4)
    for sds in ((0.01, 0.01), (0.002, 0.03)):
        values = [random.normal(mean, sd, size) for mean, sd, size in zip((0.0, 0.03), sds, (4, 3), strict=True)]
        d = dict(enumerate(np.concatenate(values).tolist(), 1))
        found = heterogeneity(d, spread((4, 3)))
        welch = stats.ttest_ind(*values, equal_var=False).pvalue
        assert found.p == pytest.approx(max(stats.f_oneway(*values).pvalue, welch))


def test_welchs_own_example() -> None:
    """Biometrika 38 (1951): 20, 10 and 10 values give 3.35 with 2 and 22.6 degrees of freedom."""
    p = _welch(np.array([20, 10, 10]), np.array([27.8, 24.1, 22.2]), np.array([60.1, 6.3, 15.4]))
    assert p == pytest.approx(stats.f.sf(3.35, 2, 22.6), rel=1e-3)


def test_groups_of_unequal_noise_are_rarely_called_different() -> None:
    """Without any difference, where the F test alone errs in about 14 % (five groups, twice the noise in the small)."""
    random, sizes, sds = np.random.default_rng(6), (6, 5, 3, 2, 2), (0.01, 0.01, 0.02, 0.01, 0.02)
    wrong = 0
    for _ in range(1000):
        values = np.concatenate([random.normal(0.0, sd, size) for sd, size in zip(sds, sizes, strict=True)])
        p = heterogeneity(dict(enumerate(values.tolist(), 1)), spread(sizes)).p
        wrong += p is not None and p <= 0.05
    assert wrong / 1000 <= 0.06


def test_heterogeneity_needs_two_blocks_on_every_host_and_a_spread() -> None:
    assert heterogeneity({1: 0.1, 2: 0.2, 3: 0.2}, spread((2, 1))).p is None
    assert heterogeneity({1: 0.1, 2: 0.2}, {}).p is None
    exact = heterogeneity({1: 0.1, 2: 0.1, 3: 0.2, 4: 0.2}, spread((2, 2)))
    assert exact.p is None and exact.between_sd == pytest.approx(0.1 / sqrt(2))


def test_the_interval_for_hosts_like_these_is_students_over_group_means() -> None:
    d = {1: log(1.02), 2: log(1.04), 3: log(1.03), 4: log(1.06), 5: log(1.06)}
    means = [(d[1] + d[2]) / 2, d[3], (d[4] + d[5]) / 2]
    expected = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    found = hosts_interval(d, spread((2, 1, 2)), 0.05, 0.95)
    assert (log(found.low or 1.0), log(found.high or 1.0)) == pytest.approx(expected)
    assert hosts_interval(d, spread((3, 2)), 0.05, 0.95).low is None, "two hosts say nothing about others"


def test_names_with_numbers_are_in_the_order_of_the_numbers() -> None:
    assert in_order(["vm10", "vm2", "db", "vm2"]) == ("db", "vm2", "vm10")
