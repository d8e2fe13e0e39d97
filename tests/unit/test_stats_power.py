"""How many blocks: the tables of docs/concepts/statistics.md are reproduced, and the edges hold."""

import numpy as np
import pytest
from scipy import stats

from mydyno.errors import BugError
from mydyno.stats import power
from mydyno.stats.signflip import smallest_p

DETECTABLE = {
    5: (0.8, 1.7, 2.5, 3.4, 5.0, 8.4),
    6: (0.7, 1.4, 2.2, 2.9, 4.3, 7.2),
    8: (0.6, 1.2, 1.7, 2.3, 3.5, 5.8),
    10: (0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
    15: (0.4, 0.8, 1.2, 1.6, 2.3, 3.9),
    20: (0.3, 0.7, 1.0, 1.3, 2.0, 3.3),
}


@pytest.mark.parametrize("n", DETECTABLE)
def test_the_table_of_detectable_effects_is_reproduced(n: int) -> None:
    found = [power.detectable_effect(n, sd / 100.0) for sd in (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)]
    assert [round(100.0 * (effect or 0.0), 1) for effect in found] == list(DETECTABLE[n])


@pytest.mark.parametrize(("n", "sds"), [(5, 1.24), (6, 1.05), (8, 0.84), (10, 0.72), (15, 0.55), (20, 0.47)])
def test_the_table_of_half_widths_is_reproduced(n: int, sds: float) -> None:
    assert power.blocks_for_half_width(0.01, (sds + 0.006) * 0.01) == n
    assert power.blocks_for_half_width(0.01, (sds - 0.006) * 0.01) > n


@pytest.mark.parametrize(("n", "sds"), [(6, 1.5), (10, 1.0), (17, 0.75), (36, 0.5)])
def test_the_margins_needed_for_equivalence_have_80_percent_power(n: int, sds: float) -> None:
    assert power.equivalence_power(n, 0.01, sds * 0.01) >= 0.79
    assert abs(power.blocks_for_equivalence(0.01, sds * 0.01) - n) <= 1


@pytest.mark.parametrize(
    ("contrasts", "blocks"), [(1, 6), (2, 7), (3, 7), (5, 8), (8, 9), (9, 9), (10, 9), (20, 10), (40, 11)]
)
def test_the_fewest_blocks_for_an_exact_test_after_holm_are_those_of_the_table(contrasts: int, blocks: int) -> None:
    assert power.minimum_blocks(contrasts) == blocks
    assert contrasts * smallest_p(blocks) <= 0.05 < contrasts * smallest_p(blocks - 1)


def test_power_agrees_with_the_noncentral_t() -> None:
    for n, effect in ((5, 0.01), (8, 0.012), (20, 0.005)):
        shift, critical = effect * np.sqrt(n) / 0.01, stats.t.ppf(0.975, n - 1)
        reference = stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)
        assert power.detection_power(n, 0.01, effect) == pytest.approx(reference, abs=1e-3)


def test_power_is_what_simulation_finds() -> None:
    d = np.random.default_rng(2).normal(0.012, 0.01, (20_000, 8))
    t = d.mean(axis=1) / d.std(axis=1, ddof=1) * np.sqrt(8)
    assert np.mean(np.abs(t) > stats.t.ppf(0.975, 7)) == pytest.approx(power.detection_power(8, 0.01, 0.012), abs=0.01)


def test_the_fewest_blocks_are_enough_and_one_fewer_is_not() -> None:
    n = power.blocks_for_detection(0.02, 0.02)
    assert power.detection_power(n, 0.02, 0.02) >= 0.8 > power.detection_power(n - 1, 0.02, 0.02)


def test_a_plan_is_the_largest_of_what_its_parts_need() -> None:
    plan = power.plan(0.014, 0.02, contrasts=5)
    assert plan.blocks == max(plan.detection, plan.equivalence, plan.exactness) == 8
    assert power.plan(0.0, 0.02).blocks == 6


def test_hopeless_noise_is_answered_with_the_bound_and_not_with_a_hang() -> None:
    assert power.blocks_for_detection(10.0, 0.001) == power.MOST_BLOCKS


def test_the_internal_pilot_raises_the_number_of_blocks_and_never_lowers_it() -> None:
    quiet = power.internal_pilot(sd_identical=0.005, sd_residual=0.004, margin=0.02, contrasts=1, planned=8)
    noisy = power.internal_pilot(sd_identical=0.01, sd_residual=0.03, margin=0.02, contrasts=1, planned=8)
    assert quiet == 8
    assert noisy == power.plan(0.03, 0.02).blocks > 8


def test_one_block_detects_nothing_and_no_noise_hides_nothing() -> None:
    assert power.detectable_effect(1, 0.01) is None
    assert power.detectable_effect(8, 0.0) == 0.0


def test_nonsense_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="sd must be at least 0"):
        power.blocks_for_detection(-0.01, 0.02)
    with pytest.raises(BugError, match="at least one contrast"):
        power.minimum_blocks(0)
