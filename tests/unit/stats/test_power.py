"""How many blocks: the figures of docs/concepts/statistics.md are reproduced, and the edges hold."""

import numpy as np
import pytest
from scipy import stats

from mydyno.errors import BugError
from mydyno.model.definition.plan import SIX
from mydyno.stats import power
from mydyno.stats.maxt import smallest_p


def test_the_projected_half_width_is_what_the_interval_of_a_study_has() -> None:
    """sd 1 % of ln(A′ / A): 0.75 of its variance for an arm against both copies, pooled over 4 servers of 6 blocks."""
    expected = stats.t.ppf(0.975, 5 * 3 + 1) * 0.01 * np.sqrt(0.75 / 6)
    assert power.projected_half_width(0.01, 6, 4) == pytest.approx(np.expm1(expected))
    wider = power.projected_half_width(0.01, 6, 4, contrasts=12, alpha=0.03125)
    assert wider is not None and wider > 1.4 * np.expm1(expected)
    assert power.projected_half_width(0.01, 1, 4) is None


@pytest.mark.parametrize(("n", "sds"), [(6, 1.5), (10, 1.0), (17, 0.75), (36, 0.5)])
def test_the_margins_needed_for_equivalence_have_80_percent_power(n: int, sds: float) -> None:
    assert power.equivalence_power(n, 0.01, sds * 0.01) >= 0.79
    assert abs(power.blocks_for_equivalence(0.01, sds * 0.01) - n) <= 1


def test_pooled_noise_needs_fewer_blocks_and_equivalence_at_least_six() -> None:
    assert power.blocks_for_detection(0.02, 0.03, freedom=4) < power.blocks_for_detection(0.02, 0.03)
    assert power.blocks_for_equivalence(0.0001, 0.02) == 6


@pytest.mark.parametrize(
    ("contrasts", "blocks"), [(1, 6), (2, 6), (3, 6), (5, 7), (8, 8), (10, 8), (20, 10), (40, 11), (120, 13)]
)
def test_with_one_control_more_contrasts_need_more_blocks(contrasts: int, blocks: int) -> None:
    assert power.minimum_blocks(contrasts, labels=2) == blocks
    assert smallest_p(blocks) <= 0.05


@pytest.mark.parametrize("contrasts", [1, 30, 120])
@pytest.mark.parametrize(("alpha", "labels", "blocks"), [(0.05, 3, 3), (0.03125, 3, 4), (0.004, 3, 6), (0.004, 4, 5)])
def test_with_two_copies_of_the_control_the_number_of_contrasts_does_not_matter(
    contrasts: int, alpha: float, labels: int, blocks: int
) -> None:
    assert power.minimum_blocks(contrasts, alpha, labels) == blocks


@pytest.mark.parametrize(("contrasts", "labels", "look"), [(1, 3, 6), (237, 3, 6), (1, 2, 6), (2, 2, 6), (30, 2, 16)])
def test_every_first_look_can_decide_where_the_control_has_a_copy(contrasts: int, labels: int, look: int) -> None:
    assert power.planned_exact_look(SIX, contrasts, 0, labels) == look


def test_the_plan_knows_the_number_of_contrasts() -> None:
    """Bonferroni over 12 contrasts needs more blocks for the same effect than one contrast does."""
    one, twelve = power.sample_size(0.02, 0.02), power.sample_size(0.02, 0.02, contrasts=12)
    assert twelve == power.blocks_for_detection(0.02, 0.02, alpha=0.05 / 12) >= 1.5 * one


def test_a_planned_look_meets_the_plan_at_its_own_error_rate() -> None:
    look = power.planned_look(SIX, 0.02, 0.02, 3, after=6, freedom=4)
    assert look is not None and look > 6
    assert power.detection_power(look, 0.02, 0.02, SIX.rates[look] / 3, 4) >= 0.8
    assert power.planned_look(SIX, 0.5, 0.02, 3, after=6) is None


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
    parts = power.blocks_for_detection(0.014, 0.02, alpha=0.01), power.blocks_for_equivalence(0.014, 0.02)
    assert power.sample_size(0.014, 0.02, contrasts=5) == max(*parts, power.minimum_blocks(5))
    assert power.sample_size(0.0, 0.02) == 6


def test_hopeless_noise_is_answered_with_the_bound_and_not_with_a_hang() -> None:
    assert power.blocks_for_detection(10.0, 0.001) == power.MOST_BLOCKS


def test_nonsense_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="sd must be at least 0"):
        power.blocks_for_detection(-0.01, 0.02)
    with pytest.raises(BugError, match="at least one contrast"):
        power.minimum_blocks(0)
    with pytest.raises(BugError, match="at least 2 servers"):
        power.projected_half_width(0.01, 6, 1)


@pytest.mark.parametrize(("blocks", "critical_p"), [(6, 0.05), (6, 0.004), (20, 0.036)])
def test_a_detectable_difference_is_found_in_four_of_five_studies(blocks: int, critical_p: float) -> None:
    """By simulation of t intervals, from the half-width that they have where the observed sd is the true one."""
    random, studies = np.random.default_rng(7), 20_000
    critical = stats.t.ppf(1 - critical_p / 2, blocks - 1)
    true = power.detectable(critical / np.sqrt(blocks), critical_p, blocks - 1)
    made = random.normal(true, 1.0, (studies, blocks))
    found = (made.mean(1) > critical * made.std(1, ddof=1) / np.sqrt(blocks)).mean()
    assert found == pytest.approx(0.8, abs=0.015)
