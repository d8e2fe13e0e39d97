"""The label permutation inside blocks: counted as brute force counts, exact under exchangeability."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.errors import BugError
from mydyno.stats.permutation import DRAWS, hochberg, holm, label_permutation, smallest_p

VALUES = st.floats(-1.0, 1.0).map(lambda value: round(value, 2))


def brute_force(blocks: list[list[float]]) -> float:
    """Every assignment of the arm's label, one by one."""
    totals = []
    for labels in product(*(range(len(block)) for block in blocks)):
        total = 0.0
        for block, label in zip(blocks, labels, strict=True):
            others = [value for place, value in enumerate(block) if place != label]
            total += block[label] - sum(others) / len(others)
        totals.append(abs(total))
    return float(np.mean([total >= totals[0] - 1e-9 for total in totals]))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.lists(VALUES, min_size=2, max_size=3), min_size=1, max_size=6))
def test_the_p_is_the_share_of_all_assignments_that_are_as_extreme(blocks: list[list[float]]) -> None:
    assert label_permutation(blocks) == pytest.approx(brute_force(blocks))


def test_three_blocks_reach_one_in_27_and_six_one_in_729() -> None:
    for n in (3, 6):
        assert label_permutation([[1.0, 0.01 * n, 0.02]] * n) == pytest.approx(3.0**-n)
        assert smallest_p([3] * n) == pytest.approx(3.0**-n)


def test_with_one_control_it_is_the_sign_flip() -> None:
    assert label_permutation([[1.0, 0.0]] * 6) == pytest.approx(2.0 / 64.0)
    assert smallest_p([2] * 6) == pytest.approx(2.0 / 64.0)
    assert smallest_p([3, 3, 2]) == pytest.approx(1.0 / 18.0)


def test_no_block_has_no_p_and_no_difference_has_one() -> None:
    assert label_permutation([]) is None
    assert smallest_p([]) == 1.0
    assert label_permutation([[0.5, 0.5, 0.5]] * 4) == 1.0


def test_above_twenty_blocks_it_is_drawn_and_agrees_with_the_normal_approximation() -> None:
    random = np.random.default_rng(3)
    blocks = (random.normal(size=(26, 3)) + np.array([0.35, 0.0, 0.0])).tolist()
    p = label_permutation(blocks)
    assert p is not None and p == label_permutation(blocks)
    assert label_permutation(blocks, seed=2) == pytest.approx(p, rel=0.1)
    assert label_permutation([[1.0, 0.0, 0.0]] * 26) == 1.0 / (DRAWS + 1)


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_it_is_exact_whatever_the_noise(noise: str) -> None:
    random = np.random.default_rng(5)
    draw = random.normal if noise == "normal" else random.standard_exponential
    p = np.array([label_permutation(draw(size=(4, 3)).tolist()) for _ in range(4000)])
    for level in (4 / 81, 16 / 81):
        assert (p <= level + 1e-9).mean() == pytest.approx(level, abs=4.0 * np.sqrt(level / 4000))


def test_holm_multiplies_by_what_is_left() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_holm_and_hochberg_agree_with_statsmodels() -> None:
    """statsmodels 0.15.0, multipletests(p, method="holm") and "simes-hochberg"; with its packages it has 150 MB."""
    p_values = [0.021, 0.0004, 0.33, 0.009, 0.009, 0.048, 0.77]
    assert holm(p_values) == pytest.approx([0.084, 0.0028, 0.66, 0.054, 0.054, 0.144, 0.77])
    assert hochberg(p_values) == pytest.approx([0.084, 0.0028, 0.66, 0.045, 0.045, 0.144, 0.77])


def test_a_block_without_a_control_or_a_number_is_a_bug_of_the_caller() -> None:
    for block in ([1.0], [1.0, float("nan")]):
        with pytest.raises(BugError, match="at least one control"):
            label_permutation([block])
