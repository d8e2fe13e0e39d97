"""The joint label permutation: counted as brute force counts, exact under exchangeability, and its interval."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.errors import BugError
from mydyno.stats.contrast import LogBlock
from mydyno.stats.permutation import DRAWS, SHIFT, Exchange, hochberg, holm, joint_test, possible, smallest_p

VALUES = st.floats(-1.0, 1.0).map(lambda value: round(value, 2))
BLOCKS = st.lists(st.one_of(st.none(), st.lists(VALUES, min_size=2, max_size=4)), min_size=4, max_size=4)


def block(values: Sequence[float]) -> LogBlock:
    """The arm's value and one or two of the control; of four the first two are the arm's."""
    of_arm = 2 if len(values) == 4 else 1
    return LogBlock(tuple(values[:of_arm]), tuple(values[of_arm:]))


def contrast(blocks: list[list[float]], copies: list[float] | None = None) -> Exchange:
    """Blocks of equal weight; `copies`: ln(A′ / A) of another arm."""
    pairs = [None] * len(blocks) if copies is None else copies
    of = {at: possible(block(values), pair) for at, (values, pair) in enumerate(zip(blocks, pairs, strict=True))}
    return Exchange(of, dict.fromkeys(of, 1.0))


def p_of(blocks: list[list[float]], seed: int = 1) -> float:
    (p,) = joint_test([contrast(blocks)], seed).adjusted
    return p


def brute_force(contrasts: list[Exchange], one_sided: bool = False) -> tuple[list[float], list[float]]:
    """Every joint assignment, one by one: p alone, and by algorithm 4.1 of Westfall and Young."""
    digits = sorted({(block, len(of)) for one in contrasts for block, of in one.differences.items()})
    scales = [sum(float(np.mean(np.square(of))) for of in one.differences.values()) ** 0.5 for one in contrasts]
    rows = []
    for labels in product(*(range(count) for _, count in digits)):
        label = dict(zip(digits, labels, strict=True))
        sums = [sum(of[label[b, len(of)]] for b, of in one.differences.items()) for one in contrasts]
        row = [total / scale if scale else 0.0 for total, scale in zip(sums, scales, strict=True)]
        rows.append(row if one_sided else [abs(value) for value in row])
    found, observed = np.array(rows), rows[0]
    alone = [float(np.mean(found[:, j] >= observed[j] - 1e-9)) for j in range(len(contrasts))]
    adjusted, least = [1.0] * len(contrasts), 0.0
    left = sorted(range(len(contrasts)), key=lambda j: -observed[j])
    while left:
        least = max(least, float(np.mean(found[:, left].max(axis=1) >= observed[left[0]] - 1e-9)))
        adjusted[left.pop(0)] = least
    return alone, adjusted


@settings(deadline=None, max_examples=60)
@given(st.lists(BLOCKS, min_size=1, max_size=3), st.booleans())
def test_the_p_are_shares_of_all_joint_assignments(tables: list[list[list[float] | None]], one_sided: bool) -> None:
    contrasts = []
    for table in tables:
        of = {at: possible(block(values)) for at, values in enumerate(table) if values is not None}
        if of and any(any(row) for row in of.values()):
            contrasts.append(Exchange(of, dict.fromkeys(of, 1.0)))
    found = joint_test(contrasts, one_sided=one_sided)
    alone, adjusted = brute_force(contrasts, one_sided) if contrasts else ([], [])
    assert list(found.alone) == pytest.approx(alone)
    assert list(found.adjusted) == pytest.approx(adjusted)


def test_three_blocks_reach_one_in_27_and_six_one_in_729_among_thirty_too() -> None:
    for n in (3, 6):
        assert p_of([[1.0, 0.01 * n, 0.02]] * n) == pytest.approx(3.0**-n)
        assert smallest_p([3] * n) == pytest.approx(3.0**-n)
    random = np.random.default_rng(1)
    clear = [random.normal(0.0, 0.01, (6, 3)) + np.array([0.8, 0.0, 0.0]) for _ in range(30)]
    assert set(joint_test([contrast(of.tolist()) for of in clear]).adjusted) == {1.0 / 729.0}


def test_values_that_hardly_differ_do_not_hide_a_large_effect() -> None:
    """Each of ten metrics is the same in all lanes but one in each block, where it differs by 0.05 %."""
    random = np.random.default_rng(7)
    clear = contrast((random.normal(0.0, 0.05, (4, 3)) + np.array([-3.0, 0.0, 0.0])).tolist())
    still = []
    for _ in range(10):
        lanes = np.zeros((4, 3))
        lanes[range(4), random.integers(0, 3, 4)] = 5e-4
        still.append(contrast(lanes.tolist()))
    assert joint_test([clear, *still]).adjusted[0] > 5.0 / 81.0
    found = joint_test([replace(one, floor=0.002) for one in (clear, *still)])
    assert found.adjusted[0] == pytest.approx(1.0 / 81.0)
    assert found.alone == joint_test([clear, *still]).alone, "one contrast's own test does not depend on the floor"
    low, high = found.interval(1, 0.05) or (-1.0, 1.0)
    assert -0.004 < low < high < 0.004


def test_with_one_control_it_is_the_sign_flip() -> None:
    assert p_of([[1.0, 0.0]] * 6) == pytest.approx(2.0 / 64.0)
    assert smallest_p([2] * 6) == pytest.approx(2.0 / 64.0)
    assert smallest_p([3, 3, 2]) == pytest.approx(1.0 / 18.0)


def test_a_control_without_a_copy_is_exchanged_with_another_arms_copies_too() -> None:
    found = joint_test([contrast([[1.0, 0.0]] * 4, [0.1, -0.1, 0.05, 0.02])])
    assert found.adjusted == (2.0 / 256.0,) == (smallest_p([4] * 4),)
    assert possible(block([1.0, 0.25]), 0.5) == (0.75, -0.75, 0.5, -0.5)


def test_two_copies_of_each_have_six_assignments_of_which_two_are_as_clear() -> None:
    assert possible(block([4.0, 3.0, 1.0, 0.5])) == (2.75, 0.75, 0.25, -0.25, -0.75, -2.75)
    for n in (2, 4, 6):
        assert p_of([[1.0, 0.9, 0.01 * n, 0.02]] * n) == pytest.approx(2.0 * 6.0**-n) == smallest_p([6] * n)
    assert smallest_p([6, 6, 3]) == pytest.approx(1.0 / 108.0)
    two_of_arm = LogBlock((1.0, 0.5), (0.0,))
    assert possible(two_of_arm) == (0.75, 0.0, -0.75)


def test_no_contrast_has_no_p_and_no_difference_has_one() -> None:
    assert joint_test([]).adjusted == ()
    assert smallest_p([]) == 1.0
    assert p_of([[0.5, 0.5, 0.5]] * 4) == 1.0


def test_with_many_blocks_it_is_drawn() -> None:
    random = np.random.default_rng(3)
    blocks = (random.normal(size=(26, 3)) + np.array([0.35, 0.0, 0.0])).tolist()
    p = p_of(blocks)
    assert p == p_of(blocks)
    assert p_of(blocks, seed=2) == pytest.approx(p, rel=0.15)
    assert p_of([[1.0, 0.0, 0.0]] * 26) == 1.0 / (DRAWS + 1)
    assert smallest_p([3] * 26) == 1.0 / (DRAWS + 1)


@pytest.mark.slow
@pytest.mark.parametrize("servers", [3, 4])
@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_it_is_exact_whatever_the_noise(noise: str, servers: int) -> None:
    random = np.random.default_rng(5)
    draw = random.normal if noise == "normal" else random.standard_exponential
    p = np.array([p_of(draw(size=(4, servers)).tolist()) for _ in range(4000)])
    for level in (4 / 81, 16 / 81) if servers == 3 else (64 / 1296, 256 / 1296):
        assert (p <= level + 1e-9).mean() == pytest.approx(level, abs=4.0 * np.sqrt(level / 4000))


@pytest.mark.parametrize("labels", [2, 3, 4, 6])
def test_the_interval_ends_where_the_statistic_is_the_critical_one(labels: int) -> None:
    random = np.random.default_rng(labels)
    effect = {2: [0.3, 0.0], 3: [0.3, 0.0, 0.0], 4: [0.3, 0.0], 6: [0.3, 0.3, 0.0, 0.0]}[labels]
    values = random.normal(0.0, 0.1, (8, len(effect))) + effect
    one = contrast(values.tolist(), random.normal(0.0, 0.1, 8).tolist() if labels == 4 else None)
    one = Exchange(one.differences, {block: 0.5 + block / 8.0 for block in range(8)}, floor=0.02)
    found = joint_test([one])
    ends = found.interval(0, 0.05)
    assert ends is not None
    critical = np.sort(found.largest)[int(np.ceil(found.largest.size * 0.95 - 1e-9)) - 1]
    for end in ends:
        moved = one.moved(end)
        total = sum(one.weights[block] * of[0] for block, of in moved.differences.items())
        squares = sum(
            one.weights[block] ** 2 * (np.mean(np.square(of)) + 0.02**2) for block, of in moved.differences.items()
        )
        assert abs(total) / np.sqrt(squares) == pytest.approx(critical)
    assert (
        ends[0] < sum(one.weights[b] * of[0] for b, of in one.differences.items()) / sum(one.weights.values()) < ends[1]
    )
    assert sum(SHIFT[labels]) == 0.0


def test_too_few_blocks_reject_no_effect_at_all() -> None:
    found = joint_test([contrast([[1.0, 0.0, 0.1], [1.1, 0.1, 0.0]])])
    assert found.interval(0, 0.05) is None


def test_holm_multiplies_by_what_is_left() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_holm_and_hochberg_agree_with_statsmodels() -> None:
    """statsmodels 0.15.0, multipletests(p, method="holm") and "simes-hochberg"; with its packages it has 150 MB."""
    p_values = [0.021, 0.0004, 0.33, 0.009, 0.009, 0.048, 0.77]
    assert holm(p_values) == pytest.approx([0.084, 0.0028, 0.66, 0.054, 0.054, 0.144, 0.77])
    assert hochberg(p_values) == pytest.approx([0.084, 0.0028, 0.66, 0.045, 0.045, 0.144, 0.77])


def test_a_block_without_a_control_or_a_number_is_a_bug_of_the_caller() -> None:
    for wrong in (LogBlock((1.0,), ()), LogBlock((1.0, 2.0, 3.0), (1.0,)), LogBlock((1.0,), (float("nan"),))):
        with pytest.raises(BugError, match="one or two servers"):
            possible(wrong)
