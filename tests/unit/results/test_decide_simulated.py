# mypy: disable-error-code="arg-type"
"""What decide_study promises, on studies whose truth is known: family errors, coverage, power, failures, equivalence.

Seeded, so a rate is a fact; the bounds allow two standard errors of the number of studies (tests/support/simulated.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from mydyno.analysis.published.figures import AGREEMENT, Agreement, compare
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.definition.plan import EARLY, INTERIM_BLOCKS, SIX, interim_aimed_at
from mydyno.model.stored.reasons import ArmFailure
from mydyno.model.stored.summary import EffectRecord, RunSummary
from mydyno.results.families import families
from mydyno.results.values.interleaved import interleaved_values
from mydyno.verdicts import Family, Metric, Observation, decide_study, decided
from tests.support import first_in_gate
from tests.support.fake_script import experiment
from tests.support.fake_sessions import DRIFTS, Random, normal, sessions
from tests.support.fake_slices import Host, Simulation
from tests.support.simulated import at_most, simulated

pytestmark = pytest.mark.slow

SERVERS = (("A", 1), ("A", 2), ("x", 1), ("y", 1), ("z", 1))
Logs = NDArray[np.float64]
"""Log values: blocks × servers × (metric, step)."""


def families_of(
    logs: Logs, metrics: int = 2, margin: float = 0.02, servers: Sequence[tuple[str, int]] = SERVERS
) -> list[Family]:
    """Families of `metrics` metrics whose columns are its steps."""
    servers = servers[: logs.shape[1]]
    each = logs.shape[2] // metrics
    return [
        Family(
            Metric(f"metric_{metric}", "1/s", "higher"),
            "A",
            tuple(dict.fromkeys(arm for arm, _ in servers)),
            {
                f"s{step}": tuple(
                    Observation(block, arm, float(np.exp(logs[block, place, metric * each + step])), copy)
                    for block in range(logs.shape[0])
                    for place, (arm, copy) in enumerate(servers)
                )
                for step in range(each)
            },
            margin,
        )
        for metric in range(metrics)
    ]


def claims(effects: list[EffectRecord]) -> bool:
    """Whether any contrast is called different."""
    return any(effect.verdict in ("higher", "lower") for effect in effects)


def heavy_tails(random: Random, shape: tuple[int, ...]) -> Logs:
    return 0.01 * random.standard_t(3, shape)


def skewed(random: Random, shape: tuple[int, ...]) -> Logs:
    return 0.01 * (random.standard_exponential(shape) - 1.0)


def wandering(random: Random, count: int, runs: int) -> Logs:
    """What a host that wanders by 15 % over a minute, with episodes of half speed, adds to runs of a minute each."""
    path = np.exp(Host().log_speed(random, count * runs * 60.0, grid_s=1.0))[: count * runs * 60]
    return np.asarray(np.log(path.reshape(count, runs, 60).mean(axis=2)))


HOSTS: dict[str, tuple[Callable[[Random, int, int], Logs], Callable[[Random, tuple[int, ...]], Logs]]] = {
    "drift": (DRIFTS["linear drift"], normal),
    "AR(1)": (DRIFTS["AR(1)"], normal),
    "t3": (DRIFTS["no drift"], heavy_tails),
    "wandering": (wandering, normal),
}


def studies(host: str, count: int, blocks: int, servers: int, columns: int, seed: int = 31) -> Logs:
    """Studies without any effect; columns (steps and metrics) of one start share its noise."""
    random = np.random.default_rng(seed)
    drift, noise = HOSTS[host]
    starts = sessions(random, count, blocks, servers, drift=drift, noise=noise)
    return np.asarray(starts[..., None] + 0.7 * noise(random, (*starts.shape, columns)))


@pytest.mark.parametrize("host", first_in_gate(["AR(1)", "t3", "drift", "wandering"]))
@pytest.mark.parametrize("blocks", [4, 8])
def test_a_study_without_effects_claims_one_in_at_most_5_percent_and_its_intervals_cover(
    host: str, blocks: int
) -> None:
    """Two metrics at two steps, two or three arms: 8 or 12 contrasts; coverage is that of all of them together, and a
    published figure that is true is refuted no more often.
    """
    count, wrong, together, refuted, alone = simulated(120, 3), 0, 0, 0, []
    for logs in studies(host, count, blocks, 4 if blocks == 8 else 5, 4):
        effects = decide_study(families_of(logs))
        wrong += claims(effects)
        together += all((e.ci_low or 9.0) <= 1.0 <= (e.ci_high or 0.0) for e in effects)
        refuted += any(AGREEMENT[compare(1.0, effect).because] == Agreement.DISAGREES for effect in effects)
        alone += [(e.details.single_low or 9.0) <= 1.0 <= (e.details.single_high or 0.0) for e in effects]
    assert at_most(wrong / count, count)
    assert at_most(1.0 - together / count, count, 0.07)
    assert at_most(refuted / count, count, 0.07)
    assert np.mean(alone) >= 0.93


def many(random: Random, host: str, blocks: int, arms: int, steps: int, controls: bool = False) -> list[Family]:
    """Two metrics of many arms at many steps, without effects; `controls`: an own control without a copy is added."""
    drift, noise = HOSTS[host] if host in HOSTS else (DRIFTS["no drift"], skewed)
    starts = sessions(random, 1, blocks, arms + 2, drift=drift, noise=noise)[0]
    logs = starts[..., None] + 0.7 * noise(random, (*starts.shape, 2 * steps))
    names = tuple(f"arm{number}" for number in range(arms))
    found = families_of(logs, 2, servers=(("A", 1), ("A", 2), *((name, 1) for name in names)))
    if not controls:
        return found
    base = found[0]
    of_pair = {step: tuple(o for o in of if o.arm in names[:3]) for step, of in base.steps.items()}
    return [
        *found,
        replace(
            base,
            control=names[0],
            arms=names[:3],
            steps=of_pair,
            a_a=replace(
                base, arms=("A",), steps={step: tuple(o for o in of if o.arm == "A") for step, of in base.steps.items()}
            ),
        ),
    ]


def without(found: list[Family], block: int, arm: str) -> list[Family]:
    """The same without the first copy of an arm in one block."""
    return [
        replace(family, steps={
            step: tuple(replace(o, value=None) if (o.block, o.arm, o.copy) == (block, arm, 1) else o for o in of)
            for step, of in family.steps.items()
        })
        for family in found
    ]  # fmt: skip


def planted(found: list[Family], effects: dict[str, float]) -> list[Family]:
    """The same with these effects of arms (log ratios), everywhere."""
    return [
        replace(family, steps={
            step: tuple(replace(o, value=(o.value or 0.0) * float(np.exp(effects.get(o.arm, 0.0)))) for o in of)
            for step, of in family.steps.items()
        })
        for family in found
    ]  # fmt: skip


@pytest.mark.parametrize("host", first_in_gate(["skewed", "wandering", "drift", "AR(1)", "t3"]))
@pytest.mark.parametrize(("arms", "steps", "count"), first_in_gate([(5, 3, 40), (10, 6, 10)]))
def test_a_first_look_at_many_contrasts_claims_nothing_where_there_is_nothing(
    host: str, arms: int, steps: int, count: int
) -> None:
    """30 and 120 contrasts of six blocks, the study's error rate 3.125 %; every third study lost runs."""
    random, wrong, together = np.random.default_rng(41), 0, 0
    count = simulated(count)
    for number in range(count):
        found = many(random, host, 6, arms, steps, controls=number % 2 == 0)
        if number % 3 == 0:
            found = without(found, int(random.integers(6)), str(random.choice(["A", "arm0"])))
        effects = decide_study(found, SIX.rates[6], SIX)
        wrong += claims(effects)
        together += all((e.ci_low or 9.0) <= 1.0 <= (e.ci_high or 0.0) for e in effects)
    assert at_most(wrong / count, count, 0.03125)
    assert at_most(1.0 - together / count, count, 0.05)


