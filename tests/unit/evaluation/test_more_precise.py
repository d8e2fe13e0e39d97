"""What a more precise answer needs, and the short forms of times, numbers and reasons."""

from __future__ import annotations

import pytest

from mydyno.analysis.published import NextSteps
from mydyno.evaluation.answer import answer_study
from mydyno.model.definition.experiment import DesignSpec
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.records import DriverFinding, DriverResult, StepRecord
from mydyno.results.precision import blocks_for, half_width
from mydyno.wording.numbers import duration_option, duration_words, half_width_text, limit_text, option_s, signed
from mydyno.wording.verdicts import cut
from tests.support.fake_answer import effect, experiment, records, study, summary


def test_steal_and_starts_are_named_as_what_would_help() -> None:
    of = experiment()
    made = summary(of, [effect("jemalloc", "inconclusive", 1.0, 6.0)], steal=0.12)
    assert made.interleaving is not None
    spread = {"sd_within": {"oltp_read_only-64": {"qps": 0.01}}, "sd_between": {"oltp_read_only-64": {"qps": 0.03}}}
    made = made.model_copy(update={"interleaving": made.interleaving.model_copy(update=spread)})
    said = answer_study(made, study(of), records(of)).sharpen
    assert any(line.startswith("The hypervisor took 12 % of the CPU time and up to 24 % in a slice") for line in said)
    assert any(line.startswith("Server starts differ more than slices") for line in said)
    switched = answer_study(made.model_copy(update={"design": "switchback"}), study(of), records(of)).sharpen
    assert any(line.startswith("Blocks differ more than slices of one block") for line in switched), "one server each"


@pytest.mark.parametrize(("method", "said"), [("pairs", True), ("pooled", False)])
def test_the_block_that_widens_an_arms_own_interval_is_named(method: str, said: bool) -> None:
    of = experiment()
    one = effect("jemalloc", "inconclusive", 1.0, 6.0)
    ratios = {1: 0.011, 2: -0.004, 3: 0.006, 4: 0.130, 5: -0.002, 6: 0.004}
    details = one.details.model_copy(update={"method": method, "log_ratios": ratios})
    made = summary(of, [one.model_copy(update={"details": details})])
    line = (
        "jemalloc in block 4: queries per second 13.5 % higher than in its other blocks, relative to glibc. "
        "This widens its interval; more blocks make it narrower."
    )
    assert (line in answer_study(made, study(of), records(of)).sharpen) is said


def test_a_decided_study_needs_nothing_more() -> None:
    of = experiment(("glibc", "jemalloc"))
    found = answer_study(summary(of, [effect("jemalloc", "higher", 4.0)]), study(of), records(of))
    assert found.sharpen == ()


def test_a_published_study_of_which_nothing_can_be_compared_is_named() -> None:
    of = experiment(("glibc", "jemalloc"), published=("study-1", "study-3"))
    made = summary(of, [effect("jemalloc", "higher", 4.0)])
    assert answer_study(made, study(of), records(of)).sharpen == (
        "No figure of study-1, study-3 has an arm, a load and a metric of this study: none is compared.",
    )
    before = made.model_copy(update={"look": None, "due": False})
    assert not [line for line in answer_study(before, study(of), records(of)).sharpen if "No figure" in line]


def test_a_load_in_doubt_is_named_first_once_for_all_runs() -> None:
    of = experiment(("glibc", "jemalloc"))
    held = DriverFinding(rule="script_held", level="suspect", text="the script held its thread")
    driver = DriverResult(
        driver="dynoload", version="", command=(), transactions=1, queries=1, duration_s=1.0, findings=(held, held)
    )  # fmt: skip
    step = StepRecord(
        id="own-4", workload="script", connections=4, started_unix_ns=1, warmup_s=0, measure_s=1, driver=driver
    )  # fmt: skip
    runs = [one.model_copy(update={"steps": (step,)}) for one in records(of, 2)]
    made = summary(of, [effect("jemalloc", "higher", 4.0)])
    assert answer_study(made, study(of), runs).sharpen == (
        f"own-4 is in doubt in {len(runs)} of {len(runs)} runs: the script held its thread.",
    )


