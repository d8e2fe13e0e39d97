"""Differences of sampled amounts: planted ones are found with their size, none is claimed where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from mydyno.stats.sampled import Difference, Sampled, SampledContrast, Server, differences

ITEMS = 40
SERVERS = (Server("a"), Server("a", 2), Server("b"))


def study(seed: int, blocks: int = 6, samples: int = 400, planted: float = 0.0) -> list[Difference]:
    """Differences of b from a in items with Dirichlet shares; b has `planted` more of the first, as a fraction."""
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(ITEMS, 1.0))
    shares[0] = 0.1
    counts, units = np.zeros((ITEMS, blocks, 3)), np.zeros((blocks, 3))
    for block in range(blocks):
        for column, server in enumerate(SERVERS):
            amounts = shares * np.exp(random.normal(0, 0.05, ITEMS))
            amounts[0] *= 1.0 + planted * (server.arm == "b")
            total = random.poisson(samples * np.exp(random.normal(0, 0.2)))
            counts[:, block, column] = random.multinomial(total, amounts / amounts.sum())
            units[block, column] = 1000.0 * amounts.sum() / shares.sum() / total * np.exp(random.normal(0, 0.03))
    table = Sampled(SERVERS, counts, units)
    items = np.flatnonzero(table.amounts.mean(axis=1) > 5.0)
    (found,) = differences([SampledContrast(table, "b", "a", tuple(items.tolist()))], 0.05)
    return found


@pytest.mark.slow
def test_without_a_difference_one_is_claimed_in_at_most_one_study_of_twenty() -> None:
    claimed = [any(one.excludes_no_change for one in study(seed)) for seed in range(40)]
    assert sum(claimed) <= 4


@pytest.mark.slow
def test_a_planted_difference_is_found_and_its_interval_holds_it() -> None:
    found = [study(seed, planted=1.5)[0] for seed in range(20)]
    assert all(one.excludes_no_change for one in found)
    true = np.mean([one.difference for one in found])
    covered = [one.low is not None and one.high is not None and one.low <= true <= one.high for one in found]
    assert sum(covered) >= 18
    assert all(one.low is not None and one.high is not None and one.low <= one.difference <= one.high for one in found)


def test_an_arm_that_stalls_now_and_then_does_not_hide_the_differences_of_the_others() -> None:
    """Column 0 is an erratic arm, to which neither the order of the servers nor the pool may give a say."""
    servers = (Server("stalls"), Server("a"), Server("a", 2), Server("b"))
    random = np.random.default_rng(5)
    claimed = []
    for _ in range(20):
        counts = random.poisson(400.0, (1, 10, 4)).astype(float)
        counts[0, :, 3] = random.poisson(480.0, 10)
        counts[0, ::4, 0] *= 6.0
        table = Sampled(servers, counts, np.ones((10, 4)))
        (found,) = differences([SampledContrast(table, "b", "a", (0,))], 0.05)
        claimed.append(found[0].excludes_no_change)
    assert sum(claimed) >= 18


def test_an_item_of_the_arm_alone_has_a_difference_and_not_a_ratio() -> None:
    counts = np.zeros((2, 6, 3))
    counts[0] = 300
    counts[1, :, 2] = (60, 64, 55, 70, 61, 58)
    table = Sampled(SERVERS, counts, np.ones((6, 3)))
    ((same, new),) = differences([SampledContrast(table, "b", "a", (0, 1))], 0.05)
    assert not same.excludes_no_change
    assert new.control == 0.0
    assert new.difference == pytest.approx(61.33, abs=0.01)
    assert new.low is not None
    assert new.low > 30.0


def test_a_difference_that_is_no_larger_than_that_of_counting_is_not_claimed() -> None:
    """By chance all blocks have the same few samples: without the noise of counting the interval would be a point."""
    counts = np.full((1, 6, 3), 4.0)
    counts[0, :, 2] = 5.0
    (found,) = differences([SampledContrast(Sampled(SERVERS, counts, np.ones((6, 3))), "b", "a", (0,))], 0.05)
    assert not found[0].excludes_no_change


def test_one_block_has_no_interval_and_a_run_without_a_profile_is_left_out() -> None:
    one = Sampled(SERVERS, np.full((1, 1, 3), 50.0), np.ones((1, 3)))
    assert differences([SampledContrast(one, "b", "a", (0,))], 0.05)[0][0].low is None
    units = np.ones((6, 3))
    units[2, 1] = np.nan
    counts = np.full((1, 6, 3), 50.0)
    counts[0, 2, 1] = 0.0
    (found,) = differences([SampledContrast(Sampled(SERVERS, counts, units), "b", "a", (0,))], 0.05)
    assert (found[0].control, found[0].arm) == (50.0, 50.0)
    assert found[0].low is not None


@pytest.mark.parametrize("lost", [(1,), (0,)])
def test_a_copy_of_the_control_that_failed_in_every_block_is_left_out(lost: tuple[int, ...]) -> None:
    """No warning of numpy, and no difference of NaN: warnings are errors in tests."""
    random = np.random.default_rng(5)
    units = np.ones((10, 3))
    units[:, lost] = np.nan
    counts = random.poisson(400.0, (1, 10, 3)).astype(float)
    counts[0, :, 2] *= 2.0
    table = Sampled((Server("a"), Server("a", 2), Server("b")), counts, units)
    (found,) = differences([SampledContrast(table, "b", "a", (0,))], 0.05)
    assert found[0].excludes_no_change
    assert 380 < found[0].control < 420


def test_a_copy_of_the_control_that_failed_where_the_arm_ran_is_left_out_there() -> None:
    random = np.random.default_rng(6)
    units = np.ones((10, 3))
    units[:6, 1], units[6:, 2] = np.nan, np.nan
    table = Sampled((Server("a"), Server("a", 2), Server("b")), random.poisson(400.0, (1, 10, 3)).astype(float), units)
    (found,) = differences([SampledContrast(table, "b", "a", (0,))], 0.05)
    assert found[0].low is not None
    assert np.isfinite(found[0].low)
