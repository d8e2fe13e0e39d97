"""The noise floor from A/A, and canaries."""

from math import exp, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.stats.canary import canary_outliers
from mydyno.stats.noise import noise_floor


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
