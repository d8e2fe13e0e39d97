"""Moderated variances: the error rate of a family is kept where plain t keeps it, with narrower intervals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from mydyno.stats.moderated import moderated

CONTRASTS, BLOCKS, STUDIES, ALPHA = 60, 5, 300, 0.05


@pytest.mark.parametrize("prior_df", [3.0, 8.0, 1e6])
def test_a_family_without_effects_has_false_claims_at_its_rate(prior_df: float) -> None:
    random = np.random.default_rng(7)
    false, widths, plain_widths = 0, [], []
    for _ in range(STUDIES):
        variances = 1e-4 * prior_df / random.chisquare(prior_df, CONTRASTS)
        values = random.normal(0, np.sqrt(variances)[:, None], (CONTRASTS, BLOCKS))
        found = moderated(values.var(axis=1, ddof=1), BLOCKS - 1)
        half = scipy.stats.t.ppf(1 - ALPHA / CONTRASTS / 2, found.df) * np.sqrt(found.variances / BLOCKS)
        false += bool((np.abs(values.mean(axis=1)) > half).any())
        plain = scipy.stats.t.ppf(1 - ALPHA / CONTRASTS / 2, BLOCKS - 1)
        widths.append(np.median(half))
        plain_widths.append(np.median(plain * values.std(axis=1, ddof=1) / np.sqrt(BLOCKS)))
    assert false / STUDIES <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / STUDIES)
    assert np.mean(widths) < 0.8 * np.mean(plain_widths)


def test_equal_variances_have_all_degrees_of_freedom_and_few_are_left_as_they_are() -> None:
    random = np.random.default_rng(1)
    equal = random.chisquare(4, 400) / 4
    found = moderated(equal, 4)
    assert found.df > 100
    assert np.allclose(found.variances, 1.0, atol=0.25)
    few = np.array([1.0, 4.0])
    assert (moderated(few, 4).variances == few).all()
    assert moderated(few, 4).df == 4


def test_a_variance_of_nothing_is_raised_by_the_others() -> None:
    found = moderated(np.array([0.0, 1.0, 2.0, 1.5, 0.7, 1.1]), 4)
    assert found.variances[0] > 0
