"""The noise floor from A/A, residuals, the order effect, canaries."""

from math import exp, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.errors import BugError
from mydyno.stats.canary import canary_outliers
from mydyno.stats.noise import noise_floor
from mydyno.stats.residuals import block_residuals, order_effect_p


def test_the_floor_is_what_two_copies_differ_by_in_half_of_the_blocks() -> None:
    floor = noise_floor([0.01, -0.02, 0.03, -0.015, 0.005])
    assert floor.floor == floor.quantiles[0.5] == pytest.approx(exp(0.015))
    assert floor.quantiles[1.0] == pytest.approx(exp(0.03))


def test_a_floor_is_never_below_the_mean_difference_of_the_copies() -> None:
    floor = noise_floor([0.0, 0.0, 0.0, 0.0, 0.1])
    assert floor.quantiles[0.5] == 1.0
    assert floor.floor == pytest.approx(exp(0.02))


@given(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=12))
def test_exchanging_the_copies_leaves_the_floor_as_it_is(log_ratios: list[float]) -> None:
    assert noise_floor([-d for d in log_ratios]).floor == pytest.approx(noise_floor(log_ratios).floor)


def test_without_a_second_copy_the_floor_is_unknown_and_not_zero() -> None:
    floor = noise_floor([])
    assert (floor.n, floor.floor, floor.p, floor.quantiles) == (0, None, None, {})


def test_one_block_gives_a_floor_without_an_interval() -> None:
    floor = noise_floor([0.02])
    assert floor.floor == pytest.approx(exp(0.02))
    assert floor.interval.low is None


def test_an_additive_table_leaves_no_residuals_and_a_disturbed_run_stands_out() -> None:
    table = {(block, arm): exp(0.1 * block + effect) for block in range(4) for arm, effect in (("a", 0.0), ("b", 0.3))}
    assert all(abs(r.residual) < 1e-9 for r in block_residuals(table))
    table[2, "b"] *= exp(0.2)
    worst = max(block_residuals(table), key=lambda r: r.residual)
    assert (worst.block, worst.arm) in {(2, "b")}


def test_missing_runs_leave_the_other_residuals_at_zero() -> None:
    table = {(block, arm): exp(block + effect) for block in range(4) for arm, effect in (("a", 0.0), ("b", 1.0))}
    del table[0, "a"]
    assert all(abs(r.residual) < 1e-9 for r in block_residuals(table))
    assert block_residuals({}) == []


def _ordered_runs(seed: int, first_is_slower: float) -> list[tuple[int, str, int, float]]:
    random = np.random.default_rng(seed)
    return [
        (block, arm, position, exp(random.normal(0.0, 0.02) - first_is_slower * (position == 1) + 0.02 * block))
        for block in range(8)
        for position, arm in enumerate(random.permutation(["a", "a", "b", "c"]), 1)
    ]


def test_a_cold_first_position_is_seen() -> None:
    assert (order_effect_p(_ordered_runs(1, 0.08)) or 1.0) < 0.001


def test_without_an_order_effect_p_is_below_5_percent_in_5_percent_of_sessions() -> None:
    p = [order_effect_p(_ordered_runs(seed, 0.0)) for seed in range(400)]
    assert 0.025 <= np.mean([(value or 1.0) <= 0.05 for value in p]) <= 0.075


def test_an_order_effect_that_cannot_be_told_from_the_arms_has_no_p() -> None:
    assert order_effect_p([(1, "a", 1, 10.0), (1, "b", 2, 11.0)]) is None
    assert order_effect_p([(block, arm, 1 + (arm == "b"), 10.0) for block in range(5) for arm in "ab"]) is None
    assert order_effect_p([]) is None


def test_values_without_a_logarithm_are_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="positive"):
        block_residuals({(1, "a"): 0.0})
    with pytest.raises(BugError, match="positive"):
        order_effect_p([(1, "a", 1, nan)])


def test_a_canary_beyond_three_mads_marks_its_block_and_its_neighbours_are_left_alone() -> None:
    assert canary_outliers([100.0, 101.0, 99.0, 100.5, 90.0, 99.5]) == [4]
    assert canary_outliers([100.0, 101.0, 99.0, 100.5, 98.5, 99.5]) == []


def test_the_mads_of_a_canary_are_scaled_to_be_standard_deviations() -> None:
    assert canary_outliers([100.0, 101.0, 99.0, 100.5, 98.5, 99.5, 104.4]) == []
    assert canary_outliers([100.0, 101.0, 99.0, 100.5, 98.5, 99.5, 104.5]) == [6]


def test_a_canary_that_gave_no_reading_is_marked() -> None:
    assert canary_outliers([100.0, nan, 99.0, 101.0]) == [1]
    assert canary_outliers([nan]) == [0]


def test_equal_canaries_mark_only_the_one_that_differs() -> None:
    assert canary_outliers([5.0, 5.0, 5.0, 5.1]) == [3]
    assert canary_outliers([5.0, 5.0, 5.0]) == []
    assert canary_outliers([]) == []
