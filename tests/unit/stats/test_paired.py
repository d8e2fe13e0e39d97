"""The paired analysis of log ratios, one number per block."""

from math import exp, inf, log, nan
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import Interval, log_ratio, paired, ratio_of, t_interval

LOG_RATIOS = st.lists(st.floats(-1.0, 1.0).map(lambda x: round(x, 6)), min_size=2, max_size=12)


def test_the_interval_and_p_are_those_of_a_paired_t_test() -> None:
    d = np.random.default_rng(1).normal(0.02, 0.01, 8)
    answer, reference = paired(d), stats.ttest_1samp(d, 0.0)
    low, high = reference.confidence_interval(0.95)
    assert answer.ratio == pytest.approx(exp(d.mean()))
    assert answer.p == pytest.approx(reference.pvalue)
    assert (answer.interval.low, answer.interval.high) == pytest.approx((exp(low), exp(high)))


@given(LOG_RATIOS)
def test_swapping_arm_and_control_inverts_the_ratio_and_its_interval(log_ratios: list[float]) -> None:
    forth, back = paired(log_ratios), paired([-d for d in log_ratios])
    assert forth.ratio is not None and forth.interval.low is not None and forth.interval.high is not None
    assert back.ratio == pytest.approx(1.0 / forth.ratio)
    assert back.interval.low == pytest.approx(1.0 / forth.interval.high)
    assert back.interval.high == pytest.approx(1.0 / forth.interval.low)
    assert back.p == (None if forth.p is None else pytest.approx(forth.p))


@given(st.lists(st.tuples(st.floats(1.0, 1e6), st.floats(1.0, 1e6)), min_size=2, max_size=8), st.floats(1e-3, 1e3))
def test_the_unit_of_the_metric_does_not_matter(runs: list[tuple[float, float]], factor: float) -> None:
    plain = [log_ratio(arm, control) or 0.0 for arm, control in runs]
    scaled = [log_ratio(arm * factor, control * factor) or 0.0 for arm, control in runs]
    assert scaled == pytest.approx(plain, abs=1e-9)


@given(LOG_RATIOS, st.randoms())
def test_the_order_of_the_blocks_does_not_matter(log_ratios: list[float], random: Random) -> None:
    shuffled = list(log_ratios)
    random.shuffle(shuffled)
    assert paired(shuffled).ratio == pytest.approx(paired(log_ratios).ratio)
    assert paired(shuffled).sd == pytest.approx(paired(log_ratios).sd, abs=1e-12)


@pytest.mark.parametrize("value", [None, 0.0, -1.0, nan, inf])
def test_a_value_without_a_logarithm_gives_no_log_ratio(value: float | None) -> None:
    assert log_ratio(value, 100.0) is None
    assert log_ratio(100.0, value) is None


def test_no_block_gives_nothing_and_one_block_a_ratio_without_an_interval() -> None:
    nothing, one = paired([]), paired([log(1.04)])
    assert (nothing.n, nothing.ratio, nothing.interval.low, nothing.p) == (0, None, None, None)
    assert (one.n, one.interval.low, one.interval.high, one.p) == (1, None, None, None)
    assert one.ratio == pytest.approx(1.04)
    assert not one.interval.excludes_no_change()


def test_blocks_that_all_agree_have_no_t_and_no_p_of_zero() -> None:
    answer = paired([log(103.0 / 100.0), log(206.0 / 200.0), log(1.03)])
    assert answer.sd == 0.0 and answer.p is None
    assert answer.interval.low == pytest.approx(1.03)
    assert paired([0.0, 0.0, 0.0]).p == 1.0


def test_a_number_that_is_not_finite_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="one finite number per block"):
        paired([0.1, nan])


def test_a_long_tail_is_flagged_and_an_even_spread_is_not() -> None:
    assert paired([0.01, 0.012, 0.011, 0.009, 0.013, 0.010, 0.012, 0.2]).skewed
    assert not paired([0.01, 0.03, 0.02, 0.00, 0.04, 0.05, -0.01, 0.06]).skewed


def test_an_interval_of_two_blocks_at_a_strict_level_is_wide_but_a_number() -> None:
    """Costs that are nothing in one block and much in the next: exp of its ends is no float."""
    wide = t_interval(5.0, 8.0, 2, 1.0 - 1e-6)
    assert wide.low is not None and wide.high is not None
    assert 0.0 < wide.low < 1e-200 and 1e200 < wide.high < inf
    own = Estimate(2, 5.0, 6.0, 1, 8.0, pooled=False)
    assert own.interval(1e-6, 0.95) == Interval(wide.low, wide.high, 0.95)
    assert 1e200 < (own.half_width(1e-6) or 0.0) < inf
    assert ratio_of(log(1.25)) == pytest.approx(1.25)
