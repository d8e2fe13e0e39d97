from __future__ import annotations

from typing import Any

import pytest

from mydyno.analysis.published import fact_clauses
from mydyno.analysis.published.figures import compare_with_published, figures_of
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.published_studies import TableFigure, published_studies
from mydyno.experiments import built_in, load, source_of, vocabulary
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.metrics import METRICS
from mydyno.model.stored.summary import EffectRecord, LimitRecord
from tests.support.fake_script import experiment

EXAMPLE = {"variable": ("vary.variables.sync_binlog=[0,1]",)}
GLIBC, JEMALLOC = {"allocator": "glibc"}, {"allocator": "jemalloc"}


def effect(arm: str, control: str, ratio: float, half: float, step: str = "oltp_read_write-16") -> EffectRecord:
    return EffectRecord(
        metric="qps", step=step, arm=arm, control=control, n=8, ratio=ratio, ci_low=ratio - half, ci_high=ratio + half,
        p=0.01, verdict="higher" if ratio > 1 else "lower", primary=True,
    )  # fmt: skip


def asked(control: dict[str, Any], other: dict[str, Any]) -> Any:
    return experiment(
        ("a", "b"),
        treatments={"a": control, "b": other},
        published=("study-3",),
        steps=(StepSpec(workload="oltp_read_write", connections=(16, 32)),),
    )


def test_all_published_studies_are_there_with_figures_above_zero() -> None:
    studies = published_studies()
    named = {name for one in built_in() for name in load(one, settings=EXAMPLE.get(one, ()))[0].published}
    assert named == set(studies)
    assert all(figure.ratio > 0 for study in studies.values() for figure in figures_of(study))
    assert all(any(figures_of(study)) for study in studies.values())


def test_arms_are_matched_by_what_they_do_and_not_by_their_names() -> None:
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [effect("b", "a", 1.14, 0.03)])
    assert (entry.study, entry.step, entry.agreement) == ("study-3", "oltp_read_write-16", "agrees")
    assert entry.published_ratio == pytest.approx(9976.9 / 8788.19)


def test_an_interval_that_does_not_reach_the_published_ratio_disagrees() -> None:
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [effect("b", "a", 0.9, 0.03)])
    assert entry.agreement == "disagrees"
    assert fact_clauses(entry.facts) == (
        "the published +13.5 % points the other way: measured here −13.0 … −7.0 %, lower"
    )


def test_a_published_control_that_is_our_arm_is_compared_by_the_inverse() -> None:
    (entry,) = compare_with_published(asked(JEMALLOC, GLIBC), [effect("b", "a", 0.88, 0.02)])
    assert entry.published_ratio == pytest.approx(8788.19 / 9976.9)
    assert entry.agreement == "agrees"


def test_loads_and_arms_that_the_study_did_not_have_are_not_compared() -> None:
    mimalloc = {"allocator": "mimalloc"}
    assert compare_with_published(asked(GLIBC, mimalloc), [effect("b", "a", 1.1, 0.1)]) == []
    assert compare_with_published(asked(GLIBC, JEMALLOC), [effect("b", "a", 1.1, 0.1, "oltp_read_only-16")]) == []


@pytest.mark.parametrize("verdict", [None, "inconclusive", "not_measurable"])
@pytest.mark.parametrize("ratio", [1.14, 0.9])
def test_an_exploratory_interval_decides_and_an_inconclusive_one_may_disagree(
    verdict: str | None, ratio: float
) -> None:
    undecided = effect("b", "a", ratio, 0.03).model_copy(update={"verdict": verdict})
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [undecided])
    shown = "agrees" if ratio > 1 else "disagrees"
    by_interval = verdict is None or (verdict, shown) == ("inconclusive", "disagrees")
    assert entry.agreement == (shown if by_interval else "cannot tell")