def test_huge_effects_of_some_arms_hide_no_others_and_interval_and_test_agree() -> None:
    """30 contrasts, six blocks: × 0.06 and × 0.3 beside −9 % at an sd of 1.7 %; two arms do nothing."""
    random, count, found, differ, wrong = np.random.default_rng(7), simulated(20, 2), [], [], 0
    for _ in range(count):
        study = many(random, "AR(1)", 6, 5, 3, controls=True)
        effects = decide_study(planted(study, {"arm0": -2.8, "arm1": -1.2, "arm2": -0.09}), SIX.rates[6], SIX)
        if effects[0].details.alarm:
            continue
        huge = [e for e in effects if e.control == "A" and e.arm in ("arm0", "arm1")]
        assert {(str(e.verdict), e.p is not None and e.p < 0.01) for e in huge} == {("lower", True)}
        against_arm = [e for e in effects if e.control == "arm0"]
        assert {str(e.verdict) for e in against_arm} == {"higher"}
        small = [e for e in effects if e.control == "A" and e.arm == "arm2"]
        found += [e.verdict == "lower" for e in small]
        wrong += any(e.verdict in ("higher", "lower") for e in effects if e.arm in ("arm3", "arm4"))
        differ += [
            ((e.ci_low or 0.0) > 1.0 or (e.ci_high or 9.0) < 1.0) != ((e.p or 1.0) <= SIX.rates[6]) for e in effects
        ]
    assert len(found) >= 4 * count and np.mean(found) >= 0.9
    assert at_most(wrong / count, count, 0.03125)
    assert np.mean(differ) <= 0.01


