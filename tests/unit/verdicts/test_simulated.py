"""Whole decisions on made-up studies: a planted +3 % is found, and where there is nothing nothing is claimed."""

import numpy as np
import pytest

from mydyno.model.definition.plan import EARLY, interim_aimed_at
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.families import WEIGHT_OF_OTHERS
from mydyno.stats.contrast import LogBlock
from mydyno.stats.permutation import Exchange, joint_test, possible
from mydyno.verdicts import Family, Metric, Observation, decide_study
from mydyno.verdicts.decide import a_a_alarm
from tests.support import first_in_gate
from tests.support.fake_observations import decide, jemalloc, study
from tests.support.fake_sessions import DRIFTS, sessions
from tests.support.simulated import at_most, simulated

pytestmark = pytest.mark.slow


def counts(effects: list[EffectRecord]) -> dict[str, int]:
    found: dict[str, int] = {}
    for effect in effects:
        found[str(effect.verdict)] = found.get(str(effect.verdict), 0) + 1
    return found


def test_a_planted_3_percent_is_found_in_most_studies_with_ordinary_noise() -> None:
    """Runs with an sd of 1 % (blocks 1.4 %), 8 blocks: 80 % power begins at 1.6 %."""
    count = simulated(150)
    found = counts([jemalloc(study(0.03, run_sd=0.01, seed=seed)) for seed in range(count)])
    assert found.get("higher", 0) >= 0.85 * count
    assert found.get("lower", 0) == 0


def test_without_an_effect_almost_no_study_claims_one_and_quiet_ones_show_equivalence() -> None:
    count = simulated(200)
    found = counts([jemalloc(study(0.0, run_sd=0.007, seed=seed)) for seed in range(count)])
    assert at_most((found.get("higher", 0) + found.get("lower", 0)) / count, count, 0.03)
    assert found.get("equivalent", 0) >= 0.7 * count


def test_an_arm_that_is_run_twice_has_narrower_intervals_that_hold_the_truth() -> None:
    """One treated arm, its true effect 1 %; X′ has 4/3 of the slices' noise, as four lanes share the time of three."""
    random, count = np.random.default_rng(24), simulated(400, 4)
    widths: dict[int, list[float]] = {1: [], 2: []}
    outside = dict.fromkeys(widths, 0)
    for copies, found in widths.items():
        lanes = [("glibc", 1), ("glibc", 2), *(("jemalloc", copy) for copy in range(1, copies + 1))]
        sd = 0.01 * np.sqrt(len(lanes) / 3)
        for _ in range(count):
            logs = random.normal(0.0, 0.05, (6, 1)) + random.normal(0.0, sd, (6, len(lanes)))
            observations = tuple(
                Observation(block, arm, float(np.exp(logs[block, column])) * (1.01 if arm == "jemalloc" else 1.0), copy)
                for block in range(6)
                for column, (arm, copy) in enumerate(lanes)
            )
            (effect,) = decide(Family(Metric("qps"), "glibc", ("jemalloc",), {"s": observations}, 0.02))
            assert effect.ci_low is not None and effect.ci_high is not None
            found.append(np.log(effect.ci_high / effect.ci_low) / 2)
            outside[copies] += not effect.ci_low <= 1.01 <= effect.ci_high
    assert all(at_most(missed / count, count) for missed in outside.values()), outside
    assert np.median(widths[2]) < 0.98 * np.median(widths[1]), "0.91 in 600 studies"


def test_identical_copies_raise_the_alarm_in_about_5_percent_of_studies() -> None:
    count = simulated(300, 3)
    effects = [jemalloc(study(0.03, seed=seed, blocks=8)) for seed in range(count)]
    alarms = [effect for effect in effects if effect.details.alarm]
    assert len(alarms) >= 0.01 * count
    assert at_most(len(alarms) / count, count)


def test_the_alarm_of_six_blocks_finds_copies_that_differ_and_keeps_its_rate() -> None:
    """Three metrics; A′ is above A in the first, by twice the sd of a block. With sign-flips it is 60 % of studies."""
    random, count, raised = np.random.default_rng(37), simulated(900, 3), {0.0: 0, 0.02: 0}
    for apart in raised:
        for noise in random.normal(0.0, 0.01, (count, 3, 6)):
            noise[0] += apart
            families = [
                Family(Metric(f"m{number}"), "glibc", ("glibc", "jemalloc"), {
                    "s": tuple(
                        Observation(block, "glibc", float(np.exp((copy - 1) * of[block])), copy)
                        for block in range(6) for copy in (1, 2)
                    )
                }, 0.02)
                for number, of in enumerate(noise)
            ]  # fmt: skip
            raised[apart] += a_a_alarm(families, 0.036, 1) is not None
    assert at_most(raised[0.0] / count, count, 0.036)
    assert raised[0.02] >= 0.68 * count


