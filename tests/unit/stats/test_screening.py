"""Main effects of screening designs: simulated error rates, Lenth's method, half-normal quantiles, aliases."""

from __future__ import annotations

import numpy as np
import pytest

from mydyno.experiment_file.arms import rows_of
from mydyno.model.definition.experiment import ScreenSpec
from mydyno.stats.screening import aliases, half_normal_quantiles, main_effects, screened, strongest


def design(factors: int, **more: object) -> np.ndarray:
    levels = (0, 1, 2) if more.get("design") == "definitive" else (0, 1)
    spec = ScreenSpec.model_validate({"variables": {f"v{j}": levels for j in range(factors)}, **more})
    rows = rows_of(spec)
    return np.array(rows[1:] if spec.design == "definitive" else rows, dtype=np.float64)


@pytest.mark.parametrize("factors", [2, 3, 7, 11, 19, 23, 25, 31])
def test_designs_are_orthogonal_and_have_the_run_with_every_first_value(factors: int) -> None:
    x = design(factors)
    assert np.allclose(x.T @ x, len(x) * np.eye(factors))
    assert (x[0] == -1).all()
    assert len({tuple(row) for row in x}) == len(x) or factors < 3


def test_planted_effects_come_back_exactly_without_noise() -> None:
    x = design(7)
    logs = np.tile(0.15 * x[:, 2] - 0.05 * x[:, 5], (3, 1))
    assert np.allclose(main_effects(x, logs)[0], [0, 0, 0.3, 0, 0, -0.1, 0])


@pytest.mark.slow
@pytest.mark.parametrize(("factors", "blocks"), [(7, 3), (11, 6), (11, 1)])
def test_false_alarms_of_a_study_stay_within_the_declared_rate_and_effects_are_found(factors: int, blocks: int) -> None:
    random, x = np.random.default_rng(factors + blocks), design(factors)
    trials, alarms, found, covered = 150, 0, 0, 0
    truth = np.zeros(factors)
    truth[0], truth[3] = 0.3, -0.2
    for _ in range(trials):
        noise = random.normal(0, 0.05, (blocks, len(x)))
        alarms += any(one.active for one in screened(x, noise).effects)
        made = screened(x, noise + x @ truth / 2).effects
        found += made[0].active and made[3].active
        covered += all(abs(one.log_effect - t) <= (one.half or 0.0) for one, t in zip(made, truth, strict=True))
    assert alarms / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
    assert covered / trials >= 0.95 - 3 * (0.05 * 0.95 / trials) ** 0.5
    if blocks > 1:
        assert found / trials > 0.95


def test_the_strongest_active_effects_come_first() -> None:
    x = design(7)
    logs = np.tile(0.1 * x[:, 2] - 0.2 * x[:, 5], (3, 1)) + np.random.default_rng(1).normal(0, 0.01, (3, 8))
    assert strongest(screened(x, logs).effects, 3)[:2] == [5, 2]


def test_half_normal_quantiles_are_those_of_daniel() -> None:
    assert half_normal_quantiles(7) == pytest.approx([0.0895, 0.2719, 0.4652, 0.6745, 0.9104, 1.2419, 1.8027], abs=0.03)


def test_aliases_are_whole_in_eight_runs_partial_in_twelve_and_none_with_the_foldover() -> None:
    whole = aliases(design(7))
    assert all(len(mixed) == 3 and abs(mixed[0].share) == pytest.approx(1) for mixed in whole)
    partial = aliases(design(11))
    assert all(len(mixed) == 45 and abs(mixed[0].share) == pytest.approx(1 / 3) for mixed in partial)
    assert all(not mixed for mixed in aliases(design(7, foldover=True)))


def test_a_definitive_design_has_no_interaction_in_its_main_effects() -> None:
    x = design(6, design="definitive")
    assert len(x) in (13, 14)
    assert set(np.unique(x)) == {-1.0, 0.0, 1.0}
    assert np.abs(np.array([[alias.share for alias in mixed] for mixed in aliases(x) if mixed])).size == 0