def test_four_times_the_blocks_halve_the_half_width() -> None:
    effects = [effect("jemalloc", "inconclusive", 1.0, 4.0)]
    assert half_width(effects[0]) == pytest.approx(0.04)
    assert blocks_for(0.02, effects, 6, 0.05, looks=False) == 24
    with_looks = blocks_for(0.02, effects, 6, 0.03125, looks=True)
    assert with_looks is not None and with_looks > 24
    assert blocks_for(0.05, effects, 6, 0.05, looks=True) == 6
    assert blocks_for(0.02, [effect("jemalloc", "not_measurable")], 6, 0.05, looks=False) is None


def test_the_verdicts_own_plan_counts_where_there_is_one() -> None:
    of = experiment(("glibc", "jemalloc"), design=DesignSpec(blocks=6))
    planned = effect("jemalloc", "inconclusive", 1.0, 6.0, details={"blocks_needed": 9})
    made = summary(of, [planned], design="blocks", look=None, interleaving=None, alpha=0.05)
    assert answer_study(made, study(of), records(of)).sharpen == (
        "Queries per second: ±6 % now; a verdict needs about 15 blocks, 30 minutes, in a new study: --blocks 15.",
    )


def test_an_interleaved_study_of_a_fixed_number_of_blocks_has_no_looks() -> None:
    of = experiment(("glibc", "jemalloc"), design=DesignSpec(blocks=3))
    made = summary(of, [effect("jemalloc", "higher", 4.0)], 3, look=None, alpha=0.05)
    found = answer_study(made, study(of), records(of, 3))
    assert found.answer[0].startswith("jemalloc serves more queries")
    assert not any("Verdicts are given at" in line for line in found.sharpen)


def test_the_time_left_counts_from_all_blocks_but_the_precision_from_the_look() -> None:
    of = experiment(("glibc", "jemalloc"))
    made = summary(of, [effect("jemalloc", "inconclusive", 1.0, 4.0)], 8, look=6)
    needed = blocks_for(0.02, made.effects, 6, made.alpha, looks=True)
    assert needed is not None
    assert 26 < needed <= 40, "the next look that has so many is at 40"
    (time, look) = answer_study(made, study(of), records(of, 8)).sharpen
    assert f"needs about {duration_words(option_s((40 - 8) * 120))} more" in time
    assert "the next at 10, 2 blocks more, about 4 minutes" in look


@pytest.mark.parametrize(
    ("half", "planned", "line"),
    [
        (6.0, 4, "±6 % now; a verdict needs about 8 minutes more (mydyno resume allocators-1 --time 8m)."),
        (
            6.0,
            9_994,
            "±6 % now; with this noise no interim analysis decides, up to the last one at 40 blocks: use a quieter "
            "host.",
        ),
        (61.0, 4, "too much noise to estimate the time that an answer needs: use a quieter host."),
        (400.0, 9_994, "too much noise to estimate the time that an answer needs: use a quieter host."),
    ],
)
def test_answer_and_claims_state_the_same_time_or_none(half: float, planned: int, line: str) -> None:
    of = experiment(("glibc", "jemalloc"))
    details = {"blocks_needed": planned, "half_width": half / 100}
    made = summary(of, [effect("jemalloc", "inconclusive", 1.0, half, details=details)], strangers=0.34)
    found = answer_study(made, study(of), records(of))
    lines = [one for one in found.sharpen if one.startswith("Queries per second")]
    assert lines == [f"Queries per second: {line}"]
    assert found.sharpen[0].startswith("Other programs used 34 % of the CPU time"), "the cause is the first line"
    claim = NextSteps(made, study(of), records(of))._time(made.effects)
    everything = " ".join((*found.answer, *found.sharpen, claim))
    assert ("minutes more" in claim) == ("minutes more" in line)
    assert "±61" not in everything and "±400" not in everything and "more than ±" not in everything
    if half > 20:
        assert found.answer == (
            "Other programs used 34 % of this host's CPU time: the noise is too large for an answer.",
        )