def at_its_last_look(logs: Logs, aim: int = 6) -> list[EffectRecord]:
    """The effects at the look at which the study ends: everything is decided, or it is the last one."""
    effects: list[EffectRecord] = []
    looks = interim_aimed_at(aim)
    for blocks, alpha in looks.rates.items():
        effects = decide_study(families_of(logs[:blocks], 1), alpha, looks)
        if claims(effects) or decided(effects):
            break
    return effects


def test_the_looks_together_claim_an_effect_in_at_most_5_percent() -> None:
    """Two arms at one step on each of the four hosts, aimed at each of the looks; a study ends at the first claim."""
    ended = [
        at_its_last_look(logs, aim)
        for host in HOSTS
        for logs, aim in zip(studies(host, simulated(24, 6), 40, 4, 1), cycle((EARLY, *INTERIM_BLOCKS)), strict=False)
    ]
    assert at_most(sum(map(claims, ended)) / len(ended), len(ended))


def test_the_looks_together_call_a_difference_of_the_margin_equivalent_in_at_most_5_percent() -> None:
    wrong = count = 0
    for host in HOSTS:
        for logs in studies(host, simulated(25, 6), 40, 3, 1, seed=32):
            logs[:, 2:] += np.log(1.02)
            count += 1
            wrong += at_its_last_look(logs)[0].verdict == "equivalent"
    assert at_most(wrong / count, count)


def test_pooled_intervals_are_narrower_than_pairs_with_one_control(capsys: pytest.CaptureFixture[str]) -> None:
    """At 6 blocks with three arms; what was computed before: the paired t against A alone."""
    pooled, pairs, found, count = [], [], 0, simulated(150)
    for logs in studies("AR(1)", count, 6, 5, 1):
        logs[:, 2:] += np.log(1.04)
        effect = decide_study(families_of(logs, 1))[0]
        found += effect.verdict == "higher"
        pooled.append(np.log((effect.details.single_high or 0.0) / (effect.details.single_low or 1.0)) / 2)
        d = logs[:, 2, 0] - logs[:, 0, 0]
        pairs.append(stats.t.ppf(0.975, 5) * d.std(ddof=1) / sqrt(6))
    gain = float(np.median(pairs) / np.median(pooled))
    with capsys.disabled():
        print(f"\npooled against pairs, 6 blocks: {gain:.2f} × narrower; +4 % found in {found} of {count} studies")
    assert gain > 1.2