@pytest.mark.parametrize(("half_at_one", "agreement"), [(0.01, "disagrees"), (0.3, "cannot tell")])
def test_the_largest_over_a_sweep_is_refuted_only_if_no_load_can_have_it(half_at_one: float, agreement: str) -> None:
    """Published: −22 % at some load."""
    study = published_studies()["small-datum"]
    figure = next(figures_of(study))
    assert (figure.connections, figure.ratio) == (None, pytest.approx(0.78))
    loaded = experiment(
        (figure.control, figure.arm), treatments=study.arms, published=("small-datum",),
        steps=(StepSpec(workload=figure.workload, connections=(1, 16)),),
    )  # fmt: skip
    effects = [
        effect(figure.arm, figure.control, ratio, half, f"{figure.workload}-{connections}").model_copy(
            update={"verdict": "inconclusive"}
        )
        for connections, ratio, half in ((1, 1.0, half_at_one), (16, 1.0, 0.015))
    ]
    (entry,) = compare_with_published(loaded, effects)
    assert entry.agreement == agreement


def test_published_tps_are_held_against_the_verdict_on_qps_where_tps_have_none() -> None:
    figure = next(figures_of(published_studies()["thread-pool"]))
    assert (figure.metric, figure.instances) == ("tps", 1)
    loaded = experiment(
        (figure.control, figure.arm), treatments=published_studies()["thread-pool"].arms, published=("thread-pool",),
        steps=(StepSpec(workload=figure.workload, connections=(figure.connections,)),),
    )  # fmt: skip
    step = f"{figure.workload}-{figure.connections}"
    queries = effect(figure.arm, figure.control, figure.ratio, 0.03, step)
    transactions = queries.model_copy(update={"metric": "tps", "verdict": None})
    undecided = [one for one in compare_with_published(loaded, [transactions]) if one.step == step]
    assert {one.metric for one in undecided} == {"tps"}
    (entry,) = [one for one in compare_with_published(loaded, [transactions, queries]) if one.step == step]
    assert (entry.metric, entry.agreement, entry.published_ratio) == ("qps", "agrees", pytest.approx(figure.ratio))
    assert "published as TPS" in fact_clauses(entry.notes)


def test_a_study_that_published_tps_and_qps_of_a_load_claims_it_once() -> None:
    """Study 3 has a table of each."""
    queries = effect("b", "a", 1.14, 0.03)
    transactions = queries.model_copy(update={"metric": "tps", "verdict": None})
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [queries, transactions])
    assert (entry.metric, fact_clauses(entry.notes)) == ("qps", "QPS against connections")


def test_an_effect_without_an_interval_cannot_tell() -> None:
    without = effect("b", "a", 1.1, 0.1).model_copy(update={"ci_low": None, "ci_high": None})
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [without])
    assert entry.agreement == "cannot tell"


def test_seconds_for_a_fixed_amount_of_work_are_compared_as_rates() -> None:
    study = published_studies()["study-5"]
    caching = next(f for f in figures_of(study) if f.arm == "caching" and f.workload == "kv_set")
    assert caching.ratio == pytest.approx(2.075 / 140.201)


def test_a_table_whose_rows_are_not_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="needs 2 figures"):
        TableFigure(
            table="t", workload="w", metric="qps", unit="1/s", connections=(1, 2), control="a", values={"a": (1.0,)}
        )


@pytest.mark.parametrize(("limit", "agreement"), [("link", "agrees"), ("server CPU", "cannot tell")])
def test_the_ratio_of_a_full_link_is_compared_only_where_one_was_full(limit: Any, agreement: str) -> None:
    plain = {"tls": "off", "compression": "off"}
    asked_of = experiment(
        ("fast", "slow"),
        treatments={"fast": {"network": "10gbit", **plain}, "slow": {"network": "1gbit", **plain}},
        published=("study-4",),
        steps=(StepSpec(workload="oltp_read_only", connections=(1, 64)),),
    )
    effects = [
        effect("slow", "fast", ratio, 0.01, step).model_copy(update={"metric": "tps"})
        for ratio, step in ((0.83, "oltp_read_only-1"), (0.18, "oltp_read_only-64"))
    ]
    met = LimitRecord(arm="slow", step="oltp_read_only-64", limit=limit)
    one, many = compare_with_published(asked_of, effects, [met])
    assert one.agreement == "agrees", "at one connection nobody's link is full"
    assert many.agreement == agreement


