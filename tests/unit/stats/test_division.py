"""The best division of a series, against ruptures and against trying every division."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import ruptures
from numpy.typing import NDArray

from mydyno.stats.division import divide


class WeightedL2(ruptures.base.BaseCost):  # type: ignore[misc]
    """ruptures' cost of a segment with weights."""

    model = ""
    min_size = 1

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights

    def fit(self, signal: NDArray[np.float64]) -> WeightedL2:
        self.signal = signal.reshape(-1)
        return self

    def error(self, start: int, end: int) -> float:
        part, w = self.signal[start:end], self.weights[start:end]
        return float((w * (part - np.average(part, weights=w)) ** 2).sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("segments", [2, 3])
def test_the_ends_are_those_that_ruptures_finds(seed: int, segments: int) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(0, 1, 25) + np.repeat([0.0, 2.0, -1.0], [9, 6, 10])
    weights = random.uniform(0.2, 5.0, 25)
    oracle = ruptures.Dynp(custom_cost=WeightedL2(weights), min_size=1, jump=1).fit(x).predict(n_bkps=segments - 1)
    assert divide(x, weights, 3).ends(segments) == oracle
    plain = ruptures.Dynp(model="l2", min_size=3, jump=1).fit(x).predict(n_bkps=segments - 1)
    assert divide(x, most=3, shortest=3).ends(segments) == plain


def test_the_cost_is_the_least_of_all_divisions_and_each_series_of_a_batch_has_its_own() -> None:
    random = np.random.default_rng(7)
    batch, weights = random.normal(0, 1, (4, 9)) + 100.0, random.uniform(0.5, 2.0, 9)
    found = divide(batch, weights, 3)
    for series in range(4):
        cost = WeightedL2(weights).fit(batch[series])
        for segments in (1, 2, 3):
            every = [
                sum(cost.error(a, b) for a, b in zip((0, *cuts), (*cuts, 9), strict=True))
                for cuts in combinations(range(1, 9), segments - 1)
            ]
            assert found.cost[segments - 1, series] == pytest.approx(min(every))
            ends = found.ends(segments, series)
            assert sum(cost.error(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)) == pytest.approx(
                min(every)
            )


def test_a_series_too_short_for_its_segments_costs_infinitely_much() -> None:
    assert np.isinf(divide(np.array([1.0, 2.0]), most=3).cost[2, 0])
    assert np.isinf(divide(np.arange(5.0), most=2, shortest=3).cost[1, 0])
