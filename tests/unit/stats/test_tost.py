"""Equivalence within a margin."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.errors import BugError
from mydyno.stats.contrast import Estimate
from mydyno.stats.tost import Equivalence
from mydyno.stats.tost import equivalence as of_estimate


def equivalence(mean: float, sd: float | None, n: int, margin: float) -> Equivalence:
    """The test on n log ratios with this mean and sd, by their own noise."""
    error = None if sd is None else sd / n**0.5
    return of_estimate(Estimate(n, mean if n else None, error, n - 1, sd, False), margin)


@given(st.floats(-0.1, 0.1), st.floats(0.0001, 0.1), st.integers(2, 30), st.floats(0.001, 0.5))
def test_equivalent_means_that_the_90_percent_interval_is_inside(mean: float, sd: float, n: int, margin: float) -> None:
    answer = equivalence(mean, sd, n, margin)
    assert answer.interval.low is not None and answer.interval.high is not None
    assert answer.equivalent == (n >= 6 and 1 - margin < answer.interval.low and answer.interval.high < 1 + margin)


def test_too_few_blocks_are_never_equivalent() -> None:
    for n, sd in ((0, None), (1, None)):
        answer = equivalence(0.0, sd, n, 0.02)
        assert (answer.equivalent, answer.interval.low) == (False, None)
    assert not equivalence(0.0, 0.0001, 5, 0.02).equivalent
    assert equivalence(0.0, 0.0001, 6, 0.02).equivalent


def test_blocks_without_spread_are_equivalent_by_their_ratio_alone() -> None:
    assert equivalence(log(1.01), 0.0, 6, 0.02).equivalent
    assert not equivalence(log(1.03), 0.0, 6, 0.02).equivalent


@pytest.mark.parametrize("margin", [0.0, -0.02, 1.0, 2.0, float("nan")])
def test_a_margin_that_is_not_a_fraction_is_a_bug_of_the_caller(margin: float) -> None:
    with pytest.raises(BugError, match="margin must be a fraction"):
        equivalence(0.0, 0.01, 8, margin)


@pytest.mark.parametrize("truth", [0.98, 1.02])
def test_a_true_difference_of_the_margin_is_called_equivalent_in_5_percent_of_studies(truth: float) -> None:
    d = np.random.default_rng(8).normal(log(truth), 0.008, (4000, 8))
    means, sds = d.mean(axis=1), d.std(axis=1, ddof=1)
    rate = np.mean([equivalence(float(m), float(s), 8, 0.02).equivalent for m, s in zip(means, sds, strict=True)])
    assert 0.04 <= rate <= 0.06
