"""Coverage of stated intervals and the factor by which they are off."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from mydyno.stats.calibration import factor, rate, score


def test_the_interval_of_a_rate_is_that_of_scipy() -> None:
    for count, of in ((0, 10), (19, 20), (20, 20), (57, 60)):
        exact = stats.binomtest(count, of).proportion_ci(0.95, "exact")
        found = rate(count, of)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_scores_have_the_p_of_their_t() -> None:
    for mean, error, freedom in ((0.02, 0.01, 5), (-0.03, 0.02, 9), (0.0, 0.01, 3)):
        p = 2 * stats.t.sf(abs(mean) / error, freedom)
        assert 2 * stats.norm.sf(abs(score(mean, error, freedom))) == pytest.approx(p)
        assert np.sign(score(mean, error, freedom)) in (np.sign(mean), 0.0, 1.0)


@pytest.mark.parametrize(("truth", "covers"), [(1.0, 0.9), (1.6, 0.7)])
def test_the_factor_covers_the_truth(truth: float, covers: float) -> None:
    """A factor above 1 is understated a little, as scores of t with few degrees of freedom are drawn in."""
    random, inside = np.random.default_rng(61), 0
    for _ in range(200):
        copies = random.normal(0.0, 0.02 * truth, 30) / sqrt(6)
        errors = 0.02 / sqrt(6) * np.sqrt(random.chisquare(5, 30) / 5)
        found = factor([score(float(m), float(e), 5) for m, e in zip(copies, errors, strict=True)])
        inside += found.low <= truth <= found.high
    assert inside / 200 >= covers
