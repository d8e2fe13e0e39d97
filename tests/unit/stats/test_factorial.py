"""Contrasts of a factorial design: their weights, their estimates beside least squares, and crossings."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.stats.contrast import Estimate, estimate_sums
from mydyno.stats.factorial import crossing, factor_contrasts, sums
from mydyno.stats.twoway import two_way

FACTORS = (("10", "1", "0.1"), ("plain", "tls"), ("raw", "zlib"))
BASE = ("10", "plain", "raw")
ARMS = [(a, b, c) for a in FACTORS[0] for b in FACTORS[1] for c in FACTORS[2]]
COLUMNS = [0, 0, *range(1, len(ARMS))]
"""The arm of each server: the control, which comes first, has two."""


def table(random: np.random.Generator, blocks: int = 6, noise: float = 0.03) -> NDArray[np.float64]:
    effects = np.array([(a == "0.1") * -1.8 + (b == "tls") * -0.2 + (c == "zlib") * (0.5 if a == "0.1" else -0.9)
                        for a, b, c in ARMS])  # fmt: skip
    made = random.normal(9.0, 0.2, (blocks, 1)) + effects[COLUMNS] + noise * random.standard_normal((blocks, 13))
    return np.asarray(made)


def test_weights_add_up_to_nothing_and_compare_one_level_with_another() -> None:
    found = list(factor_contrasts(FACTORS, BASE))
    assert all(abs(sum(one.weights.values())) < 1e-12 for one in found)
    assert [sum(one.kind == kind for one in found) for kind in ("main", "at", "interaction")] == [4, 18, 5]
    main = next(one for one in found if one.kind == "main" and one.level == "zlib")
    assert set(main.weights) == set(ARMS) and set(main.weights.values()) == {1 / 6, -1 / 6}
    at = next(one for one in found if (one.kind, one.level, one.at) == ("at", "zlib", "0.1"))
    assert at.weights == {
        ("0.1", b, c): 0.5 if c == "zlib" else -0.5 for b in ("plain", "tls") for c in ("raw", "zlib")
    }


def test_an_interaction_is_the_difference_of_two_effects() -> None:
    made = table(np.random.default_rng(1), noise=0.0)
    for one in factor_contrasts(FACTORS, BASE):
        of = sums(made, COLUMNS, [one.weights.get(arm, 0.0) for arm in ARMS])
        found = estimate_sums(of.values, of.squares, two_way(made, COLUMNS))
        if one.kind == "interaction" and one.at == "zlib":
            expected = 1.4 if (one.factor, one.level) == (0, "0.1") else 0.0
            assert found.mean == pytest.approx(expected, abs=1e-9)


def test_estimates_and_errors_are_those_of_least_squares() -> None:
    """Block and arm as fixed effects: in a whole table the mixed model with random blocks has the same contrasts."""
    made = table(np.random.default_rng(2))
    blocks, servers = made.shape
    design = np.array(
        [
            [*np.eye(blocks)[row], *np.eye(len(ARMS))[COLUMNS[column]]]
            for row in range(blocks)
            for column in range(servers)
        ]
    )
    coefficients, _, rank, _ = np.linalg.lstsq(design, made.ravel(), rcond=None)
    variance = float(((made.ravel() - design @ coefficients) ** 2).sum()) / (made.size - rank)
    inverse = np.linalg.pinv(design.T @ design)
    pool = two_way(made, COLUMNS)
    for one in factor_contrasts(FACTORS, BASE):
        weights = [one.weights.get(arm, 0.0) for arm in ARMS]
        of = sums(made, COLUMNS, weights)
        found = estimate_sums(of.values, of.squares, pool, unequal_above=0.0)
        whole = np.array([*np.zeros(blocks), *weights])
        assert found.mean == pytest.approx(float(whole @ coefficients), abs=1e-9)
        assert found.error == pytest.approx(float(np.sqrt(variance * whole @ inverse @ whole)), rel=1e-9)
        assert found.freedom == made.size - rank


def test_a_block_without_one_of_the_arms_does_not_count() -> None:
    made = table(np.random.default_rng(3))
    made[2, 5] = np.nan
    made[4, 0] = np.nan
    one = next(one for one in factor_contrasts(FACTORS, BASE) if one.kind == "main" and one.level == "tls")
    found = sums(made, COLUMNS, [one.weights.get(arm, 0.0) for arm in ARMS])
    assert found.blocks.tolist() == [0, 1, 3, 4, 5]
    assert found.squares[3] == pytest.approx(12 / 36) and found.squares[0] == pytest.approx(11.5 / 36)


def at(mean: float, error: float = 0.05, freedom: int = 40) -> Estimate:
    return Estimate(6, mean, error, freedom, error * 6**0.5, True)


def test_the_crossing_lies_where_the_straight_line_is_nothing() -> None:
    found = crossing(at(0.5), at(-1.5), 0.05)
    assert found is not None and found.share == pytest.approx(0.25)
    assert 0.0 < found.low < 0.25 < found.high < 1.0
    narrow = crossing(at(0.5, 0.01), at(-1.5, 0.01), 0.05)
    assert narrow is not None and narrow.high - narrow.low < (found.high - found.low) / 4


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.4), (-0.5, -0.4), (0.05, -0.9), (0.9, -0.05), (0.0, 0.0)])
def test_there_is_no_crossing_unless_both_ends_are_decided_with_different_signs(first: float, second: float) -> None:
    assert crossing(at(first), at(second), 0.05) is None


def test_the_interval_of_a_crossing_covers_it_as_often_as_it_says() -> None:
    random, truth, hits, all_ = np.random.default_rng(4), 0.4 / 1.0, 0, 0
    for _ in range(2000):
        error = 0.1 * float(np.sqrt(random.chisquare(20) / 20))
        found = crossing(at(random.normal(0.4, 0.1), error, 20), at(random.normal(-0.6, 0.1), error, 20), 0.05)
        if found is not None:
            all_ += 1
            hits += found.low <= truth <= found.high
    assert all_ > 1700 and hits / all_ > 0.93


def test_a_crossing_between_levels_is_read_on_their_logarithm() -> None:
    found = crossing(at(log(2.0)), at(-log(2.0)), 0.05)
    assert found is not None and found.share == pytest.approx(0.5)
