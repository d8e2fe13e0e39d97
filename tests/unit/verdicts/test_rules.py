# mypy: disable-error-code="arg-type"
"""Each verdict: when it is given, and the note beside it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mydyno.model.definition.plan import SIX
from mydyno.model.stored.reasons import ArmFailure
from mydyno.model.stored.summary import EffectRecord
from mydyno.verdicts import Family, Metric, Observation, decide_study, decided
from mydyno.verdicts.decide import RULES
from tests.support import first_in_gate
from tests.support.fake_observations import decide, exact_study, jemalloc, said, study

LATENCY = Metric("latency_p99_us", "µs", "lower")


def test_the_rules_are_tried_in_the_documented_order() -> None:
    assert [str(rule.verdict) for rule in RULES] == ["not_measurable", "higher", "lower", "equivalent", "inconclusive"]


def test_higher_needs_no_note() -> None:
    effect = jemalloc(study(0.042))
    assert effect.verdict == "higher"
    assert said(effect) == ""


def test_lower_needs_no_note() -> None:
    effect = jemalloc(study(-0.05))
    assert effect.verdict == "lower"
    assert effect.ci_high is not None and effect.ci_high < 1.0
    assert said(effect) == ""


def test_a_lower_latency_is_lower() -> None:
    effect = jemalloc(study(-0.05, metric=LATENCY))
    assert effect.verdict == "lower"


def test_a_difference_that_is_surely_below_the_margin_is_said_to_be_within_it() -> None:
    effect = jemalloc(study(0.01, run_sd=0.003))
    assert effect.verdict == "higher"
    assert said(effect) == "within ±2 %"


def test_equivalent_is_claimed_by_the_90_percent_interval_and_shows_it() -> None:
    effect = jemalloc(study(0.0))
    assert effect.verdict == "equivalent"
    assert effect.details.equivalence_low is not None and effect.details.equivalence_high is not None
    assert said(effect) == "−0.3 … +0.8\u202f% for the comparison by itself"


def test_inconclusive_says_what_can_be_shown_and_records_how_many_more_blocks_decide() -> None:
    effect = jemalloc(study(0.004, run_sd=0.016))
    assert effect.verdict == "inconclusive"
    assert effect.details.blocks_needed is not None and effect.details.half_width is not None
    assert said(effect) == (
        f"such a study finds a true difference of {100 * (effect.details.detectable or 0):.1f} % with 80 % power"
    )


def test_two_blocks_never_claim_a_difference_and_say_why() -> None:
    effect = jemalloc(study(0.2, blocks=2))
    assert effect.verdict == "inconclusive"
    assert effect.p == pytest.approx(1.0 / 9.0)
    assert "2 blocks cannot give a p of 0.05 or less: 3 are needed to claim a difference" in said(effect)


def test_with_two_copies_of_the_control_three_blocks_can_claim_differences() -> None:
    assert jemalloc(study(0.2, blocks=3)).verdict == "higher"


def test_five_blocks_are_never_equivalent() -> None:
    assert jemalloc(study(0.0, blocks=5, run_sd=0.001)).verdict == "inconclusive"
    assert jemalloc(study(0.0, blocks=6, run_sd=0.001, seed=2)).verdict == "equivalent"


def test_a_single_block_of_the_other_sign_among_four_is_no_difference_to_the_permutation() -> None:
    arm: list[float | None] = [104.0, 104.0, 104.0, 99.9]
    copies: list[float | None] = [100.1, 99.9, 100.1, 99.9]
    columns = {("glibc", 1): [100.0] * 4, ("glibc", 2): copies, ("jemalloc", 1): arm}
    effect = jemalloc(exact_study(columns, margin=0.01))  # type: ignore[arg-type]
    assert (effect.verdict, effect.ci_low is not None and effect.ci_low < 1.0) == ("inconclusive", True)


@pytest.mark.slow
@pytest.mark.parametrize("contrasts", first_in_gate([1, 30]))
def test_where_interval_and_permutation_disagree_the_note_names_the_weaker_one(contrasts: int) -> None:
    found = set()
    for seed in range(60):
        one = study(0.016, run_sd=0.012, blocks=6, seed=seed)
        others = [
            study(0.0, run_sd=0.012, blocks=6, seed=100 + number, metric=Metric(f"m{number}"))
            for number in range(contrasts // 2)
        ]
        effect = decide_study([one, *others], alpha=SIX.rates[6], looks=SIX)[0]
        if effect.verdict != "inconclusive" or effect.p is None or effect.ci_low is None or effect.ci_high is None:
            continue
        apart = not effect.ci_low <= 1.0 <= effect.ci_high
        agrees = (effect.details.p_adjusted_permutation or 1.0) <= SIX.rates[6]
        assert not (apart and agrees)
        assert ("the interval alone finds a difference" in said(effect)) == apart
        assert ("the permutation test alone finds a difference" in said(effect)) == agrees
        if apart or agrees:
            found.add(apart)
            assert effect.details.blocks_needed is not None and 6 + effect.details.blocks_needed in SIX.rates
            assert any(one.fact == "seems_different" for one in effect.details.facts)
    assert found


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    effect=st.floats(-0.1, 0.1), run_sd=st.floats(0.001, 0.05), blocks=st.sampled_from([2, 3, 6, 7, 10]),
    others=st.integers(0, 6), seed=st.integers(0, 10_000), sequential=st.booleans(),
)  # fmt: skip
def test_an_interval_without_1_never_stands_beside_inconclusive_without_the_reason_and_its_end(
    effect: float, run_sd: float, blocks: int, others: int, seed: int, sequential: bool
) -> None:
    families = [study(effect, run_sd=run_sd, blocks=blocks, seed=seed)]
    families += [study(0.0, run_sd=run_sd, blocks=blocks, seed=seed + n, metric=Metric(f"m{n}")) for n in range(others)]
    alpha = SIX.alpha_at(blocks) if sequential else 0.05
    for one in decide_study(families, alpha, SIX if sequential else None):
        assert one.ci_low is not None and one.ci_high is not None
        if one.verdict != "inconclusive" or one.ci_low <= 1.0 <= one.ci_high:
            continue
        reasons = (
            "the interval alone finds a difference",
            "two copies of glibc differ by as much",
            "cannot give a p of",
            "no verdict before the interim analysis at",
        )
        assert sum(reason in said(one) for reason in reasons) == 1, said(one)
        assert one.details.blocks_needed is not None and one.details.blocks_needed > 0


def copy_of(family: Family, metric: str) -> Family:
    """The same observations as another metric."""
    return replace(family, metric=Metric(metric))


def test_copies_apart_by_more_than_the_margin_hide_no_clear_difference() -> None:
    """Copies 3 % apart in every block, but 0 % on average: the effect of 2.5 % is found."""
    arm: list[float | None] = [102.5, 102.6, 102.4, 102.5, 102.6, 102.4, 102.5, 102.5] * 5
    copies: list[float | None] = [103.0, 97.0, 103.0, 97.0, 103.0, 97.0, 103.0, 97.0] * 5
    effect = jemalloc(exact_study({("glibc", 1): [100.0] * 40, ("glibc", 2): copies, ("jemalloc", 1): arm}))
    assert effect.verdict == "higher"


def test_an_effect_that_is_not_larger_than_the_mean_difference_of_the_copies_is_not_claimed() -> None:
    wobble = [0.02, -0.02, 0.02, -0.02, 0.02, -0.02, 0.02, -0.02]
    arm: list[float | None] = [101.5 + 3 * w for w in wobble]
    copies: list[float | None] = [103.0 + 150 * w for w in wobble]
    first: list[float | None] = [100.0 - 150 * w for w in wobble]
    family = exact_study({("glibc", 1): first, ("glibc", 2): copies, ("jemalloc", 1): arm})
    effect = jemalloc(family)
    assert effect.details.alarm is None
    assert effect.verdict in ("equivalent", "inconclusive")


@pytest.mark.slow
@pytest.mark.parametrize("n", first_in_gate([3, 10]))
def test_power_grows_with_blocks_on_a_noisy_host(n: int) -> None:
    """The median noise floor made it fall: 7 % run sd, true +5 % (.16 at 8 blocks, .03 at 160)."""
    found = [jemalloc(study(0.05, run_sd=0.07, blocks=8 * n, seed=seed)).verdict for seed in range(20)]
    assert found.count("higher") >= (3 if n == 3 else 18)


def test_two_copies_that_differ_silence_the_whole_study() -> None:
    for effect in decide(study(0.2, copies_differ=0.03, connections=(16, 64))):
        assert effect.verdict == "not_measurable"
        assert "two copies of glibc differ by" in said(effect)


def test_a_secondary_metric_gets_a_number_and_none_of_the_five_words() -> None:
    effect = jemalloc(study(-0.12, metric=Metric("server_rss_bytes", "bytes", "lower"), primary=False))
    assert (effect.verdict, effect.primary) == (None, False)
    assert (effect.ci_low, effect.ci_high) == (effect.details.single_low, effect.details.single_high)
    assert said(effect) == ""


@pytest.mark.parametrize("effect", [-0.5, -0.02, 0.0, 0.005, 0.02, 0.5, 2.0])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 6, 8])
@pytest.mark.parametrize("run_sd", [0.0, 0.007, 0.2])
def test_no_note_says_what_is_forbidden(effect: float, blocks: int, run_sd: float) -> None:
    for primary in (True, False):
        for answer in decide(study(effect, blocks=blocks, run_sd=run_sd, primary=primary, connections=(16, 64))):
            text = said(answer).lower()
            assert not any(
                phrase in text for phrase in ("no difference in", "almost the same", "because", "nan", "none", "inf ")
            )
            assert not said(answer).endswith((".", ";", " ")) and "  " not in said(answer) and ".." not in said(answer)


@pytest.mark.slow
def test_near_the_margin_more_blocks_are_asked_for_than_the_usual_plan_has() -> None:
    """Noise this small needs few blocks for ±2 %, but 1.2 % is hard to tell from none and from 2 % alike."""
    answers = [jemalloc(study(0.012, run_sd=0.014, seed=seed)) for seed in range(60)]
    undecided = [answer for answer in answers if answer.verdict == "inconclusive"]
    assert len(undecided) >= 10
    assert all(answer.details.blocks_needed is not None and answer.details.blocks_needed >= 1 for answer in undecided)


def test_all_metrics_controls_and_steps_are_one_family() -> None:
    """A family alone has a narrower interval than the same family in a study with others, and smaller p."""
    qps, latency = study(0.01, seed=3), study(0.0, seed=4, metric=LATENCY)
    alone, together = jemalloc(qps), decide_study([qps, latency])[0]
    assert together.ci_low is not None and alone.ci_low is not None and alone.p is not None and together.p is not None
    assert together.ci_low < alone.ci_low
    assert together.p > alone.p
    assert (together.details.single_low, together.details.p_t) == (alone.details.single_low, alone.details.p_t)


def test_an_exploratory_family_costs_the_others_nothing() -> None:
    qps, memory = study(0.01, seed=3), study(0.0, seed=4, metric=Metric("server_rss_bytes"), primary=False)
    assert decide_study([qps, memory])[:2] == decide(qps)
    assert decide_study([memory, qps])[2:] == decide(qps)


def test_a_look_decides_at_its_own_error_rate() -> None:
    family = study(0.012, blocks=10)
    fixed, look = jemalloc(family), decide_study([family], alpha=SIX.rates[10], looks=SIX)[0]
    assert fixed.verdict == "higher"
    assert look.details.half_width is not None and fixed.details.half_width is not None
    assert look.details.half_width > 1.3 * fixed.details.half_width
    assert look.details.equivalence_high is not None and fixed.details.equivalence_high is not None
    assert look.details.equivalence_high > fixed.details.equivalence_high


def test_between_looks_nothing_is_decided_but_failures() -> None:
    for effect in decide_study([study(0.2, blocks=8), study(0.0, blocks=8, metric=LATENCY)], alpha=None, looks=SIX):
        assert effect.verdict == "inconclusive"
        assert "no verdict before the interim analysis at 10 blocks" in said(effect)


def test_a_large_family_has_clear_differences_at_the_first_look() -> None:
    families = [copy_of(study(0.2, blocks=6, seed=number), f"metric_{number}") for number in range(60)]
    effects = [one for one in decide_study(families, alpha=SIX.rates[6], looks=SIX) if one.arm == "jemalloc"]
    assert {(str(one.verdict), one.p) for one in effects} == {("higher", 1.0 / 729.0)}


def test_more_blocks_of_a_sequential_study_are_those_of_a_later_look() -> None:
    effect = decide_study([study(0.01, run_sd=0.02, blocks=6)], alpha=SIX.rates[6], looks=SIX)[0]
    assert effect.verdict == "inconclusive"
    assert effect.details.blocks_needed is not None and 6 + effect.details.blocks_needed in SIX.rates


def test_a_study_is_decided_when_every_contrast_is() -> None:
    clear, open_ = study(0.2, run_sd=0.002), study(0.01, run_sd=0.03, seed=2)
    assert decided(decide(clear))
    assert not decided(decide(open_))
    assert not decided(decide_study([clear, copy_of(open_, "tps")]))
    assert not decided([]), "a study without any contrast ends when its time is spent"
    step = next(iter(open_.steps))
    dead = tuple(replace(o, failed="" if o.arm == "glibc" else "crashed") for o in open_.steps[step])
    assert decided(decide(replace(open_, steps={step: dead})))


def test_values_before_the_adjustment_are_judged_beside_the_adjusted_ones() -> None:
    family = study(0.1, run_sd=0.002)
    step = next(iter(family.steps))
    random = np.random.default_rng(1)
    noisy = tuple(
        replace(o, unadjusted=(o.value or 0.0) * float(np.exp(random.normal(0.0, 0.1)))) for o in family.steps[step]
    )
    effect = jemalloc(replace(family, steps={step: noisy}))
    assert effect.unadjusted is not None and effect.ci_low is not None and effect.ci_high is not None
    ratio, low, high = effect.unadjusted
    assert low is not None and high is not None
    assert low < ratio < high and high - low > 10 * (effect.ci_high - effect.ci_low)
    assert jemalloc(family).unadjusted is None


def crashing(blocks: int, failed: dict[tuple[str, int], tuple[int, ...]], better: str = "higher") -> EffectRecord:
    """jemalloc 5 % up, with failures of (arm, copy) in some blocks."""
    family = study(0.05, blocks=blocks, metric=Metric("qps", "1/s", better))
    step = next(iter(family.steps))
    found = tuple(
        replace(o, value=None, failed="crashed") if o.block in failed.get((o.arm, o.copy), ()) else o
        for o in family.steps[step]
    )
    return jemalloc(replace(family, steps={step: found}))


def test_an_arm_that_fails_in_some_blocks_has_no_ratio_of_the_others() -> None:
    effect = crashing(10, {("jemalloc", 1): (2, 5, 6, 9)})
    assert (effect.verdict, effect.ratio, effect.ci_low, effect.ci_high, effect.p) == (
        "not_measurable", None, None, None, None,
    )  # fmt: skip
    assert effect.details.failure == ArmFailure(who="arm", blocks=4, tried=10, why={"crashed": 4})
    assert said(effect) == "jemalloc failed in 4 of 10 blocks (crashed)"


@pytest.mark.parametrize(
    ("copies", "words"),
    [((1,), "the control glibc"), ((2,), "the control's copy glibc′"), ((1, 2), "the control glibc")],
)
def test_a_control_that_fails_is_named(copies: tuple[int, ...], words: str) -> None:
    effect = crashing(8, {("glibc", copy): (3,) for copy in copies})
    assert (effect.verdict, effect.ratio) == ("not_measurable", None)
    assert said(effect) == f"{words} failed in 1 of 8 blocks (crashed)"


def test_a_block_in_which_both_failed_is_a_lost_block() -> None:
    effect = crashing(8, {("glibc", 1): (3,), ("jemalloc", 1): (3,)})
    assert (effect.verdict, effect.n) == ("higher", 7)
    assert effect.details.lost == {"arm and control both failed": 1}


def test_the_other_arms_keep_their_answers_and_lose_nothing() -> None:
    family = study(0.05)
    step = next(iter(family.steps))
    found = tuple(replace(o, failed="" if o.arm != "tcmalloc" else "never started") for o in family.steps[step])
    alive, dead = decide(replace(family, steps={step: found}))
    assert alive.verdict == "higher"
    assert dead.details.failure == ArmFailure(who="arm", blocks=8, tried=8, why={"never started": 8})


def test_a_rate_of_zero_is_a_failure_and_with_a_latency_of_zero_there_is_no_ratio() -> None:
    for better in ("higher", "lower"):
        family = study(0.05, metric=Metric("x", "", better))
        step = next(iter(family.steps))
        zero = tuple(
            Observation(o.block, o.arm, 0.0) if (o.arm, o.block) == ("jemalloc", 4) else o for o in family.steps[step]
        )
        effect = jemalloc(replace(family, steps={step: zero}))
        assert (effect.verdict, effect.ratio) == ("not_measurable", None)
        served_nothing = ArmFailure(who="arm", blocks=1, tried=8, why={"it served nothing": 1})
        assert effect.details.failure == (served_nothing if better == "higher" else None)


@pytest.mark.parametrize("apart", [0.2, 0.0])
def test_four_blocks_can_show_that_the_copies_of_the_control_differ(apart: float) -> None:
    """The smallest p of a sign-flip of four blocks is 2/2^4: t decides."""
    first, noise = [100.0, 101.0, 99.0, 100.5], [0.5, -0.4, 0.3, -0.2]
    copies = [value * (1 + apart) + more for value, more in zip(first, noise, strict=True)]
    values = {("glibc", 1): first, ("glibc", 2): copies, ("jemalloc", 1): [value * 1.5 for value in first]}
    (effect,) = decide(exact_study(values))
    assert (effect.details.alarm is not None) is (apart > 0)


@pytest.mark.parametrize("apart", [0.05, 0.0])
def test_copies_of_an_arm_that_differ_keep_an_effect_from_a_verdict(apart: float) -> None:
    noise = [0.5, -0.4, 0.3, -0.2, 0.1, -0.3, 0.2, -0.2]
    first = [100.0 + one for one in noise]
    values = {
        ("glibc", 1): first, ("glibc", 2): first[::-1],
        ("jemalloc", 1): [value * 0.97 for value in first],
        ("jemalloc", 2): [value * 0.97 * (1 - apart) for value in first[::-1]],
    }  # fmt: skip
    effect = jemalloc(exact_study(values))
    alarm = effect.details.alarm
    assert (effect.verdict, alarm and alarm.control) == (("not_measurable", "jemalloc") if apart else ("lower", None))