def test_the_five_tests_of_study_2_are_held_against_the_built_in_experiment() -> None:
    isolation = load("cgroup-isolation", "published", [])[0]
    pairs = [("tpmc_per_instance", f"limit-a-{n}", f"none-{n}") for n in (1, 2, 4)]
    pairs += [("tpmc_instance_1", f"limit-a-{n}", "limit-a-1") for n in (2, 4)]
    pairs += [("tpmc_instance_1", f"limit-b-{n}", "limit-b-1") for n in (2, 3, 4)]
    ours = [
        effect(arm, control, 0.95, 0.3, "tpcc-32").model_copy(update={"metric": metric})
        for metric, arm, control in pairs
    ]
    entries = compare_with_published(isolation, ours)
    assert [(entry.metric, entry.arm, entry.control) for entry in entries] == pairs
    assert entries[2].published_ratio == pytest.approx(45286.165 / 41167.834)
    assert entries[0].published_ratio == pytest.approx(16766.666 / 21341.801)


@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("study-1", "allocators-55"),
        ("study-2", "cgroup-isolation"),
        ("study-3", "allocators-57"),
        ("study-4", "network"),
        ("study-5", "memcached-api"),
        ("small-datum", "upgrade"),
        ("binary-log-synced", "commit-cost"),
        ("thread-pool", "many-connections"),
        ("gtid-reports", "gtid"),
        ("percona-lab", "mariadb-or-mysql"),
    ],
)
def test_each_published_figure_is_one_that_the_built_in_experiment_repeats(study: str, name: str) -> None:
    scale = "published" if "published" in source_of(name).tree["scale"] else "standard"
    ours = parse_experiment(source_of(name), vocabulary(), scale)
    arms, steps = [arm.name for arm in ours.arms], ours.resolved_steps
    figures = list(figures_of(published_studies()[study]))
    every = [
        effect(arm, control, 1.0, 0.1, step.id).model_copy(update={"metric": metric})
        for metric in dict.fromkeys(figure.metric for figure in figures)
        for step in steps
        for control in arms
        for arm in arms
        if arm != control
    ]
    entries = compare_with_published(ours, every)
    assert len(entries) == len(figures)
    assert {figure.metric for figure in figures} <= set(METRICS) | {"tpmc_instance_1"}
    assert all(entry.ci_low is not None and entry.agreement for entry in entries)


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_dynoload_drives_the_built_in_experiments_and_sysbench_what_its_studies_published(scale: str) -> None:
    def drivers(name: str, scale: str) -> set[str]:
        return {step.driver for step in load(name, scale, EXAMPLE.get(name, ()))[0].steps}

    assert {name: drivers(name, scale) for name in built_in()} == {name: {"dynoload"} for name in built_in()}
    for name in ("allocators", "allocators-55", "allocators-57"):
        assert drivers(name, "published") == {"sysbench"}


def test_a_figure_at_another_load_is_compared_at_the_nearest_and_says_so() -> None:
    """cgroup-isolation at its default has 4 connections, study 2 has 32."""
    loaded = load("cgroup-isolation")[0]
    step = "tpcc-4"
    assert [one.id for one in loaded.resolved_steps] == [step]

    def measured(arm: str, control: str, ratio: float) -> EffectRecord:
        return effect(arm, control, ratio, 0.02, step).model_copy(update={"metric": "tpmc_per_instance"})

    effects = [
        measured("limit-a-1", "none-1", 0.775),
        measured("limit-a-4", "none-4", 1.25),
        measured("limit-a-4", "limit-a-1", 1.2),
    ]
    found = {(one.arm, one.control): one for one in compare_with_published(loaded, effects)}
    assert set(found) == {("limit-a-1", "none-1"), ("limit-a-4", "none-4"), ("limit-a-4", "limit-a-1")}
    one = found["limit-a-1", "none-1"]
    assert (one.published_ratio, one.agreement) == (pytest.approx(16766.666 / 21341.801), "agrees")
    assert "published at 32 connections, here at 4" in fact_clauses(one.notes)
    assert found["limit-a-4", "none-4"].agreement == "partly"
    of_mean = found["limit-a-4", "limit-a-1"]
    assert "published of instance 1, here of the mean of the instances" in fact_clauses(of_mean.notes)
    assert of_mean.agreement == "cannot tell", "another load may have the other direction"


def test_where_a_load_is_the_same_no_other_is_added() -> None:
    (entry,) = compare_with_published(asked(GLIBC, JEMALLOC), [effect("b", "a", 1.14, 0.03)])
    assert "published at" not in fact_clauses(entry.notes)
