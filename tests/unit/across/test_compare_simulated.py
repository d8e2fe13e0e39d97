"""What a comparison of two studies promises, on sessions whose truth is known.

Seeded; the bounds allow two standard errors of the number of pairs (tests/support/simulated.py).
"""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.across.compare import compare_studies
from mydyno.across.saved import SavedStudy
from mydyno.model.definition.plan import SIX
from mydyno.model.stored.comparison import Comparison, EffectDifference
from tests.support import first_in_gate
from tests.support.fake_sessions import DRIFTS, normal, sessions
from tests.support.saved_studies import experiment, saved, values
from tests.support.simulated import at_most, simulated

pytestmark = pytest.mark.slow

Logs = NDArray[np.float64]


def heavy_tails(random: np.random.Generator, shape: tuple[int, ...]) -> Logs:
    return 0.01 * random.standard_t(3, shape)


def session(host: str, random: np.random.Generator, blocks: int, noise: float) -> Logs:
    """One session of control, copy and two arms at two steps, with effects of +5 % and 0."""
    drift = DRIFTS["linear drift" if host == "drift" else "AR(1)" if host == "AR(1)" else "no drift"]
    draw = heavy_tails if host == "t3" else normal
    starts = sessions(random, 1, blocks, 4, drift=drift, noise=draw)[0]
    logs = noise * (starts[..., None] + 0.7 * draw(random, (*starts.shape, 2)))
    return np.asarray(logs + np.array([0.0, 0.0, log(1.05), 0.0])[None, :, None])


def pair(first: Logs, second: Logs) -> Comparison:
    return compare_studies((saved(first, name="a", latency=True), saved(second, name="b", latency=True)))


def covers(one: EffectDifference, truth: float) -> bool:
    return (one.ci_low or 9.0) <= truth <= (one.ci_high or 0.0)


@pytest.mark.parametrize("host", first_in_gate(["AR(1)", "drift", "t3"]))
def test_sessions_with_the_same_effects_differ_in_at_most_5_percent_and_intervals_cover(host: str) -> None:
    """The second session has 6 blocks, twice the noise, and is 20 % slower; four contrasts."""
    random, count = np.random.default_rng(171), simulated(60, 3)
    wrong, together, alone = 0, 0, []
    for _ in range(count):
        found = pair(session(host, random, 9, 1.0), session(host, random, 6, 2.0) - 0.2)
        judged = [one for effect in found.effects for one in effect.differences if effect.primary]
        assert len(judged) == found.contrasts == 4
        wrong += any(one.verdict in ("higher", "lower") for one in judged)
        together += all(covers(one, 1.0) for one in judged)
        alone += [covers(one, 1.0) for effect in found.effects for one in effect.differences if not effect.primary]
    assert at_most(wrong / count, count)
    assert at_most(1.0 - together / count, count, 0.07)
    assert np.mean(alone) == pytest.approx(0.95, abs=0.035)


def test_a_difference_of_effects_is_found_with_its_size() -> None:
    random, found, sizes = np.random.default_rng(72), 0, []
    for _ in range(30):
        a, b = values(random, (0.02, 0.0)), values(random, (0.08, 0.0), noise=0.015)
        of_x = pair(a, b).effects[0].differences[0]
        found += of_x.verdict == "higher"
        sizes.append(log(of_x.ratio or 1.0))
    assert found >= 27
    assert np.mean(sizes) == pytest.approx(0.06, abs=0.005)


@pytest.mark.parametrize("truth", [-0.0202, 0.0198])
def test_a_difference_of_the_margin_is_called_equivalent_in_at_most_5_percent(truth: float) -> None:
    random, count, wrong = np.random.default_rng(73), simulated(150), 0
    one_arm = experiment(("A", "x"))
    for _ in range(count):
        a = saved(values(random, (0.03,), noise=0.004), one_arm, name="a")
        b = saved(values(random, (0.03 + truth,), noise=0.006), one_arm, name="b")
        wrong += compare_studies((a, b)).effects[0].differences[0].verdict == "equivalent"
    assert at_most(wrong / count, count)


def at_its_last_look(logs: Logs, name: str) -> SavedStudy:
    """The study as it ended: at the first look at which everything is decided, or the last one."""
    study = None
    for blocks, alpha in SIX.rates.items():
        study = saved(logs[:blocks], experiment(("A", "x")), name=name, alpha=alpha, look=blocks)
        if study.summary.effects[0].verdict in ("higher", "lower", "equivalent"):
            break
    assert study is not None
    return study


def test_studies_that_ended_early_because_of_their_effects_still_cover() -> None:
    """A true effect of 2 % that six blocks find only when they overstate it; the second session has less noise."""
    random, count, covered, wrong = np.random.default_rng(74), simulated(60), 0, 0
    for _ in range(count):
        a = at_its_last_look(values(random, (0.02,), blocks=40, noise=0.02), "a")
        b = at_its_last_look(values(random, (0.02,), blocks=40, noise=0.006), "b")
        found = compare_studies((a, b)).effects[0].differences[0]
        covered += covers(found, exp(0.0))
        wrong += found.verdict in ("higher", "lower")
    assert at_most(wrong / count, count)
    assert at_most(1.0 - covered / count, count)
