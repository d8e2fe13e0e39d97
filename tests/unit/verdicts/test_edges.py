"""What a study can do wrong: lost runs, dead arms, zeros, one block, no block; each ends in a clear answer."""

from dataclasses import replace
from math import exp, inf, log, nan

import pytest

from mydyno.errors import BugError
from mydyno.verdicts import Family, Metric, Observation, Verdict, noise_floors
from tests.support.fake_observations import decide, exact_study, jemalloc, said, study

A: list[float | None] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.9, 100.1]
COPY: list[float | None] = [100.2, 100.8, 99.1, 100.4, 99.7, 100.0, 100.0, 100.2]
ARM: list[float | None] = [105.0, 106.2, 103.9, 105.4, 104.6, 105.3, 104.9, 105.0]


def three(arm: list[float | None] = ARM, a: list[float | None] = A, copy: list[float | None] = COPY) -> Family:
    return exact_study({("glibc", 1): a, ("glibc", 2): copy, ("jemalloc", 1): arm}, reason="not steady")


def four(again: list[float | None], arm: list[float | None] = ARM) -> Family:
    """With a second copy of the arm."""
    values = {("glibc", 1): A, ("glibc", 2): COPY, ("jemalloc", 1): arm, ("jemalloc", 2): again}
    return exact_study(values, reason="not steady")


def test_without_trouble_the_example_is_higher() -> None:
    assert jemalloc(three()).verdict == "higher"


def test_both_copies_of_an_arm_count_and_one_where_the_other_has_no_valid_run() -> None:
    again: list[float | None] = [104.8, 106.0, 104.1, 105.2, 104.9, 105.1, 105.2, 104.7]
    effect = jemalloc(four(again))
    assert effect.verdict == "higher" and effect.details.freedom == 7 * 3 + 2
    assert effect.details.log_ratios[1] == pytest.approx(log(105.0 * 104.8 / (100.0 * 100.2)) / 2)
    halved = jemalloc(four([None, *again[1:]]))
    assert halved.n == 8 and halved.details.halved == {"jemalloc: not steady": 1} and not halved.details.lost
    assert halved.details.log_ratios[1] == pytest.approx(log(105.0 / (100.0 * 100.2) ** 0.5))
    gone = jemalloc(four([None, *again[1:]], [None, *ARM[1:]]))
    assert gone.n == 7 and gone.details.lost == {"jemalloc: not steady": 1}


def test_an_arm_of_which_one_copy_fails_has_failed() -> None:
    family = four(ARM)
    (step,) = family.steps
    one_fails = tuple(
        replace(o, failed="it crashed") if (o.arm, o.copy, o.block) == ("jemalloc", 2, 3) else o
        for o in family.steps[step]
    )
    failure = jemalloc(replace(family, steps={step: one_fails})).details.failure
    assert failure is not None and (failure.who, failure.blocks, failure.tried) == ("arm", 1, 8)


def test_no_block_at_all_is_not_measurable_and_has_no_numbers() -> None:
    effect = jemalloc(three([], [], []))
    assert (effect.n, effect.ratio, effect.ci_low, effect.ci_high, effect.p) == (0, None, None, None, None)
    assert effect.verdict == "not_measurable"
    assert "no block has a valid run of both arms" in said(effect)


def test_one_block_gives_a_ratio_without_an_interval_and_is_inconclusive() -> None:
    effect = jemalloc(three(ARM[:1], A[:1], COPY[:1]))
    assert (effect.n, effect.ci_low, effect.p, effect.verdict) == (1, None, pytest.approx(1 / 3), "inconclusive")
    assert effect.ratio == pytest.approx(105.0 / (100.0 * 100.2) ** 0.5)
    assert "1 block cannot give a p of 0.05 or less: 3 are needed to claim a difference" in said(effect)


def test_two_blocks_give_an_interval_and_no_claim() -> None:
    effect = jemalloc(three(ARM[:2], A[:2], COPY[:2]))
    assert effect.ci_low is not None
    assert effect.verdict == "inconclusive"


