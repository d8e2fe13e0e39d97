"""The answer in short sentences: it says what the verdicts say, names failures, and its times follow the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import UserError
from mydyno.evaluation.answer import answer_study
from mydyno.evaluation.facts import summarise
from mydyno.model.definition.experiment import ArmSpec, DesignSpec, StepSpec
from mydyno.model.definition.specs import SearchSpec
from mydyno.model.metrics import GROWTH
from mydyno.model.stored.reasons import CopiesDiffer, Reason
from mydyno.model.stored.summary import EffectDetails, EffectRecord
from mydyno.results.precision import blocks_for
from mydyno.wording.numbers import whole
from tests.support.fake_answer import COST, METRICS, answer, cost, effect, experiment, records, runs, study, summary
from tests.support.fake_study_folder import Shape, build


def test_two_faster_arms_that_cost_less_are_one_sentence() -> None:
    effects = [effect("jemalloc", "higher", 4.2), effect("tcmalloc", "higher", 6.1)]
    effects += [cost("jemalloc", "lower", -5.0), cost("tcmalloc", "lower", -5.0)]
    assert answer(effects) == (
        "jemalloc (+4.2 %) and tcmalloc (+6.1 %) serve more queries than glibc, at 5 % less CPU per query."
    )


def test_one_arm_has_its_interval() -> None:
    said = answer([effect("jemalloc", "higher", 4.2, 3.0), effect("tcmalloc", "equivalent", 0.1)])
    assert said == (
        "jemalloc serves more queries than glibc: +4.2 % (between +1.2 % and +7.3 %); "
        "tcmalloc is equivalent to glibc within ±2 % in queries per second."
    )


def test_equivalent_arms_with_another_cost() -> None:
    effects = [effect("jemalloc", "equivalent", 0.1), effect("tcmalloc", "equivalent", -0.2)]
    effects += [cost("jemalloc", "lower", -8.0), cost("tcmalloc", "inconclusive", -1.0)]
    assert answer(effects) == (
        "jemalloc and tcmalloc are equivalent to glibc within ±2 % in queries per second; "
        "jemalloc uses 8 % less CPU per query than glibc."
    )


def test_a_host_that_cannot_tell_says_what_it_hides_and_how_long_the_margin_takes() -> None:
    of = experiment()
    made = summary(of, [effect("jemalloc", "inconclusive", 1.0, 6.0), effect("tcmalloc", "inconclusive", 0.2, 5.0)])
    found = answer_study(made, study(of), records(of))
    assert found.answer == (
        "No difference in queries per second is shown yet: differences below about ±6 % are hidden by this host's "
        "noise.",
    )
    needed = blocks_for(0.02, made.effects, 6, made.alpha, looks=True)
    assert needed is not None and needed > 6 * 9, "more blocks than the last look has"
    assert found.sharpen[0] == (
        "Queries per second: ±6 % now; with this noise no interim analysis decides, up to the last one at 40 blocks: "
        "use a quieter host."
    )
    assert not any("Verdicts are given" in line for line in found.sharpen), "beside that no next look is promised"


def test_each_metric_of_the_question_has_its_sentence() -> None:
    def memory(arm: str, verdict: str, percent: float, half: float = 1.0) -> EffectRecord:
        return effect(arm, verdict, percent, half, metric="server_rss_bytes")

    of = experiment()
    effects = [effect("jemalloc", "higher", 4.2), effect("tcmalloc", "inconclusive", 0.2, 5.0)]
    effects += [memory("jemalloc", "higher", 12.0, 2.0), memory("tcmalloc", "inconclusive", 2.0, 4.0)]
    made = summary(of, effects, also_primary=("server_rss_bytes",))
    found = answer_study(made, study(of), records(of))
    assert found.answer == (
        "jemalloc serves more queries than glibc: +4.2 % (between +3.2 % and +5.2 %).",
        "tcmalloc is inconclusive in queries per second: differences below about ±5 % are hidden by this host's noise.",
        "jemalloc uses more resident memory than glibc: +12 % (between +9.8 % and +14.2 %).",
        "tcmalloc is inconclusive in resident memory: differences below about ±4 % are hidden by this host's noise.",
    )
    assert found.further == 2, "the last two are on a further metric: reports set them smaller"
    assert [line.partition(":")[0] for line in found.sharpen[:2]] == ["Queries per second", "Resident memory"]


def test_where_every_step_connects_the_words_are_connections() -> None:
    of = experiment(("plain", "1.3"), steps=(StepSpec(workload="connect", connections=(16,)),))
    cpu = "server_cpu_us_per_transaction"
    effects = [effect("1.3", "lower", -91.0, metric="tps", control="plain")]
    effects += [effect("1.3", "higher", 90.0, metric=cpu, control="plain")]
    made = summary(of, effects, primary="tps", also_primary=(cpu,))
    said = answer_study(made, study(of), records(of)).answer
    assert said[0].startswith("1.3 completes fewer connections per second than plain: −91 %")
    assert said[1].startswith("1.3 uses more CPU per connection than plain: +90 %")
    mixed = (*made.steps, made.steps[0].model_copy(update={"id": "tpcc-16", "workload": "tpcc"}))
    said = answer_study(made.model_copy(update={"steps": mixed}), study(of), records(of)).answer
    assert said[0].startswith("1.3 serves fewer transactions than plain")


def test_what_is_open_beside_what_is_decided_is_named() -> None:
    said = answer([effect("jemalloc", "higher", 4.2), effect("tcmalloc", "inconclusive", 0.2, 5.0)])
    assert "jemalloc serves more queries" in said
    assert (
        "tcmalloc is inconclusive in queries per second: differences below about ±5 % "
        "are hidden by this host's noise." in said
    )


def test_open_comparisons_of_unlike_noise_are_said_by_their_median_and_range() -> None:
    of = experiment(("glibc", "jemalloc", "tcmalloc", "mimalloc", "large"))
    open_ = [("jemalloc", 4.0, 4), ("tcmalloc", 5.0, 10), ("mimalloc", 46.0, 34)]
    effects = [effect(arm, "inconclusive", 1.0, half, details={"blocks_needed": needed}) for arm, half, needed in open_]
    made = summary(of, [effect("large", "lower", -54.0, 6.0), *effects])
    found = answer_study(made, study(of), records(of))
    assert found.answer == (
        "large serves fewer queries than glibc: −54 % (between −56.6 % and −51.2 %).",
        "jemalloc, tcmalloc and mimalloc are inconclusive in queries per second: differences below about ±5 % (±4 % "
        "to a factor of 1.5) are hidden by this host's noise.",
    )
    assert found.sharpen[0].startswith(
        "Queries per second: ±5 % (±4 % to a factor of 1.5) now; 2 of the 3 undecided comparisons need about 20 "
        "minutes more"
    )
    assert found.sharpen[0].endswith("; all, about 70 minutes.") or found.sharpen[0].endswith("; all, about 1 hour.")


def test_a_lower_arm_serves_fewer_and_never_more() -> None:
    said = answer([effect("jemalloc", "lower", -70.0), effect("tcmalloc", "lower", -66.0)])
    assert said == "jemalloc (−70 %) and tcmalloc (−66 %) serve fewer queries than glibc."


def test_under_an_alarm_nothing_is_concluded() -> None:
    alarm = EffectDetails(
        alarm=CopiesDiffer(control="glibc", step="oltp_read_only-64", of="qps", difference=0.031, p=0.01)
    )
    said = answer([effect(arm, "not_measurable", 4.0, details=alarm) for arm in ("jemalloc", "tcmalloc")])
    assert said.startswith("Two equal servers differ, so no conclusion is drawn: two copies of glibc differ")
    assert "jemalloc" not in said and "more" not in said


def test_a_difference_in_memory_begins_with_the_load_after_which_it_was_found() -> None:
    of = experiment()
    effects = [effect("jemalloc", "higher", 4.2), effect("jemalloc", "lower", -4.0, metric="server_rss_bytes")]
    effects += [effect("jemalloc", None, 1.4, metric="server_rss_early_bytes")]
    values = {of.resolved_steps[0].id: {"memory_queries": 431_234.0, "memory_early_queries": 31_000.0, GROWTH: 1.02}}
    made = summary(of, effects, also_primary=("server_rss_bytes",), runs=runs(of, values=values))
    told = answer_study(made, study(of), records(of))
    amount = f"{whole(430_000)} queries of each server"
    assert told.answer[1].startswith(f"After {amount}, jemalloc uses less resident memory than glibc: −4 %")
    beside = (
        f"after {whole(31_000)}: jemalloc +1.4 %; growth per million queries: glibc +2 %, jemalloc +2 %, tcmalloc +2 %"
    )
    assert f"memory after {amount} ({beside});" in told.scope


def test_of_several_steps_the_amounts_of_load_before_memory_is_compared_are_a_range() -> None:
    of = experiment(steps=(StepSpec(workload="oltp_read_only", connections=(16, 64)),))
    first, second = (step.id for step in of.resolved_steps)
    values = {first: {"memory_queries": 200_400.0}, second: {"memory_queries": 401_000.0}}
    lower = effect("jemalloc", "lower", -4.0, metric="server_rss_bytes")
    effects = [effect("jemalloc", "higher", 4.2), lower]
    made = summary(of, effects, also_primary=("server_rss_bytes",), runs=runs(of, values=values))
    told = answer_study(made, study(of), records(of))
    amount = f"{whole(200_000)} to {whole(400_000)} queries of each server"
    assert told.answer[1].startswith(f"After {amount}, jemalloc uses less resident memory")
    assert f"memory after {amount}" in told.scope


def test_half_stolen_the_host_is_named_after_what_is_decided() -> None:
    able = {size: EffectDetails(detectable=size / 100) for size in (18.0, 8.6)}
    effects = [
        effect("jemalloc", "inconclusive", 1.0, 14.0, details=able[18.0]),
        effect("tcmalloc", "inconclusive", 0.2, 12.0, details=able[18.0]),
        cost("jemalloc", "lower", -9.0, 6.0, details=able[8.6]),
        cost("tcmalloc", "inconclusive", -1.0, 5.0, details=able[8.6]),
    ]
    of = experiment()
    made = summary(of, effects, metrics=METRICS, steal=0.52)
    found = answer_study(made, study(of), records(of))
    assert found.answer[0] == "jemalloc uses 9 % less CPU per query than glibc."
    assert found.answer[1].startswith(
        "The hypervisor took 52 % of this host's CPU time: a study such as this one finds differences of 18 % "
        "in queries per second and 8.6 % in CPU per query with 80 % power."
    ), "no time: no look decides with this noise"
    assert found.answer[2] == "All comparisons of queries per second are inconclusive."


@pytest.mark.parametrize(
    ("steal", "strangers", "words"),
    [
        (0.02, 0.55, "Other programs used 55 % of this host's CPU time: a study such as this one finds"),
        (
            0.3,
            0.25,
            "The hypervisor took 30 % of this host's CPU time, and other programs used 25 %: a study",
        ),
        (0.5, 0.04, "The hypervisor took 50 % of this host's CPU time: a study such as this one finds"),
        (0.3, 0.15, ""),
    ],
)
def test_what_other_programs_use_counts_as_what_the_hypervisor_takes(
    steal: float, strangers: float, words: str
) -> None:
    of = experiment()
    able = EffectDetails(detectable=0.18)
    made = summary(of, [effect("jemalloc", "inconclusive", 1.0, 14.0, details=able)], steal=steal, strangers=strangers)
    found = answer_study(made, study(of), records(of))
    assert found.answer[0].startswith(words or "No difference in queries per second is shown")
    named = "Other programs used" in " ".join(found.sharpen)
    assert named == (strangers >= 0.05)


def test_before_the_first_look_there_is_no_answer() -> None:
    said = answer([effect("jemalloc", "higher", 14.0)], blocks=3)
    assert said == "No answer yet: 3 of 6 blocks; continue with: mydyno resume allocators-1 --time 6m."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": ()}, "No answer: no run has finished."),
        ({"effects": ()}, "No answer: the study has no evaluated effect."),
    ],
)
def test_what_cannot_be_answered_says_why(changes: dict[str, Any], words: str) -> None:
    of = experiment()
    made = summary(of, [effect("jemalloc", "higher", 4.0)]).model_copy(update=changes)
    assert answer_study(made, study(of), records(of)).answer == (words,)


def test_one_block_gives_no_interval() -> None:
    of = experiment(("glibc", "jemalloc"), design=DesignSpec(blocks=1))
    only = effect("jemalloc", "inconclusive", 4.0, n=1, ci_low=None, ci_high=None)
    made = summary(of, [only], 1, look=None)
    assert answer_study(made, study(of), records(of, 1)).answer == (
        "No difference in queries per second is shown yet: one block gives no interval.",
    )


def test_a_control_alone_compares_nothing() -> None:
    assert "is the only arm" in answer([], experiment(("glibc",)))


def test_a_control_alone_is_answered_for_only_where_its_runs_count() -> None:
    search = SearchSpec(metric="latency_p99_us", limit=0.02)
    searched = experiment(("glibc",), steps=(StepSpec(workload="oltp_read_only", connections=(64,), search=search),))
    assert answer([], searched).startswith("No capacity was found")
    for of in (searched, experiment(("glibc",))):
        assert answer([], of, blocks=3).startswith("No answer yet: 3 of 6 blocks")
        lost = runs(of, valid=False, reasons=(Reason(check="other", text="no space is left"),))
        assert answer([], of, runs=lost) == "No answer: no run is valid (no space is left)."


def test_an_effect_at_some_levels_says_where() -> None:
    of = experiment(("glibc", "jemalloc"), (16, 64))
    effects = [
        effect("jemalloc", "higher", 4.2),
        effect("jemalloc", "inconclusive", 0.1, 3.0, step="oltp_read_only-16"),
    ]
    said = answer(effects, of)
    assert "jemalloc serves more queries than glibc at 64 connections: +4.2 %" in said
    assert "jemalloc is inconclusive in queries per second at 16 connections" in said


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ({"oltp_read_only-64", "oltp_read_write-64"}, "than glibc at 64 connections: "),
        ({"oltp_read_only-16", "oltp_read_only-64"}, "than glibc with oltp_read_only: "),
        ({"oltp_read_only-64"}, "than glibc at 64 connections (oltp_read_only): "),
        ({"oltp_read_only-64", "oltp_read_write-16"}, "than glibc at 2 of 4 load levels: "),
    ],
)
def test_steps_are_named_by_what_they_share(steps: set[str], words: str) -> None:
    workloads = ("oltp_read_only", "oltp_read_write")
    of = experiment(steps=tuple(StepSpec(workload=one, connections=(16, 64)) for one in workloads))
    effects = [
        effect("jemalloc", "higher" if step in steps else "equivalent", 4.0 if step in steps else 0.1, step=step)
        for step in (f"{workload}-{level}" for workload in workloads for level in (16, 64))
    ]
    assert words in answer(effects, of)


def test_arms_that_differ_at_different_steps_have_a_clause_each() -> None:
    of = experiment(connections=(16, 64))
    small = "oltp_read_only-16"
    effects = [effect("jemalloc", "higher", 4.0), effect("jemalloc", "higher", 3.0, step=small)]
    effects += [effect("tcmalloc", "higher", 9.0), effect("tcmalloc", "equivalent", 0.1, step=small)]
    said = answer(effects, of)
    assert said.startswith("jemalloc serves more queries than glibc: +3 % to +4 %; tcmalloc serves more queries than ")
    assert "glibc at 64 connections: +9 %" in said and "equivalent to glibc within ±2 % in queries" in said


def test_many_arms_are_named_by_the_level_that_they_share() -> None:
    specs = [
        ArmSpec(name=f"{band}-{tls}-{zip_}", treatments={"network": band, "tls": tls, "compression": zip_})
        for band in ("1gbit", "100mbit")
        for tls in ("plain", "tls")
        for zip_ in ("raw", "zlib")
    ]
    of = experiment(specs=specs)
    effects = [
        effect(arm.name, "lower" if "zlib" in arm.name else "equivalent", -70.0 if "zlib" in arm.name else 0.1,
               control="1gbit-plain-raw")
        for arm in specs[1:]
    ]  # fmt: skip
    said = answer(effects, of)
    assert said.startswith("All 4 arms with zlib serve fewer queries than 1gbit-plain-raw: about −70 %; ")


def test_a_level_that_is_compared_at_several_others_has_a_sentence_of_its_own() -> None:
    specs = [
        ArmSpec(name=f"{band}-{zip_}", treatments={"network": band, "compression": zip_})
        for band in ("10gbit", "1gbit", "100mbit")
        for zip_ in ("raw", "zlib")
    ]
    main = {"10gbit-zlib": -54.0, "1gbit-raw": 0.0, "1gbit-zlib": -55.0, "100mbit-raw": -82.0, "100mbit-zlib": -67.0}
    effects = [
        effect(arm, "lower" if size else "inconclusive", size, control="10gbit-raw") for arm, size in main.items()
    ]
    effects += [
        effect("1gbit-zlib", "lower", -53.0, control="1gbit-raw"),
        effect("100mbit-zlib", "higher", 84.0, control="100mbit-raw"),
    ]
    said = answer(effects, experiment(specs=specs))
    assert said.startswith(
        "zlib serves more queries than raw with 100mbit: +84 % (between +82.2 % and +85.8 %); "
        "zlib serves fewer queries than raw with 10gbit and 1gbit: −54 % to −53 %. "
    )
    assert "1gbit-raw is inconclusive" in said
    effects[-1] = effect("100mbit-zlib", "inconclusive", 4.0, 9.0, control="100mbit-raw")
    assert "1gbit-raw and 100mbit-zlib against 100mbit-raw are inconclusive" in answer(effects, experiment(specs=specs))


def test_arms_of_several_controls_are_all_answered_for() -> None:
    def rate(arm: str, control: str, verdict: str, percent: float, half: float = 5.0) -> EffectRecord:
        return effect(arm, verdict, percent, half, control=control)

    of = experiment(("none-1", "limit-1", "none-2", "limit-2", "none-4", "limit-4"))
    effects = [
        rate("limit-1", "none-1", "lower", -27.0), rate("none-2", "none-1", "lower", -40.0),
        rate("none-4", "none-1", "lower", -83.0), rate("limit-2", "none-2", "inconclusive", 37.0, 70.0),
        rate("limit-4", "none-4", "higher", 34.0), rate("limit-2", "limit-1", "higher", 12.0),
        rate("limit-4", "limit-1", "lower", -69.0),
    ]  # fmt: skip
    made = summary(of, effects)
    assert answer_study(made, study(of), records(of)).answer == (
        "limit-1 (−27 %), none-2 (−40 %) and none-4 (−83 %) serve fewer queries than none-1; "
        "limit-4 serves more queries than none-4: +34 % (between +27.6 % and +40.7 %).",
        "limit-2 serves more queries than limit-1: +12 % (between +6.7 % and +17.6 %); "
        "limit-4 serves fewer queries than limit-1: −69 % (between −70.5 % and −67.4 %).",
        "limit-2 against none-2 is inconclusive in queries per second: the noise is too large for an answer.",
    )


def test_no_decided_comparison_of_a_further_metric_is_left_out_for_an_inconclusive_one() -> None:
    names = ("none-1", "limit-1", "none-2", "limit-2", "none-4", "limit-4")
    of = experiment(names)
    pairs = [("limit-1", "none-1"), ("none-2", "none-1"), ("limit-2", "none-2"), ("limit-4", "none-4")]
    effects = [effect(arm, "lower", -40.0, 5.0, control=control) for arm, control in pairs]
    for (arm, control), verdict in zip(pairs, ("inconclusive", "higher", "lower", "lower"), strict=True):
        percent = {"higher": 150.0, "lower": -40.0}.get(verdict, 1.0)
        effects.append(effect(arm, verdict, percent, 5.0, metric="latency_p99_us", control=control))
    made = summary(of, effects, also_primary=("latency_p99_us",))
    said = " ".join(answer_study(made, study(of), records(of)).answer)
    assert "limit-2 has a lower 99th-percentile latency than none-2" in said
    assert "limit-4 has a lower 99th-percentile latency than none-4" in said


def test_an_arm_has_its_size_with_each_workload_and_large_costs_are_factors() -> None:
    steps = {name: (f"{name}-64", StepSpec(workload=name, connections=(64,))) for name in ("oltp_read_only", "insert")}
    of = experiment(("a", "b"), steps=tuple(step for _, step in steps.values()))
    effects = [
        effect("b", "lower", percent, metric=metric, control="a", step=step)
        for metric, sizes in (("qps", (-41.0, -94.0)), (COST, (50.0, 1565.0)))
        for percent, (step, _) in zip(sizes, steps.values(), strict=True)
    ]
    effects[2:] = [one.model_copy(update={"verdict": "higher"}) for one in effects[2:]]
    said = "b serves fewer queries than a: −41 % with oltp_read_only and −94 % with insert, at 1.5 to 17 times the CPU "
    assert answer(effects, of) == said + "per query."


def test_intervals_within_the_margin_that_are_not_yet_a_verdict_say_so() -> None:
    effects = [effect("jemalloc", "inconclusive", 0.1, 0.4), effect("tcmalloc", "higher", 7.0)]
    assert answer(effects).endswith(
        "jemalloc is inconclusive in queries per second: the difference is at most about ±0.5 %, but calling that "
        "equivalent needs more blocks."
    )
    aside = effect("jemalloc", "inconclusive", -1.1, 1.7)  # its interval is narrow, and reaches beyond the margin
    assert "at most" not in answer([aside, effects[1]])
    assert "differences below about ±1.7 % are hidden" in answer([aside, effects[1]])


def test_the_level_that_matters_most_is_named_apart_from_the_rest() -> None:
    specs = [
        ArmSpec(name=f"{band}-{tls}-{zip_}", treatments={"network": band, "tls": tls, "compression": zip_})
        for band in ("1gbit", "100mbit")
        for tls in ("plain", "tls")
        for zip_ in ("raw", "zlib")
    ]
    sizes = {"1gbit-tls-raw": -4.0, "100mbit-plain-raw": -30.0, "100mbit-tls-raw": -38.0}
    of = experiment(specs=specs)
    effects = [
        effect(arm.name, "lower", sizes.get(arm.name, -66.0 if "tls" in arm.name else -70.0), control="1gbit-plain-raw")
        for arm in specs[1:]
    ]
    assert answer(effects, of) == (
        "All 4 arms with zlib serve fewer queries than 1gbit-plain-raw: −70 % to −66 %; 3 other arms: −38 % to −4 %."
    )


def test_a_slower_arm_is_not_left_out_where_another_is_faster() -> None:
    effects = [effect("jemalloc", "higher", 4.0, 1.0), effect("tcmalloc", "lower", -3.0, 1.0)]
    effects += [effect("jemalloc", "inconclusive", 0.5, 3.0, step="oltp_read_only-16"),
                effect("tcmalloc", "inconclusive", 0.5, 3.0, step="oltp_read_only-16")]  # fmt: skip
    said = answer(effects, experiment(connections=(16, 64)))
    assert "jemalloc serves more" in said and "tcmalloc serves fewer" in said and "inconclusive" in said


def test_the_scope_is_said_once_with_what_is_up_together() -> None:
    of = experiment()
    effects = [effect("jemalloc", "higher", 4.0), effect("tcmalloc", "equivalent", 0.1)]
    found = answer_study(summary(of, effects), study(of), records(of))
    assert found.scope == (
        "Host vm-1 (2 CPUs, 4.0 GiB); MariaDB 10.11.14; oltp_read_only at 64 connections; 8 tables of 100,000 rows, "
        "0.18 times the buffer pool of 1.0 GiB; innodb_flush_log_at_trx_commit=1; sync_binlog=0; 6 blocks; 4 servers "
        "up at the same time, one loaded at a time; 2 comparisons tested together by permutation of labels, error rate "
        "3.1 %; 2026-11-18."
    )


def test_an_answer_is_not_followed_by_the_words_that_there_is_none() -> None:
    effects = [effect("jemalloc", "inconclusive", -12.0, 90.0), cost("jemalloc", "higher", 84.0, 30.0)]
    said = answer([*effects, effect("tcmalloc", "inconclusive", -2.0, 90.0)], strangers=0.72)
    assert "jemalloc uses 84 % more CPU per query than glibc. Other programs used 72 % of this host's CPU time." in said
    assert "too large for an answer" not in said


def test_a_fixed_number_of_blocks_is_examined_when_all_are_made_or_the_study_has_ended(tmp_path: Path) -> None:
    shape = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=8)
    folder = build(tmp_path / "part", replace(shape, warmup_s=1, measure_s=3, finished_runs=15))
    part = summarise(folder)
    assert not part.due and {effect.n for effect in part.effects} == {0}
    found = answer_study(part, folder.study(), tuple(folder.runs()))
    assert found.answer == ("No answer yet: 5 of 8 blocks; continue with: mydyno resume part.",)
    folder.journal.append("study_finished", state="partial")
    assert 5 in {effect.n for effect in summarise(folder).effects}, "as many blocks as could be made"


def test_a_finished_run_that_the_plan_lacks_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    shape = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=3)
    folder = build(tmp_path / "longer", replace(shape, warmup_s=1, measure_s=3))
    begun = folder.path / "blocks/.04.other.unfinished/1-glibc"
    begun.mkdir(parents=True)
    (begun / "run.json").write_text("{}")
    assert summarise(folder).state == "complete", "what is not in its place yet is no run"
    folder.write_plan(folder.plan().ending_at(2))
    with pytest.raises(UserError, match=r"blocks/03/\w+-\w+/run.json is of a run that plan.json lacks"):
        summarise(folder)
