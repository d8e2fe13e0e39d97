"""Each verdict: when it is given, and the sentence it prints."""

import pytest

from mydyno.verdicts import Metric, Verdict, accompanied, decide
from mydyno.verdicts.decide import RULES
from tests.support.made_up_study import exact_study, jemalloc, study

WHERE = (
    "at 64 connections (oltp_read_only, MariaDB 10.11.19, on this host, data 0.4 × the buffer pool, "
    "innodb_flush_log_at_trx_commit=1, 2026-11-21 to 2026-11-22, 8 blocks)"
)
LATENCY = Metric("latency_p99_us", "µs", "lower")


def test_the_rules_are_tried_in_the_documented_order() -> None:
    assert [str(rule.verdict) for rule in RULES] == ["not_measurable", "higher", "lower", "equivalent", "inconclusive"]


def test_higher_says_how_much_more_and_that_it_matters() -> None:
    effect = jemalloc(study(0.042))
    assert effect.verdict == "higher"
    assert effect.sentence == (
        f"jemalloc served 4.5 % more queries per second than glibc [3.3 %, 5.6 %] {WHERE}; "
        "practically relevant: the whole interval is beyond ±2 %."
    )


def test_lower_says_how_much_less_with_sizes_in_the_same_direction() -> None:
    effect = jemalloc(study(-0.05))
    assert effect.verdict == "lower"
    assert effect.ci_high is not None and effect.ci_high < 1.0
    assert "jemalloc served 4.8 % fewer queries per second than glibc [3.7 %, 5.8 %]" in effect.sentence


def test_a_lower_latency_is_lower_and_the_reader_is_told_that_lower_is_better() -> None:
    effect = jemalloc(study(-0.05, metric=LATENCY))
    assert effect.verdict == "lower"
    assert "jemalloc had 4.8 % lower 99th-percentile latency than glibc" in effect.sentence
    assert "(lower is better, oltp_read_only," in effect.sentence


def test_a_difference_whose_size_may_be_below_the_margin_is_of_uncertain_size() -> None:
    effect = jemalloc(study(0.025))
    assert effect.verdict == "higher"
    assert effect.sentence.endswith("; size uncertain: it may be smaller than 2 %.")


def test_a_difference_that_is_surely_below_the_margin_is_real_but_small() -> None:
    effect = jemalloc(study(0.01, run_sd=0.003))
    assert effect.verdict == "higher"
    assert effect.sentence.endswith("; real but small: equivalent within ±2 %.")


def test_equivalent_is_claimed_by_the_90_percent_interval_and_shows_it() -> None:
    effect = jemalloc(study(0.0))
    assert effect.verdict == "equivalent"
    assert effect.equivalence_low is not None and effect.equivalence_high is not None
    assert effect.sentence == (
        f"jemalloc and glibc are equivalent within ±2 % in queries per second [−0.5 %, +1.0 %] {WHERE}."
    )


def test_inconclusive_says_what_it_could_be_and_how_many_more_blocks_would_tell() -> None:
    effect = jemalloc(study(0.01, run_sd=0.014))
    assert effect.verdict == "inconclusive"
    assert effect.blocks_needed is not None
    total = 8 + effect.blocks_needed
    assert effect.sentence.startswith(
        "Inconclusive: the difference in queries per second between jemalloc and glibc could be −"
    )
    assert effect.sentence.endswith(
        f"; about {effect.blocks_needed} more blocks ({total} in a fresh study) are needed for ±2 %."
    )


def test_three_blocks_never_claim_a_difference_and_say_why() -> None:
    effect = jemalloc(study(0.2, blocks=3))
    assert effect.verdict == "inconclusive"
    assert effect.p is not None and effect.p >= 0.25
    assert "3 blocks allow no p below 0.25: at least 6 are needed to claim a difference" in effect.sentence


def test_six_blocks_are_the_fewest_that_claim_a_difference() -> None:
    assert jemalloc(study(0.2, blocks=5)).verdict == "inconclusive"
    assert jemalloc(study(0.2, blocks=6)).verdict == "higher"


def test_when_the_sign_flip_disagrees_the_weaker_answer_is_printed() -> None:
    arm: list[float | None] = [104.0, 105.0, 106.0, 104.5, 105.5, 106.0, 105.0, 99.5]
    control: list[float | None] = [100.0] * 8
    copies: list[float | None] = [100.1, 99.9] * 4
    effect = jemalloc(exact_study({("glibc", 1): control, ("glibc", 2): copies, ("jemalloc", 1): arm}))
    assert effect.p_sign_flip is not None and effect.p_t is not None
    assert effect.p == max(effect.p_sign_flip, effect.p_t)


def test_an_interval_without_the_sign_flip_is_inconclusive() -> None:
    arm: list[float | None] = [101.9, 102.0, 102.1, 102.0, 102.0]
    copies: list[float | None] = [100.1, 99.9, 100.1, 99.9, 100.0]
    effect = jemalloc(exact_study({("glibc", 1): [100.0] * 5, ("glibc", 2): copies, ("jemalloc", 1): arm}, margin=0.01))
    assert effect.ci_low is not None and effect.ci_low > 1.0
    assert (effect.verdict, effect.p) == ("inconclusive", 0.0625)