@pytest.mark.parametrize("failed", [1, 4])
def test_an_arm_that_crashes_in_some_blocks_is_never_higher(failed: int) -> None:
    """It serves 10 % more where it does not crash."""
    random = np.random.default_rng(33)
    for logs in studies("AR(1)", simulated(40), 10, 4, 2):
        logs[:, 2] += np.log(1.1)
        dead = set(random.choice(10, failed, replace=False).tolist())
        crashed = [
            replace(
                family,
                steps={
                    step: tuple(
                        replace(o, value=None, failed="crashed") if o.arm == "x" and o.block in dead else o for o in of
                    )
                    for step, of in family.steps.items()
                },
            )
            for family in families_of(logs)
        ]
        for effect in decide_study(crashed):
            if effect.arm == "x":
                assert (effect.verdict, effect.ratio, effect.ci_low) == ("not_measurable", None, None)
                assert effect.details.failure == ArmFailure(who="arm", blocks=failed, tried=10, why={"crashed": failed})


@pytest.mark.parametrize("truth", first_in_gate([0.98, 1.02]))
@pytest.mark.parametrize("host", first_in_gate(["drift", "t3"]))
def test_a_difference_of_the_margin_is_called_equivalent_in_at_most_5_percent(truth: float, host: str) -> None:
    count, wrong = simulated(200), 0
    for logs in studies(host, count, 8, 4, 1):
        logs[:, 2] = logs[:, 2] * 0.5 + logs[:, :2].mean(axis=1) * 0.5 + np.log(truth)
        wrong += decide_study(families_of(logs, 1))[0].verdict == "equivalent"
    assert at_most(wrong / count, count)


def test_an_arm_that_stalls_in_a_third_of_its_runs_is_rarely_called_equivalent() -> None:
    """Runs at 78 % in 30 % of blocks. With six blocks none may stall (12 %): what never happened cannot be seen."""
    random, wrong, count = np.random.default_rng(34), 0, simulated(150)
    for logs in 0.3 * studies("AR(1)", count, 6, 4, 1):
        logs[:, 2, 0] += np.log(0.78) * (random.random(6) < 0.3)
        wrong += decide_study(families_of(logs, 1))[0].verdict == "equivalent"
    assert wrong / count <= 0.17


SLICED = Simulation(arms=("glibc", "jemalloc", "tcmalloc"), cycles=6)


def through_the_program(simulation: Simulation, seed: int) -> list[EffectRecord]:
    """Slices → values of runs → families → effects, as summarise does it."""
    asked = experiment(simulation.arms, steps=(StepSpec(workload="oltp_read_only", connections=(4,)),))
    found = list(simulation.slices(seed))
    values = interleaved_values(asked, found)
    failed = {(one.block, one.arm, one.copy_number): {one.step: one.failed} for one in found if one.failed}
    runs = [
        RunSummary(
            block=block, position=1, arm=arm, copy=copy, valid=True, folder="",
            values=values.adjusted.get((block, arm, copy), {}),
            unadjusted=values.unadjusted.get((block, arm, copy), {}),
            failures=failed.get((block, arm, copy), {}),
        )
        for block in range(1, simulation.blocks + 1)
        for arm, copy in simulation.servers
    ]  # fmt: skip
    return decide_study(list(families(asked, runs, ("qps", "server_cpu_us_per_query"))))


