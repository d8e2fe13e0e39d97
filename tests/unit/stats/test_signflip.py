"""The exact sign-flip test."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.errors import BugError
from mydyno.stats.maxt import sign_flip, smallest_p

SMALL = st.lists(st.integers(-50, 50).map(lambda x: x / 1000.0), min_size=1, max_size=7)


@given(SMALL)
def test_p_is_the_share_of_all_sign_patterns_at_least_as_far_from_zero(d: list[float]) -> None:
    totals = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=len(d))]
    by_hand = sum(total >= abs(sum(d)) - 1e-12 for total in totals) / len(totals)
    assert sign_flip(d) == pytest.approx(by_hand)


@given(SMALL)
def test_swapping_arm_and_control_leaves_p_as_it_is(d: list[float]) -> None:
    assert sign_flip([-x for x in d]) == pytest.approx(sign_flip(d))


@given(SMALL, st.floats(0.001, 1000.0))
def test_p_does_not_depend_on_the_scale(d: list[float], factor: float) -> None:
    assert sign_flip([x * factor for x in d]) == pytest.approx(sign_flip(d))


@settings(deadline=None)
@given(st.integers(1, 14))
def test_blocks_that_all_point_one_way_reach_the_smallest_p_there_is(n: int) -> None:
    assert sign_flip(np.linspace(0.01, 0.02, n)) == pytest.approx(smallest_p(n)) == pytest.approx(2.0 / 2.0**n)


def test_three_blocks_allow_no_p_below_a_quarter_and_five_none_below_a_sixteenth() -> None:
    assert smallest_p(3) == 0.25
    assert smallest_p(5) == 0.0625
    assert smallest_p(6) < 0.05
    assert smallest_p(0) == 1.0


def test_no_difference_at_all_has_a_p_of_one_and_no_block_has_no_p() -> None:
    assert sign_flip([0.0, 0.0, 0.0]) == 1.0
    assert sign_flip([]) is None


def test_twenty_blocks_are_counted_exactly_and_more_are_drawn_with_the_stored_seed() -> None:
    d = np.random.default_rng(3).normal(0.005, 0.01, 24)
    assert sign_flip(d[:20], seed=7) == sign_flip(d[:20], seed=8)
    drawn = sign_flip(d, seed=7)
    assert drawn == sign_flip(d, seed=7) != sign_flip(d, seed=8)
    assert drawn is not None and drawn >= smallest_p(24) > 0.0


def test_random_patterns_agree_with_all_patterns() -> None:
    d = np.random.default_rng(5).normal(0.006, 0.01, 12)
    exact = sign_flip(d)
    assert sign_flip(d, exact_limit=10) == pytest.approx(exact, abs=0.005)


def test_an_infinite_log_ratio_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="finite"):
        sign_flip([0.1, inf])
