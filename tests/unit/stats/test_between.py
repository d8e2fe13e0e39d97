"""The difference of two sessions' estimates, against scipy's Welch test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mydyno.across.history import mean_of
from mydyno.stats.contrast import Estimate, difference


def test_error_freedom_and_p_are_those_of_welch() -> None:
    random = np.random.default_rng(41)
    a, b = random.normal(0.04, 0.01, 6), random.normal(0.06, 0.03, 9)
    found = difference(mean_of(dict(enumerate(a))), mean_of(dict(enumerate(b))))
    welch = stats.ttest_ind(b, a, equal_var=False)
    assert found.mean == pytest.approx(b.mean() - a.mean())
    assert (found.mean or 0.0) / (found.error or 1.0) == pytest.approx(welch.statistic)
    assert found.freedom == int(welch.df)
    assert found.n == 6


def test_a_session_without_an_error_gives_a_difference_without_an_interval() -> None:
    one = Estimate(1, 0.05, None, 0, None, False)
    other = Estimate(6, 0.02, 0.01, 5, 0.02, False)
    assert difference(one, other).interval(0.05, 0.95).low is None
    assert difference(one, other).mean == pytest.approx(-0.03)
    assert difference(Estimate(0, None, None, 0, None, False), other).mean is None


def test_the_difference_turned_round_is_the_same() -> None:
    a, b = Estimate(6, 0.05, 0.02, 5, None, False), Estimate(10, 0.02, 0.01, 19, None, True)
    there, back = difference(a, b), difference(b, a)
    assert (there.mean, there.error, there.freedom) == (-(back.mean or 0.0), back.error, back.freedom)