@pytest.mark.parametrize("drift", first_in_gate(["AR(1)", *sorted(set(DRIFTS) - {"AR(1)"})], 2))
def test_a_sweep_without_effects_on_a_drifting_host_claims_one_in_at_most_6_percent(drift: str) -> None:
    """Two arms at three levels; a study counts as wrong if a single one of its six sentences claims a difference."""
    random, count, wrong = np.random.default_rng(21), simulated(150, 2), 0
    starts = sessions(random, count, 8, 4, drift=DRIFTS[drift])
    logs = starts[..., None] + random.normal(0.0, 0.01, (*starts.shape, 3))
    cells = (("glibc", 1), ("glibc", 2), ("jemalloc", 1), ("tcmalloc", 1))
    for session in np.exp(logs):
        steps = {
            f"s{level}": tuple(
                Observation(block, arm, float(session[block, column, level]), copy)
                for block in range(8)
                for column, (arm, copy) in enumerate(cells)
            )
            for level in range(3)
        }
        effects = decide(Family(Metric("qps"), "glibc", ("jemalloc", "tcmalloc"), steps, 0.02))
        wrong += any(effect.verdict in ("higher", "lower") for effect in effects)
    assert at_most(wrong / count, count, 0.03)


def test_an_arm_is_compared_with_the_mean_of_both_controls_and_skewed_noise_does_not_fool_the_permutation() -> None:
    """Against a mean of two, skewed noise stays skewed: a sign-flip of d is wrong, the permutation of labels is not."""
    random = np.random.default_rng(22)
    logs = random.normal(0.0, 1.0, (4000, 4, 3)) ** 2
    sessions_of = [
        {block: possible(LogBlock((x,), (a, copy))) for block, (a, copy, x) in enumerate(session.tolist())}
        for session in logs
    ]
    p = np.array([joint_test([Exchange(of, dict.fromkeys(of, 1.0))]).adjusted[0] for of in sessions_of])
    assert (p <= 4 / 81 + 1e-9).mean() == pytest.approx(4 / 81, abs=0.014)
    family = study(0.03)
    observed = {(o.block, o.arm, o.copy): np.log(o.value or 0.0) for found in family.steps.values() for o in found}
    for block, value in jemalloc(family).details.log_ratios.items():
        control = (observed[block, "glibc", 1] + observed[block, "glibc", 2]) / 2
        assert value == pytest.approx(observed[block, "jemalloc", 1] - control)


def test_two_primary_metrics_of_identical_arms_claim_a_difference_in_at_most_the_looks_share_of_studies() -> None:
    """Operations per second with noise of 10 %, and the share of keys found: 1, but for a few misses of some slices."""
    random, count, wrong = np.random.default_rng(23), simulated(300), 0
    alpha = interim_aimed_at(EARLY).rates[EARLY]
    for _ in range(count):
        families = []
        for metric in ("ops", "kv_hit_pct"):
            steps: dict[str, tuple[Observation, ...]] = {}
            for step in ("kv_get", "kv_mixed"):
                noise = random.normal(0.0, 0.1, 16)
                if metric == "kv_hit_pct":
                    noise = np.log1p(-0.001 * (random.random(16) < 0.2))
                steps[step] = tuple(
                    Observation(block, arm, float(np.exp(noise[4 * block + lane])), copy)
                    for block in range(4)
                    for lane, (arm, copy) in enumerate(
                        (("memcached", 1), ("memcached", 2), ("caching", 1), ("roomy", 1))
                    )
                )
            families.append(Family(Metric(metric), "memcached", ("caching", "roomy"), steps, 0.03))
        wrong += any(effect.verdict in ("higher", "lower") for effect in decide_study(families, alpha))
    assert at_most(wrong / count, count, alpha)


def test_the_first_metric_has_narrower_intervals_and_all_together_keep_the_rate() -> None:
    """Three arms and three metrics, of which two are correlated, without effects; the first has weight 1."""
    random, count, wrong, missed = np.random.default_rng(29), simulated(600), 0, 0
    ratios: dict[str, list[float]] = {}
    arms = ("jemalloc", "tcmalloc", "mimalloc")
    lanes = (("glibc", 1), ("glibc", 2), *((arm, 1) for arm in arms))
    for _ in range(count):
        noise = random.normal(0.0, 0.02, (3, 6, len(lanes)))
        noise[1] = -0.9 * noise[0] + 0.4 * noise[1]
        observed = [
            tuple(
                Observation(block, arm, float(np.exp(of[block, lane])), copy)
                for block in range(6)
                for lane, (arm, copy) in enumerate(lanes)
            )
            for of in noise
        ]
        weighted, equal = (
            decide_study(
                [
                    Family(Metric(metric), "glibc", arms, {"oltp": of}, 0.02, weight=weight)
                    for metric, weight, of in zip(("qps", "cpu", "rss"), weights, observed, strict=True)
                ],
                0.036,
            )
            for weights in ((1.0, WEIGHT_OF_OTHERS, WEIGHT_OF_OTHERS), (1.0, 1.0, 1.0))
        )
        wrong += any(effect.verdict in ("higher", "lower") for effect in weighted)
        missed += any(not (effect.ci_low or 0.0) <= 1.0 <= (effect.ci_high or 0.0) for effect in weighted)
        for one, other in zip(weighted, equal, strict=True):
            ratios.setdefault(one.metric, []).append((one.details.half_width or 0) / (other.details.half_width or 1))
    assert at_most(wrong / count, count, 0.036)
    assert at_most(missed / count, count, 0.036)
    assert 0.85 < np.median(ratios["qps"]) < 0.95
    assert 1.02 < np.median(ratios["rss"]) < 1.16
