"""Several contrasts at once: max-t by sign-flips, missing runs, and Holm."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from mydyno.errors import BugError
from mydyno.stats.maxt import family_test, sign_flip
from mydyno.stats.paired import paired
from mydyno.stats.permutation import holm


def table(blocks: int, contrasts: int, seed: int = 1, effect: float = 0.0, rho: float = 0.5) -> NDArray[np.float64]:
    """Log ratios with sd 1 % whose contrasts are correlated by `rho` inside a block."""
    random = np.random.default_rng(seed)
    shared, own = random.normal(size=(blocks, 1)), random.normal(size=(blocks, contrasts))
    return np.asarray(effect + 0.01 * (np.sqrt(rho) * shared + np.sqrt(1.0 - rho) * own), dtype=np.float64)


def test_a_single_contrast_is_the_weaker_of_the_plain_sign_flip_and_the_plain_t() -> None:
    d = table(8, 1, effect=0.01)
    (answer,) = family_test(d)
    assert answer.p_adjusted_t == pytest.approx(paired(d[:, 0]).p)
    assert answer.p == pytest.approx(max(sign_flip(d[:, 0]) or 0.0, answer.p_adjusted_t or 0.0))


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 9), st.integers(2, 6), st.integers(0, 10_000))
def test_adjusting_never_makes_an_answer_stronger(blocks: int, contrasts: int, seed: int) -> None:
    d = table(blocks, contrasts, seed, effect=0.005)
    for column, contrast in zip(d.T, family_test(d), strict=True):
        alone = paired(column)
        assert contrast.p_adjusted_t is not None and alone.p is not None and contrast.p is not None
        assert contrast.p_adjusted_t >= alone.p - 1e-12
        assert contrast.p >= max(contrast.p_adjusted_t, sign_flip(column) or 0.0) - 1e-12


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_swapping_all_arms_with_the_control_changes_no_p(seed: int) -> None:
    d = table(8, 3, seed, effect=0.01)
    for forth, back in zip(family_test(d), family_test(-d), strict=True):
        assert back.p == pytest.approx(forth.p)


def test_the_order_of_the_contrasts_does_not_matter() -> None:
    d = table(8, 4, effect=0.008)
    assert family_test(d[:, ::-1])[::-1] == family_test(d)


def test_identical_contrasts_cost_nothing_because_their_correlation_is_kept() -> None:
    one = table(8, 1, effect=0.008)
    copied = family_test(np.repeat(one, 5, axis=1))[0]
    assert copied.p == pytest.approx(family_test(one)[0].p, abs=0.02)


def test_a_missing_run_costs_its_own_contrast_a_block_and_nothing_else() -> None:
    d = table(8, 3, effect=0.03)
    d[2, 1] = np.nan
    answer = family_test(d)
    assert [contrast.n for contrast in answer] == [8, 7, 8]
    assert all((contrast.p or 1.0) <= 0.05 for contrast in answer)


def test_contrasts_of_unequal_size_are_compared_by_the_p_of_their_own_t() -> None:
    """Adjusted by hand: in how many sign patterns is the smallest t p of the family as small as the contrast's own?"""
    d = table(9, 2, seed=1, effect=0.006)
    d[5:, 1] = np.nan
    smallest = [
        min(stats.ttest_1samp(d[:, 0] * signs, 0.0).pvalue, stats.ttest_1samp((d[:, 1] * signs)[:5], 0.0).pvalue)
        for signs in product((1.0, -1.0), repeat=9)
    ]
    own = [float(stats.ttest_1samp(column[~np.isnan(column)], 0.0).pvalue) for column in d.T]
    by_hand = [np.mean([p <= mine * (1.0 + 1e-9) for p in smallest]) for mine in own]
    assert [contrast.p for contrast in family_test(d)] == pytest.approx(by_hand), "the t's are smaller here"


def test_an_arm_without_any_valid_run_does_not_weaken_the_others() -> None:
    d = table(8, 2, effect=0.01)
    with_dead = np.column_stack([d[:, 0], np.full(8, np.nan), d[:, 1]])
    answer = family_test(with_dead)
    assert answer[1].n == 0 and answer[1].p is None
    assert (answer[0], answer[2]) == family_test(d)


def test_contrasts_that_share_few_blocks_fall_back_to_holm() -> None:
    d = table(12, 2, effect=0.02)
    d[:5, 0] = np.nan
    d[7:, 1] = np.nan
    by_flip = holm([sign_flip(d[5:, 0]) or 1.0, sign_flip(d[:7, 1]) or 1.0])
    by_t = [min(1.0, 2.0 * (paired(column).p or 0.0)) for column in (d[5:, 0], d[:7, 1])]
    assert [contrast.p_adjusted_t for contrast in family_test(d)] == pytest.approx(by_t)
    assert [contrast.p for contrast in family_test(d)] == pytest.approx(list(map(max, by_flip, by_t)))


def test_holm_steps_down_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_contrast_of_one_block_has_a_p_of_one() -> None:
    d = table(8, 2, effect=0.02)
    d[1:, 1] = np.nan
    alone = family_test(d)[1]
    assert (alone.n, alone.p, alone.p_adjusted_t) == (1, 1.0, None)


def test_blocks_without_spread_are_answered_by_the_sign_flip_alone() -> None:
    same = family_test(np.full((8, 2), np.log(1.03)))
    for contrast in same:
        assert contrast.p_adjusted_t is None
        assert contrast.p == pytest.approx(2.0 / 2.0**8)
    assert family_test(np.zeros((8, 2)))[0].p == 1.0


def test_no_blocks_at_all_are_answered_with_nothing() -> None:
    assert [contrast.n for contrast in family_test(np.empty((0, 2)))] == [0, 0]


def test_more_than_twenty_blocks_use_seeded_patterns() -> None:
    d = table(25, 3, effect=0.004)
    assert family_test(d, seed=4) == family_test(d, seed=4) != family_test(d, seed=5)


def test_an_infinity_in_the_table_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="without infinities"):
        family_test(np.array([[np.inf]]))