def test_slices_on_a_wandering_host_claim_nothing_where_there_is_nothing() -> None:
    """4 contrasts on a host that wanders by 15 % over a minute, with episodes of half speed."""
    count, wrong, covered = simulated(100, 1), 0, []
    for seed in range(count):
        effects = through_the_program(SLICED, seed)
        assert [e.primary for e in effects] == [True] * 4
        wrong += claims(effects)
        covered += [(e.details.single_low or 9.0) <= 1.0 <= (e.details.single_high or 0.0) for e in effects]
    assert at_most(wrong / count, count)
    assert np.mean(covered) >= 0.93


def test_slices_find_what_was_planted_with_the_right_size() -> None:
    planted = replace(
        SLICED, effects={"jemalloc": 0.08, "tcmalloc": -0.08}, costs={"jemalloc": -0.06, "tcmalloc": 0.06}, cycles=10
    )
    found: dict[tuple[str, str], list[EffectRecord]] = {}
    for seed in range(20):
        for effect in through_the_program(planted, seed):
            found.setdefault((effect.metric, effect.arm), []).append(effect)
    for (metric, arm), effects in found.items():
        truth = (planted.effects if metric == "qps" else planted.costs)[arm]
        verdicts = [effect.verdict for effect in effects]
        assert verdicts.count("higher" if truth > 0 else "lower") >= 14, (metric, arm)
        assert verdicts.count("lower" if truth > 0 else "higher") == 0
        assert np.mean([(e.ratio or 0.0) - 1.0 for e in effects]) == pytest.approx(truth, abs=0.012)


REACTIONS: dict[str, dict[str, dict[str, float]]] = {
    "client +1 %": {"client_costs": {"jemalloc": 0.01}},
    "client +2 %": {"client_costs": {"jemalloc": 0.02, "tcmalloc": 0.02}},
    "client +5 %": {"client_costs": {"jemalloc": 0.05}},
    "client +20 %": {"client_costs": {"tcmalloc": 0.2}},
    "other programs run with one arm alone": {"strangers": {"jemalloc": 0.15}},
    "a server that waits": {"waits": {"jemalloc": 0.4}},
    "strangers take half of what a waiting server leaves": {"waits": {"jemalloc": 0.4}, "reacting": 0.5},
}
"""What an arm does to its load program and to other programs, with no effect on what it serves."""


@pytest.mark.parametrize("plant", first_in_gate(list(REACTIONS)))
def test_what_an_arm_changes_around_it_is_no_effect_of_its_server(plant: str) -> None:
    """On a host that wanders by 5 %: the load program's CPU time is what shows its speed best."""
    simulation = replace(SLICED, host=Host(wander_sd=0.05, episodes_every_s=0.0), **REACTIONS[plant])
    count = simulated(60)
    effects = [through_the_program(simulation, 900 + seed) for seed in range(count)]
    assert at_most(sum(map(claims, effects)) / count, count)


def test_an_effect_beside_a_dearer_client_is_covered() -> None:
    """-2.5 %, while the arm's client is 1.2 % dearer."""
    simulation = replace(
        SLICED, host=Host(wander_sd=0.05, episodes_every_s=0.0),
        effects={"jemalloc": -0.025}, client_costs={"jemalloc": 0.012},
    )  # fmt: skip
    count, covered = simulated(1500, 25), 0
    for seed in range(count):
        (effect,) = (e for e in through_the_program(simulation, 700 + seed) if (e.metric, e.arm) == ("qps", "jemalloc"))
        covered += (effect.details.single_low or 9) <= 0.975 <= (effect.details.single_high or 0)
    assert at_most(1 - covered / count, count)


def test_a_server_that_dies_between_slices_is_a_failure_of_its_arm() -> None:
    dying = replace(SLICED, effects={"jemalloc": 0.2}, failing={"jemalloc": (2, 5)})
    for effect in through_the_program(dying, 1):
        if effect.arm == "jemalloc":
            died = {"the server ended with signal 11": 2}
            assert effect.details.failure == ArmFailure(who="arm", blocks=2, tried=6, why=died)
            assert effect.ratio is None
        else:
            assert effect.details.failure is None