def test_an_arm_that_never_ran_well_is_named_with_its_reason_and_the_others_keep_their_answers() -> None:
    whole = study(0.05)
    step = next(iter(whole.steps))
    dead = replace(
        whole,
        steps={
            step: tuple(
                replace(o, value=None, reason="allocator not proved") if o.arm == "tcmalloc" else o
                for o in whole.steps[step]
            )
        },
    )
    alive, lost = decide(dead)
    assert alive.verdict == "higher"
    assert (lost.arm, lost.n, lost.verdict) == ("tcmalloc", 0, "not_measurable")
    assert said(lost) == "no block has a valid run of both arms: tcmalloc: allocator not proved (8 blocks)"


def test_a_lost_block_is_left_out_counted_and_explained() -> None:
    effect = jemalloc(three([None, *ARM[1:]]))
    assert (effect.n, effect.verdict) == (7, "higher")
    assert sorted(effect.details.log_ratios or {}) == [2, 3, 4, 5, 6, 7, 8]
    assert effect.details.lost == {"jemalloc: not steady": 1}
    assert said(effect) == "1 block of 8 not used: jemalloc: not steady (1 block)"


@pytest.mark.parametrize("lost", ["a", "copy"])
def test_a_block_with_one_valid_copy_of_the_control_counts_with_that_one(lost: str) -> None:
    series = {"a": A, "copy": COPY}
    effect = jemalloc(three(**{lost: [None, *series[lost][1:]]}))
    assert (effect.n, effect.verdict) == (8, "higher")
    other = {"a": COPY, "copy": A}[lost][0]
    assert effect.details.log_ratios[1] == pytest.approx(log((ARM[0] or 0.0) / (other or 0.0)))
    assert effect.details.halved == {"glibc: not steady": 1}


def test_a_block_without_any_valid_control_is_lost() -> None:
    effect = jemalloc(three(a=[None, *A[1:]], copy=[None, *COPY[1:]]))
    assert effect.n == 7
    assert effect.details.lost == {"glibc: not steady": 1}


def test_without_any_second_copy_the_noise_is_unknown_and_nothing_is_claimed() -> None:
    effect = jemalloc(three(copy=[]))
    assert effect.verdict == "not_measurable"
    assert said(effect) == "the second copy of glibc has no valid run: the difference between equal servers is unknown"


def test_more_blocks_lost_than_left_is_not_measurable() -> None:
    effect = jemalloc(three([*ARM[:3], None, None, None, None, None]))
    assert (effect.n, effect.verdict) == (3, "not_measurable")
    assert said(effect) == "5 of 8 blocks are not used: jemalloc: not steady (5 blocks)"


@pytest.mark.parametrize("value", [-5.0, nan, inf])
def test_a_value_without_a_logarithm_is_a_lost_block_with_a_reason(value: float) -> None:
    effect = jemalloc(three([value, *ARM[1:]]))
    assert effect.n == 7
    assert effect.details.lost == {"jemalloc: the value is not a positive number": 1}


@pytest.mark.parametrize("better", ["lower", "none"])
def test_a_metric_that_is_zero_in_some_blocks_has_no_ratio_of_the_others(better: str) -> None:
    family = three([*ARM[:6], 0.0, 0.0])
    effect = jemalloc(replace(family, metric=Metric("innodb_row_lock_waits_per_s", "1/s", better)))
    assert (effect.n, effect.ratio, effect.verdict) == (0, None, "not_measurable")
    assert effect.details.lost == {"jemalloc: the value is 0": 2, "it is 0 in another block": 6}


def test_an_arm_that_served_nothing_is_not_measurable_and_not_infinitely_worse() -> None:
    effect = jemalloc(three([0.0] * 8))
    assert (effect.n, effect.ratio, effect.verdict) == (0, None, "not_measurable")


