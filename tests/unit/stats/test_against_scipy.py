"""Tests and intervals that are computed here, so that scipy.stats need not be loaded, against scipy.stats."""

from __future__ import annotations

import numpy as np
from scipy import stats

from mydyno.stats.maxt import _strength
from mydyno.stats.slices import _anova_p


def test_an_analysis_of_variance_is_that_of_scipy() -> None:
    random = np.random.default_rng(7)
    for count in (2, 3, 5):
        groups = [random.normal(0.3 * index, 1 + index, 4 + 3 * index) for index in range(count)]
        assert np.isclose(_anova_p(groups), stats.f_oneway(*groups).pvalue, rtol=1e-9, atol=0)
    assert _anova_p([np.zeros(3), np.ones(3)]) == 0.0
    assert np.isnan(_anova_p([np.zeros(3), np.zeros(3)])), "no evidence of anything"


def test_the_strength_of_a_sum_is_the_logarithm_of_its_p() -> None:
    column = np.array([0.5, 0.2, -0.1, 0.4])
    t = column.mean() / (column.std(ddof=1) / 2)
    (found,) = _strength(np.array([column.sum()]), column, None)
    # The spread of the sums is taken about zero in the test of signs, so t is that of the column itself.
    assert np.isclose(found, -np.log(2 * stats.t.sf(t, 3)), rtol=1e-9)
