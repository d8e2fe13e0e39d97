"""The Universal Scalability Law: recovered without noise, covered with it, and refused where it does not hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.scalability import Curve, curve_levels, scalability

LEVELS = (1, 4, 8, 16, 32, 64)
TRUE = Curve(500.0, 0.05, 0.0005)


def blocks(curve: Curve, count: int, noise: float = 0.0, seed: int = 1) -> NDArray[np.float64]:
    """Blocks × levels of throughputs whose starts differ as much as their slices."""
    random = np.random.default_rng(seed)
    exact = np.array([[curve.at(level) for level in LEVELS]] * count)
    return exact * np.exp(random.normal(0, noise, exact.shape) + random.normal(0, noise, (count, 1)))


def test_without_noise_the_law_is_recovered() -> None:
    found = scalability(LEVELS, blocks(TRUE, 3))
    assert found is not None
    assert found.curve.serial == pytest.approx(500, rel=1e-6)
    assert found.curve.contention == pytest.approx(0.05, rel=1e-6)
    assert found.curve.coherency == pytest.approx(0.0005, rel=1e-6)
    assert found.peak is not None
    assert found.peak.value == pytest.approx(np.sqrt(0.95 / 0.0005))
    assert found.largest_deviation < 1e-9


def test_without_noise_the_response_times_are_exact() -> None:
    found = scalability(LEVELS, blocks(TRUE, 3))
    assert found is not None
    assert [at for at, _ in found.responses_s] == curve_levels(LEVELS)
    for at, of in found.responses_s:
        exact = (1 + 0.05 * (at - 1) + 0.0005 * at * (at - 1)) / 500
        assert TRUE.response_s(at) == pytest.approx(exact, rel=1e-12)
        assert (of.value, of.low, of.high) == pytest.approx((exact,) * 3, rel=1e-6)


def test_intervals_cover_and_a_law_that_holds_is_seldom_rejected() -> None:
    covered, band_covered, rejected, studies = 0, 0.0, 0, 150
    for seed in range(studies):
        found = scalability(LEVELS, blocks(TRUE, 6, 0.05, seed))
        assert found is not None
        assert found.peak is not None
        assert found.lack_of_fit_p is not None
        pairs = (
            (found.serial, TRUE.serial), (found.contention, TRUE.contention), (found.coherency, TRUE.coherency),
            (found.peak, TRUE.peak or 0),
        )  # fmt: skip
        covered += sum((b.low or 0) <= true <= (b.high or 0) for b, true in pairs)
        band = [(b.low or 0) <= TRUE.response_s(at) <= (b.high or 0) for at, b in found.responses_s]
        band_covered += sum(band) / len(band)
        rejected += found.lack_of_fit_p < 0.05
    assert covered / (4 * studies) > 0.91
    assert band_covered / studies > 0.91
    assert band_covered / studies >= covered / (4 * studies) - 0.01
    assert rejected / studies < 0.12


def test_a_server_that_only_levels_off_has_no_peak() -> None:
    found = scalability(LEVELS, blocks(Curve(500.0, 0.2, 0.0), 4))
    assert found is not None
    assert found.peak is None
    assert found.curve.coherency == 0


def test_a_cliff_is_a_lack_of_fit() -> None:
    measured = blocks(Curve(500.0, 0.0, 0.0), 6, 0.01)
    measured[:, 3:] = measured[:, 2:3] * 0.6 * np.exp(np.random.default_rng(2).normal(0, 0.01, (6, 3)))
    found = scalability(LEVELS, measured)
    assert found is not None
    assert found.lack_of_fit_p is not None
    assert found.lack_of_fit_p < 0.001
    assert found.largest_deviation > 0.1


def test_one_block_has_estimates_without_intervals() -> None:
    found = scalability(LEVELS, blocks(TRUE, 1))
    assert found is not None
    assert (found.serial.low, found.lack_of_fit_p) == (None, None)
    assert {(of.low, of.high) for _, of in found.responses_s} == {(None, None)}


@pytest.mark.parametrize(
    ("levels", "values"),
    [((1, 2, 4), np.ones((2, 3))), ((1, 2, 2, 4), np.ones((2, 4))), ((1, 2, 4, 8), np.zeros((2, 4)))],
)
def test_what_cannot_be_fitted_is_a_bug_of_the_caller(levels: tuple[int, ...], values: NDArray[np.float64]) -> None:
    with pytest.raises(BugError):
        scalability(levels, values)