def test_values_that_never_vary_have_no_p_of_zero_and_say_that_no_noise_was_seen() -> None:
    same = jemalloc(three([103.0] * 8, [100.0] * 8, [100.0] * 8))
    assert (same.verdict, same.details.p_t) == ("higher", None)
    assert same.p == pytest.approx(3.0**-8)
    assert said(same) == "every block has exactly the same ratio, so the interval has no width"
    equal = jemalloc(three([100.0] * 8, [100.0] * 8, [100.0] * 8))
    assert (equal.verdict, equal.p, equal.ratio) == ("equivalent", 1.0, 1.0)


def test_a_skewed_difference_is_flagged_beside_it() -> None:
    effect = jemalloc(three([*ARM[:7], 125.0]))
    assert effect.details.skewed
    assert "block differences are skewed" in said(effect)


def test_a_study_that_was_cut_short_is_judged_by_the_blocks_it_has() -> None:
    whole = three()
    cut = replace(whole, steps={"s": tuple(o for o in whole.steps["s"] if o.block <= 6 or o.arm == "glibc")})
    effect = jemalloc(cut)
    assert (effect.n, effect.details.lost, effect.details.halved) == (6, {}, {})


def test_swapping_arm_and_control_swaps_higher_and_lower() -> None:
    forth = jemalloc(three(copy=A))
    swapped = exact_study({("glibc", 1): ARM, ("glibc", 2): ARM, ("jemalloc", 1): A})
    back = jemalloc(swapped)
    assert (forth.verdict, back.verdict) == ("higher", "lower")
    assert forth.ratio is not None and back.ratio == pytest.approx(1.0 / forth.ratio)


def test_the_order_of_observations_does_not_matter() -> None:
    family = study(0.03)
    reversed_family = replace(family, steps={step: found[::-1] for step, found in family.steps.items()})
    assert decide(reversed_family) == decide(family)


def test_effects_come_step_by_step_in_the_declared_order_of_arms() -> None:
    effects = decide(study(0.03, connections=(16, 64)))
    assert [(e.step, e.arm) for e in effects] == [
        ("oltp_read_only-16", "jemalloc"),
        ("oltp_read_only-16", "tcmalloc"),
        ("oltp_read_only-64", "jemalloc"),
        ("oltp_read_only-64", "tcmalloc"),
    ]


def test_the_noise_floor_of_each_step_can_be_had_alone() -> None:
    floors = noise_floors(study(connections=(16, 64)))
    assert list(floors) == ["oltp_read_only-16", "oltp_read_only-64"]
    assert all(floor > 1.0 for floor in floors.values())


def test_a_noise_floor_is_the_median_over_the_blocks_and_at_least_the_mean() -> None:
    def floor(*logs: float) -> float:
        (found,) = noise_floors(three(a=[1.0] * len(logs), copy=[exp(log) for log in logs])).values()
        return found

    assert floor(0.01, -0.02, 0.03, -0.015, 0.005) == floor(-0.01, 0.02, -0.03, 0.015, -0.005)
    assert floor(0.01, -0.02, 0.03, -0.015, 0.005) == pytest.approx(exp(0.015))
    assert floor(0.0, 0.0, 0.0, 0.0, 0.1) == pytest.approx(exp(0.02))
    assert noise_floors(three(copy=[])) == {}


def test_the_same_run_twice_is_a_bug_of_the_caller() -> None:
    twice = (Observation(1, "glibc", 1.0), Observation(1, "glibc", 2.0))
    with pytest.raises(BugError, match="block 1: arm 'glibc' copy 1 is there twice"):
        decide(Family(Metric("qps"), "glibc", ("jemalloc",), {"s": twice}, 0.02))


def test_an_undeclared_arm_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="which the family does not declare"):
        decide(Family(Metric("qps"), "glibc", ("jemalloc",), {"s": (Observation(1, "x", 1.0),)}, 0.02))


def test_a_margin_in_percent_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match=r"0\.02 is ±2 %"):
        decide(Family(Metric("qps"), "glibc", ("jemalloc",), {}, 2.0))


def test_the_five_verdicts_are_the_words_of_summary_json() -> None:
    assert {str(verdict) for verdict in Verdict} == {"higher", "lower", "equivalent", "inconclusive", "not_measurable"}