def test_an_effect_below_the_noise_floor_is_not_claimed_however_clear_its_interval() -> None:
    arm: list[float | None] = [102.5, 102.6, 102.4, 102.5, 102.6, 102.4, 102.5, 102.5]
    copies: list[float | None] = [103.0, 97.0, 103.0, 97.0, 103.0, 97.0, 103.0, 97.0]
    family = exact_study({("glibc", 1): [100.0] * 8, ("glibc", 2): copies, ("jemalloc", 1): arm}, margin=0.04)
    assert jemalloc(family).verdict == "equivalent"
    tight = exact_study({("glibc", 1): [100.0] * 8, ("glibc", 2): copies, ("jemalloc", 1): arm}, margin=0.02)
    effect = jemalloc(tight)
    assert effect.verdict == "not_measurable"
    assert "two runs of glibc itself typically differ by 3.0 %, more than the margin of 2 %" in effect.sentence


def test_an_effect_far_above_a_high_floor_is_still_measured() -> None:
    noisy = study(0.6, run_sd=0.04)
    assert (jemalloc(noisy).noise_floor or 0.0) > 1.02
    assert jemalloc(noisy).verdict == "higher"


def test_two_copies_that_differ_silence_the_whole_study() -> None:
    for effect in decide(study(0.2, copies_differ=0.03, connections=(16, 64))):
        assert effect.verdict == "not_measurable"
        assert "two copies of glibc differ by" in effect.sentence
        assert "so this study claims no difference and no equivalence" in effect.sentence


def test_a_secondary_metric_gets_a_number_and_none_of_the_five_words() -> None:
    effect = jemalloc(study(-0.12, metric=Metric("server_rss_bytes", "bytes", "lower"), primary=False))
    assert (effect.verdict, effect.primary, effect.adjustment) == (None, False, "none")
    assert (effect.ci_low, effect.ci_high) == (effect.unadjusted_low, effect.unadjusted_high)
    assert effect.sentence.startswith(
        "Exploratory: resident memory of jemalloc against glibc −11.8 % [−12.6 %, −11.0 %]"
    )
    assert not any(word in effect.sentence for word in Verdict)


@pytest.mark.parametrize("effect", [-0.5, -0.02, 0.0, 0.005, 0.02, 0.5, 2.0])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 6, 8])
@pytest.mark.parametrize("run_sd", [0.0, 0.007, 0.2])
def test_no_sentence_says_what_is_forbidden(effect: float, blocks: int, run_sd: float) -> None:
    for primary in (True, False):
        for answer in decide(study(effect, blocks=blocks, run_sd=run_sd, primary=primary, connections=(16, 64))):
            text = answer.sentence.lower()
            assert not any(
                phrase in text for phrase in ("no difference in", "almost the same", "because", "nan", "none", "inf ")
            )
            assert answer.sentence.endswith(".") and "  " not in answer.sentence and ".." not in answer.sentence
            assert answer.arm in answer.sentence and "on this host" in answer.sentence


def test_a_difference_is_accompanied_by_other_metrics_and_never_explained_by_them() -> None:
    faster = jemalloc(study(0.05))
    memory = jemalloc(study(-0.1, metric=Metric("server_rss_bytes"), primary=False))
    unmeasured = jemalloc(study(metric=Metric("tps"), primary=False, blocks=1))
    assert accompanied.sentence(faster, [memory, unmeasured]) == (
        "This was accompanied by resident memory −9.8 % [−10.6 %, −8.9 %] (exploratory; no cause is shown)."
    )
    assert accompanied.sentence(faster, [unmeasured]) == ""
    assert accompanied.sentence(jemalloc(study(0.0)), [memory]) == ""


def test_near_the_margin_more_blocks_are_asked_for_than_the_usual_plan_has() -> None:
    """Noise this small needs 6 blocks for ±2 %, but a truth of 1.2 % is hard to tell from none and from 2 % alike."""
    answers = [jemalloc(study(0.012, run_sd=0.009, seed=seed)) for seed in range(60)]
    undecided = [answer for answer in answers if answer.verdict == "inconclusive"]
    assert len(undecided) >= 10
    assert all(answer.blocks_needed is not None and answer.blocks_needed >= 1 for answer in undecided)
    assert all(f"about {answer.blocks_needed} more block" in answer.sentence for answer in undecided)


def test_an_effect_that_only_the_floor_stops_can_still_become_equivalent() -> None:
    arm: list[float | None] = [101.0, 102.6, 101.2, 102.5, 100.7, 102.8, 101.1, 100.9]
    copies: list[float | None] = [101.8, 98.2, 101.8, 98.2, 101.8, 98.2, 101.8, 98.2]
    effect = jemalloc(exact_study({("glibc", 1): [100.0] * 8, ("glibc", 2): copies, ("jemalloc", 1): arm}))
    assert effect.verdict == "inconclusive"
    assert "it is not above the noise floor of 1.8 %, so it is not called a difference; about" in effect.sentence
    assert effect.blocks_needed is not None and effect.blocks_needed > 0
