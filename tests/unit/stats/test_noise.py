"""The noise floor from A/A."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
