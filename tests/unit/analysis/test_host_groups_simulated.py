# mypy: disable-error-code="arg-type"
"""What verdicts and claims about hosts promise on studies over several host groups whose truth is known.

Through the program: runs → families → decide_study → hosts_effects. Seeded, as in test_decide_simulated.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.analysis.host_groups import hosts_effects
from mydyno.model.stored.summary import EffectRecord, HostsEffect, block_groups
from mydyno.results.families import families
from mydyno.verdicts import decide_study
from tests.support import first_in_gate
from tests.support.host_groups import Fleet
from tests.support.simulated import at_most, simulated

pytestmark = pytest.mark.slow

QUIET = 0.01


def through_the_program(
    fleet: Fleet, random: np.random.Generator, effects: NDArray[np.float64]
) -> tuple[list[EffectRecord], tuple[HostsEffect, ...]]:
    """The effects of one study, and the same over its hosts."""
    runs = fleet.runs(random, effects)
    decided = decide_study(list(families(fleet.experiment, runs, ("qps",))))
    return decided, hosts_effects(decided, block_groups(runs), 0.05, lambda metric: 0.02)


@dataclass
class Found:
    """Counts over studies."""

    studies: int = 0
    wrong: int = 0
    """With a difference claimed of these hosts whose mean lies on the other side, or is nothing."""
    wrong_of_others: int = 0
    """With anything but equivalence claimed of hosts like these, or equivalence where their spread forbids it."""
    differ: int = 0
    covered: list[bool] = field(default_factory=list)
    """By the interval without adjustment."""
    together: int = 0
    covered_others: list[bool] = field(default_factory=list)


def simulate(fleet: Fleet, studies: int, seed: int) -> Found:
    """Studies in which the mean effect over all hosts there could be is nothing."""
    random, found = np.random.default_rng(seed), Found()
    for _ in range(studies):
        effects = fleet.effects(random)
        means = effects.mean(axis=0)
        decided, hosts = through_the_program(fleet, random, effects)
        found.studies += 1
        found.wrong += any(
            (one.verdict == "higher" and mean <= 0.0) or (one.verdict == "lower" and mean >= 0.0)
            for one, mean in zip(decided, means, strict=True)
        )
        directions = {one.arm: one.verdict for one in decided}
        found.wrong_of_others += any(
            one.holds_on == "hosts like these" and directions[one.arm] in ("higher", "lower") for one in hosts
        )
        found.differ += any(one.differs for one in hosts)
        ratios = np.exp(means)
        found.covered += [
            (one.details.single_low or 9.0) <= ratio <= (one.details.single_high or 0.0)
            for one, ratio in zip(decided, ratios, strict=True)
        ]
        found.together += all(
            (one.ci_low or 9.0) <= ratio <= (one.ci_high or 0.0) for one, ratio in zip(decided, ratios, strict=True)
        )
        found.covered_others.append(
            all(one.hosts_low is None or one.hosts_low <= 1.0 <= (one.hosts_high or 0.0) for one in hosts)
        )
    return found


@pytest.mark.parametrize(
    ("blocks", "noise"),
    first_in_gate(
        [
            ((4, 3, 3), (QUIET, QUIET, 2 * QUIET)),
            ((6, 2), (QUIET, 3 * QUIET)),
            ((4, 4), (QUIET, QUIET)),
            ((5, 4, 1), (QUIET, QUIET, 3 * QUIET)),
            ((2, 2, 2, 2, 2), (QUIET, 2 * QUIET, QUIET, 3 * QUIET, QUIET)),
            ((1, 1, 1, 1, 1, 1, 1), tuple(QUIET * factor for factor in (1, 2, 1, 3, 1, 1, 2))),
        ],
        2,
    ),
)
def test_hosts_of_different_speed_and_noise_raise_no_false_alarm(
    blocks: tuple[int, ...], noise: tuple[float, ...]
) -> None:
    """No effect anywhere: verdicts, claims about other hosts and differences between hosts are all false alarms."""
    count = simulated(100)
    found = simulate(Fleet(blocks, noise), count, seed=51)
    assert at_most(found.wrong / count, count)
    assert at_most(found.wrong_of_others / count, count)
    assert np.mean(found.covered) >= 0.93
    assert at_most(1.0 - found.together / count, count, 0.06)
    assert at_most(found.differ / count, count, 0.05 if blocks != (6, 2) else 0.09)


@pytest.mark.parametrize("blocks", [(6, 5, 3, 2, 2), pytest.param((3, 3, 3, 3, 3), marks=pytest.mark.exhaustive)])
def test_effects_that_differ_between_five_hosts_with_mean_zero_are_not_claimed_of_others(
    blocks: tuple[int, ...],
) -> None:
    """About these hosts there is something to claim, with the right sign; about other hosts there is nothing."""
    count = simulated(120, 1)
    found = simulate(Fleet(blocks, (QUIET, QUIET, 2 * QUIET, QUIET, 2 * QUIET), between=0.04), count, seed=52)
    assert at_most(found.wrong_of_others / count, count)
    assert at_most(1.0 - np.mean(found.covered_others), count)
    assert at_most(found.wrong / count, count)
    assert np.mean(found.covered) >= 0.93
    assert found.differ / count > 0.85, "not under an A/A alarm"


def test_an_effect_that_five_hosts_share_is_claimed_of_hosts_like_these() -> None:
    random, fleet = np.random.default_rng(53), Fleet((3, 3, 3, 3, 3), (QUIET,) * 5, between=0.01)
    claimed = 0
    for _ in range(30):
        effects = fleet.effects(random) + np.log([1.10, 1.0, 0.90])
        _, hosts = through_the_program(fleet, random, effects)
        of_arm = {one.arm: one.holds_on for one in hosts}
        claimed += of_arm["jemalloc"] == of_arm["mimalloc"] == "hosts like these"
    assert claimed >= 27


def test_the_order_in_which_hosts_finish_changes_no_estimate() -> None:
    """The mean over hosts is the same whether one makes two blocks or eight."""
    effects = np.log(np.array([[1.1, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    ratios = []
    for blocks in ((8, 2), (5, 5), (2, 8)):
        fleet = replace(Fleet(blocks, (1e-4, 1e-4)), between=0.0)
        decided, _ = through_the_program(fleet, np.random.default_rng(54), effects)
        ratios.append(decided[0].ratio)
    assert ratios == [pytest.approx(np.sqrt(1.1), rel=1e-3)] * 3