def test_a_difference_that_a_look_could_show_among_many_that_none_can_is_counted() -> None:
    """Of one comparison alone the claims state a time, so it must not be said that no interim analysis decides any."""
    of = experiment()
    open_ = [
        effect("jemalloc", "inconclusive", 1.0, 6.0, details={"blocks_needed": 9_994}),
        effect("tcmalloc", "inconclusive", 5.0, 6.0, details={"blocks_needed": 34, "facts": [fact("seems_different")]}),
        effect("mimalloc", "inconclusive", 1.0, 6.0, details={"blocks_needed": 9_994}),
    ]
    made = summary(of, open_)
    (line,) = [one for one in answer_study(made, study(of), records(of)).sharpen if one.startswith("Queries")]
    assert "no interim analysis decides more than 1 of 3 comparisons" in line
    claim = NextSteps(made, study(of), records(of))._time(made.effects[1:2])
    assert " more (mydyno resume" in claim and claim.endswith("), if the difference is of this size")


def test_times_are_round_and_numbers_have_few_digits() -> None:
    times = (20, 130, 1500, 3550, 5400, 40_000, 200_000, 1e9)
    assert [duration_words(time) for time in times] == [
        "1 minute", "2 minutes", "25 minutes", "1 hour", "1.5 hours", "11 hours", "2 days", "more than a week",
    ]  # fmt: skip
    needed = (20, 130, 661, 1510, 3500, 3700, 5500, 16_300, 20_000)
    assert [duration_option(time) for time in needed] == ["1m", "3m", "15m", "30m", "1h", "90m", "2h", "5h", "6h"]
    assert [duration_words(option_s(time)) for time in needed] == [
        "1 minute", "3 minutes", "15 minutes", "30 minutes", "1 hour", "1.5 hours", "2 hours", "5 hours", "6 hours",
    ]  # fmt: skip
    assert [half_width_text(share) for share in (0.02, 0.0049, 0.137, 0.61, 1e9)] == [
        "±2 %",
        "±0.49 %",
        "±14 %",
        "a factor of 1.6",
        "a factor of 99",
    ]
    assert [signed(share) for share in (0.042, -0.66, 0.0, 14.0)] == ["+4.2 %", "−66 %", "0 %", "×15"]
    assert [limit_text(ratio) for ratio in (0.9775, 0.875, 1.05)] == ["−2.25 %", "−12.5 %", "+5 %"]


def test_metrics_without_words_of_their_own_are_called_by_name() -> None:
    assert phrase_of("latency_p99_us").more == "a higher 99th-percentile latency"
    assert phrase_of("tpmc_instance_2").short_noun == "New-Order transactions per minute on instance 2"
    assert phrase_of("threads_running").less == "a lower threads_running"


def test_a_reason_is_cut_behind_the_words_of_the_log_and_not_behind_its_times() -> None:
    head = "mariadb-10.11 ended with exit code 1\n  error log: 2026-11-22 20:27:36 0 [ERROR] "
    told = cut(
        f"{head}/opt/server/sbin/mariadbd: unknown variable 'x=1'\n  error log: 261122 20:37:50 [ERROR] Aborting"
    )
    assert told == "mariadb-10.11 ended with exit code 1: unknown variable 'x=1'; Aborting"
    assert cut("the treatment\n is not proved.") == "the treatment is not proved"
    assert cut("a " * 80).endswith("…")


def test_more_blocks_are_not_offered_where_what_lasts_is_in_all_arms() -> None:
    of = experiment(("glibc", "jemalloc"))
    same = effect("jemalloc", "inconclusive", 0.1, 0.5, details={"facts": (fact("may_last"),)})
    found = answer_study(summary(of, [same]), study(of), records(of))
    assert found.answer[0].endswith("but an effect that lasts longer than a slice is in all arms.")
    assert not any("a verdict needs" in line for line in found.sharpen)
