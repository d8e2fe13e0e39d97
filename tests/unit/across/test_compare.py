"""Studies side by side: common ground, verdicts, settings, levels, and what may be concluded."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mydyno.across.arms import arms_table, compare_arms
from mydyno.across.compare import compare_studies
from mydyno.across.history import Key, estimate_of, measured, why_left_out
from mydyno.across.saved import SavedStudy
from mydyno.document.parts import Cell
from mydyno.errors import UserError
from mydyno.model.definition.experiment import ArmSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.definition.specs import SearchSpec
from mydyno.model.stored.comparison import Comparison
from mydyno.model.stored.reasons import ArmFailure
from mydyno.store.study_folder import StudyFolder
from tests.support import fake_interleaved_folder, fake_study_folder
from tests.support.saved_studies import HOST, VARIABLES, experiment, saved, values


def draw(seed: int, *effects: float, **changes: float) -> np.ndarray:
    return values(np.random.default_rng(seed), effects or (0.05, 0.0), **changes)  # type: ignore[arg-type]


def differing(comparison: Comparison) -> dict[str, tuple[str | None, ...]]:
    return {one.name: one.values for group in comparison.settings for one in group.differing}


def test_an_effect_that_differs_is_said_first_with_both_sizes_and_the_interval() -> None:
    a = saved(draw(1, 0.02, 0.0), name="a")
    b = saved(draw(2, 0.12, 0.0), name="b", version="10.11.15-MariaDB")
    found = compare_studies((a, b))
    of_x = next(one for one in found.effects if one.arm == "x")
    assert of_x.differences[0].verdict == "higher"
    assert log(of_x.differences[0].ratio or 1.0) == pytest.approx(0.1, abs=0.02)
    assert found.answer[0].startswith("The effect of x on queries per second is higher in B than in A, in these")
    assert "between" in found.answer[0]
    assert differing(found)["version"] == ("MariaDB 10.11.14", "MariaDB 10.11.15")
    assert any("server's build" in one for one in found.conclusions)
    assert not found.control_levels[0].same_control


def test_a_difference_without_any_differing_setting_is_said_to_be_one_of_sessions() -> None:
    """A host whose state changes an effect gives this: nothing that was recorded explains it."""
    found = compare_studies((saved(draw(1, 0.02, 0.0), name="a"), saved(draw(2, 0.12, 0.0), name="b")))
    assert found.effects[0].differences[0].verdict == "higher"
    assert found.answer[1].startswith("No recorded setting differs: this is the difference between two sessions")
    changed = saved(draw(2, 0.12, 0.0), name="b", variables={**VARIABLES, "innodb_io_capacity": "9"})
    assert not any(
        "No recorded" in one for one in compare_studies((saved(draw(1, 0.02, 0.0), name="a"), changed)).answer
    )


def _sessions(effects: tuple[float, ...]) -> list[SavedStudy]:
    return [
        saved(draw(seed, effect, noise=0.005), experiment(("A", "x")), name=f"allocators-{seed}", day=seed)
        for seed, effect in enumerate(effects, 1)
    ]


def test_a_difference_no_larger_than_sessions_have_is_not_claimed() -> None:
    """The effect is 5 % in the mean of the sessions, and differs by several percent between them."""
    sessions = _sessions((0.02, 0.09, 0.01, 0.08, 0.03, 0.10))
    pair = (sessions[2], sessions[3])
    alone = compare_studies(pair).effects[0].differences[0]
    assert (alone.verdict, alone.sessions, alone.session_sd) == ("higher", 2, None)
    found = compare_studies(pair, [*sessions[:2], *sessions[4:]])
    one = found.effects[0].differences[0]
    assert (one.verdict, one.sessions) == ("inconclusive", 6)
    assert one.session_sd == pytest.approx(0.05, abs=0.03)
    assert (one.ci_low or 1.0) < (alone.ci_low or 1.0)
    assert "within the variation between 6 sessions" in one.reason
    assert "no difference is claimed" in found.answer[0]
    assert "from 6 comparable studies" in found.conclusions[-1]


def test_a_difference_beyond_the_scatter_of_sessions_is_claimed() -> None:
    sessions = _sessions((0.020, 0.022, 0.019, 0.021, 0.020, 0.12))
    found = compare_studies((sessions[4], sessions[5]), sessions[:4])
    assert found.effects[0].differences[0].verdict == "higher"


def test_with_too_few_sessions_their_scatter_is_said_to_be_unknown() -> None:
    sessions = _sessions((0.02, 0.03, 0.02))
    found = compare_studies(sessions[:2], sessions[2:])
    assert found.effects[0].differences[0].session_sd is None
    assert found.conclusions[-1].startswith("The variation between sessions is not known: to estimate it, 4")
    assert "and 3 are found" in found.conclusions[-1]


def test_sessions_on_another_host_say_nothing_of_the_scatter() -> None:
    sessions = _sessions((0.02, 0.09, 0.01, 0.08))
    other = saved(draw(9, 0.03), experiment(("A", "x")), name="allocators-9", host={**HOST, "hostname": "vm-8"})
    assert compare_studies((sessions[0], other), sessions[1:]).effects[0].differences[0].sessions == 0


def test_effects_that_are_alike_are_equivalent_only_from_six_blocks_on() -> None:
    quiet = {"noise": 0.001}
    for blocks, verdict in ((8, "equivalent"), (5, "inconclusive")):
        a = saved(draw(3, 0.05, blocks=blocks, **quiet), experiment(("A", "x")), name="a")
        b = saved(draw(4, 0.05, blocks=blocks, **quiet), experiment(("A", "x")), name="b")
        assert compare_studies((a, b)).effects[0].differences[0].verdict == verdict


def test_the_first_study_is_the_reference_and_all_contrasts_are_held_together() -> None:
    several = [saved(draw(seed), name=f"s{seed}") for seed in (5, 6, 7)]
    found = compare_studies(several)
    assert [one.label for one in found.studies] == ["A", "B", "C"]
    assert found.contrasts == 4
    assert [(one.first, one.second) for one in found.effects[0].differences] == [("A", "B"), ("A", "C")]
    alone = compare_studies(several[:2]).effects[0].differences[0]
    assert (found.effects[0].differences[0].ci_high or 0.0) > (alone.ci_high or 0.0)


def loads(**step: Any) -> Experiment:
    return experiment().model_copy(update={"steps": (StepSpec(**step),)})


def test_what_has_no_common_ground_is_refused_with_the_reason() -> None:
    other = loads(workload="oltp_read_write", connections=(16,))
    options = loads(workload="oltp_read_only", connections=(4,), options={"range_size": 5})
    a = saved(draw(8), name="a")
    for study, reason in ((other, "no load level in common"), (options, "options differ")):
        found = compare_studies((a, saved(draw(9), study, name="b")))
        assert not found.comparable
        assert found.effects == ()
        assert "cannot be compared" in found.answer[0]
        assert reason in found.answer[0]


@pytest.mark.parametrize(
    ("load", "one", "other", "words"),
    [
        (
            {"workload": "oltp_read_only"}, {"search": SearchSpec(metric="latency_p99_us", limit=0.02)},
            {"search": SearchSpec(metric="latency_p99_us", limit=0.01)},
            "A: search of rate: p99 ≤ 20 ms; B: search of rate: p99 ≤ 10 ms",
        ),
        ({"workload": "replay", "replay": "shop.capture"}, {}, {"statements": True}, "A: defaults; B: statements=on"),
    ],
)  # fmt: skip
def test_another_objective_or_the_comparison_of_statements_is_another_load(
    load: dict[str, Any], one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    pair = [loads(connections=(4,), **load, **own) for own in (one, other)]
    found = compare_studies([saved(draw(seed), of, name=f"s{seed}") for seed, of in enumerate(pair)])
    assert f"its options differ ({words})" in found.answer[0]


def test_another_number_of_instances_is_a_setting_that_differs_and_another_control() -> None:
    found = compare_studies((saved(draw(20), name="a"), saved(draw(21), experiment(instances=4), name="b")))
    assert differing(found) == {"instances": ("1", "4")}
    assert "x is defined differently (instances)" in found.effects[0].note
    assert not found.control_levels[0].same_control


def external(server: str, name: str, **facts: Any) -> SavedStudy:
    study = saved(draw(20), experiment(server=ServerSpec(dsn=f"mysql://bench@{server}/sbtest")), name=name)
    return replace(study, study=study.study.model_copy(update=facts))


def test_external_servers_are_two_hosts_where_they_listen_at_two_places_or_have_other_facts() -> None:
    one, other = external("db1", "a"), external("db2", "b")
    found = compare_studies((one, other))
    assert differing(found) == {"external server": ("mysql://bench@db1/sbtest", "mysql://bench@db2/sbtest")}
    assert "The one recorded setting that differs is external server." in " ".join(found.conclusions)
    assert not found.control_levels[0].same_control
    assert why_left_out(other, one) == "another host (server db2:3306)"
    small, large = (external("db1", f"{cpus}", server_host={"hostname": "db-1", "cpus": cpus}) for cpus in (8, 16))
    assert differing(compare_studies((small, large))) == {"server's cpus": ("8", "16")}
    assert why_left_out(large, small) == "another host (cpus 16)"


def test_a_metric_whose_meaning_changed_is_not_compared() -> None:
    a, b = saved(draw(10), name="a", latency=True), saved(draw(11), name="b", latency=True)
    renamed = b.summary.metrics["latency_p99_us"].model_copy(update={"description": "of statements"})
    summary = b.summary.model_copy(update={"metrics": {**b.summary.metrics, "latency_p99_us": renamed}})
    found = compare_studies((a, SavedStudy(b.folder, b.study, b.plan, summary, b.runs)))
    assert {one.metric for one in found.effects} == {"qps"}
    assert [one.what for one in found.not_compared] == ["metric latency_p99_us"]


def test_steps_that_one_study_lacks_do_not_hide_why_the_common_ones_are_not_compared() -> None:
    a = saved(draw(10), experiment(steps=1), name="a")
    b = saved(np.repeat(draw(11), 6, axis=2), experiment(steps=6), name="b")
    renamed = b.summary.metrics["qps"].model_copy(update={"description": "of statements"})
    summary = b.summary.model_copy(update={"metrics": {"qps": renamed}})
    found = compare_studies((a, SavedStudy(b.folder, b.study, b.plan, summary, b.runs)))
    assert not found.indirect and not found.control_levels, "arms that both have, and a metric of two meanings"
    assert not found.comparable and "(metric qps: its definition differs" in found.answer[0]


def test_a_metric_with_verdicts_that_one_study_lacks_is_named() -> None:
    a, b = saved(draw(10), name="a"), saved(draw(11), name="b")
    twin = [one.model_copy(update={"metric": "tps"}) for one in a.summary.effects]
    metrics = {**a.summary.metrics, "tps": a.summary.metrics["qps"]}
    summary = a.summary.model_copy(update={"effects": (*a.summary.effects, *twin), "metrics": metrics})
    found = compare_studies((SavedStudy(a.folder, a.study, a.plan, summary, a.runs), b))
    assert [(one.what, one.reason) for one in found.not_compared] == [("metric tps", "only A measured it")]
    assert {one.metric for one in found.effects} == {"qps"}


def test_exploratory_metrics_have_unadjusted_intervals_and_no_verdict() -> None:
    found = compare_studies((saved(draw(12), name="a", latency=True), saved(draw(13), name="b", latency=True)))
    of = [one for one in found.effects if one.metric == "latency_p99_us"]
    assert of
    assert all(one.differences[0].verdict is None and not one.primary for one in of)


def test_an_alarm_or_a_failure_makes_a_difference_not_measurable() -> None:
    random = np.random.default_rng(14)
    alarmed = values(random, (0.3,), noise=0.002)
    alarmed[:, 1] += 0.1
    one_arm = experiment(("A", "x"))
    found = compare_studies((saved(draw(15, 0.05), one_arm, name="a"), saved(alarmed, one_arm, name="b")))
    assert found.effects[0].differences[0].verdict == "not_measurable"
    assert "two copies of A differ" in found.effects[0].differences[0].reason


def test_arms_of_different_studies_are_compared_over_a_control_that_is_the_same() -> None:
    a = saved(draw(16, 0.02), experiment(("A", "x")), name="a")
    b = saved(draw(17, 0.12), experiment(("A", "z")), name="b")
    found = compare_studies((a, b))
    (one,) = found.indirect
    assert (one.first_arm, one.second_arm, one.difference.verdict) == ("x", "z", None)
    assert log(one.difference.ratio or 1.0) == pytest.approx(0.1, abs=0.02)
    assert found.comparable
    other = saved(draw(17, 0.12), experiment(("A", "z")), name="b", version="11.8.6-MariaDB")
    assert compare_studies((a, other)).indirect == ()
    assert not compare_studies((a, other)).comparable


def test_an_arm_that_is_defined_differently_is_named() -> None:
    changed = experiment(("A", "x", "y"))
    arms = (*changed.arms[:2], ArmSpec(name="y", treatments={"environment": {"ARM": "other"}}))
    found = compare_studies(
        (saved(draw(18), name="a"), saved(draw(19), changed.model_copy(update={"arms": arms}), name="b"))
    )
    notes = {one.arm: one.note for one in found.effects}
    assert notes["x"] == ""
    assert "y is defined differently (environment.ARM)" in notes["y"]


def test_equal_settings_are_counted_and_those_that_differ_are_named() -> None:
    b = saved(draw(21), name="b", host={**HOST, "kernel": "6.12.1"}, variables={**VARIABLES, "innodb_io_capacity": "9"})
    found = compare_studies((saved(draw(20), name="a"), b))
    assert differing(found) == {"kernel": ("6.1.0", "6.12.1"), "innodb_io_capacity": ("200", "9")}
    assert sum(len(group.equal) for group in found.settings) > 20
    assert "2 recorded settings differ" in " ".join(found.conclusions)


def test_a_file_that_was_edited_between_two_studies_is_a_setting_that_differs() -> None:
    pair = []
    for name, sha256 in (("a", "1f3a9c2e"), ("b", "77e04c11")):
        one = saved(draw(20), name=name)
        pair.append(replace(one, study=one.study.model_copy(update={"files": {"/home/ann/shop.sql": sha256}})))
    found = compare_studies(tuple(pair))
    assert differing(found) == {"file shop.sql": ("1f3a9c2e", "77e04c11")}
    assert not found.control_levels[0].same_control
    driver = loads(workload="oltp_read_only", connections=(4,), driver="sysbench")
    found = compare_studies((pair[0], saved(draw(21), driver, name="c")))
    assert not found.control_levels[0].same_control


def test_the_versions_of_servers_stand_in_the_order_of_the_arms_not_of_the_runs() -> None:
    a = saved(draw(20))
    old, new = "5.7.22", "8.0.31"
    control = a.study.experiment.control
    runs = [
        run.model_copy(update={"servers": (run.servers[0].model_copy(update={"version": version}),)})
        for run in a.runs
        for version in [old if run.arm == control else new]
    ]
    orders = [SavedStudy(a.folder, a.study, a.plan, a.summary, made) for made in (tuple(runs), tuple(reversed(runs)))]
    assert orders[0].server == orders[1].server == "MySQL 5.7.22, MySQL 8.0.31"


def test_the_level_of_the_control_shows_how_far_the_sessions_are_apart() -> None:
    a, b = saved(draw(22), name="a"), saved(draw(23, level=9.3), name="b")
    (level,) = compare_studies((a, b)).control_levels
    assert level.same_control
    assert log(level.ratio) == pytest.approx(0.3, abs=0.05)
    assert (level.ci_low or 0.0) < level.ratio < (level.ci_high or 0.0)


def test_a_study_before_its_first_look_has_no_effects_to_compare() -> None:
    early = saved(draw(24), name="b", design="interleaved", due=False)
    found = compare_studies((saved(draw(25), name="a"), early))
    assert not found.comparable
    assert "B has not reached the first interim analysis" in found.answer[0]


def test_a_study_named_twice_is_an_error() -> None:
    one = saved(draw(26), name="a")
    with pytest.raises(UserError, match="named twice"):
        compare_studies((one, one))


def test_the_error_of_an_effect_is_recovered_from_its_stored_interval() -> None:
    study = saved(draw(27), name="a", latency=True, alpha=0.004, look=10)
    for record in study.summary.effects:
        found = estimate_of(record, study.summary.alpha)
        level = 0.004 if record.verdict else 0.05
        interval = found.interval(level, 1 - level)
        assert interval.low == pytest.approx(record.details.single_low)
        assert found.p() == pytest.approx(record.details.p_t)


def test_the_error_of_an_arm_that_is_noisier_by_itself_has_its_own_freedom() -> None:
    """Among all contrasts it is no noisier than chance, and its verdict is by pooled noise."""
    of_its_own = 0
    for seed in range(20):
        logs = draw(seed)
        logs[:, 2] += np.random.default_rng(seed).normal(0, 0.008, logs[:, 2].shape)
        for record in saved(logs, name="a", latency=True).summary.effects:
            assert estimate_of(record, 0.05).p() == pytest.approx(record.details.p_t), seed
            of_its_own += record.details.single_freedom != record.details.freedom
    assert of_its_own > 0


def test_what_one_study_calls_not_measurable_is_not_compared() -> None:
    studies = [saved(draw(seed), experiment(("A", "x")), name=f"allocators-{seed}", day=seed) for seed in (1, 2)]
    (one,) = studies[1].summary.effects
    lost = one.model_copy(
        update={"verdict": "not_measurable", "details": one.details.model_copy(update={"lost": {"x: not steady": 20}})}
    )
    studies[1] = replace(studies[1], summary=studies[1].summary.model_copy(update={"effects": (lost,)}))
    (difference,) = compare_studies((studies[0], studies[1])).effects[0].differences
    assert (
        difference.verdict == "not_measurable" and "blocks are not used: x: not steady (20 blocks)" in difference.reason
    )
    key = Key("effect", one.metric, one.step, "x", "A")
    assert measured(studies, key).missing == (studies[1].name,)


def test_arms_have_declared_verdicts_or_intervals_alone() -> None:
    study = saved(draw(28, 0.05, 0.09), name="a")
    found = compare_arms(study, ("x", "A", "y"))
    of = {one.arm: one for one in found.effects}
    assert of["A"].declared
    assert of["A"].verdict == "lower"
    assert log(of["A"].ratio or 1.0) == pytest.approx(-0.05, abs=0.02)
    assert not of["y"].declared
    assert of["y"].verdict is None
    assert log(of["y"].ratio or 1.0) == pytest.approx(0.04, abs=0.02)
    assert (of["y"].ci_low or 9.0) < (of["y"].ratio or 0.0) < (of["y"].ci_high or 0.0)
    assert "declare it" in found.conclusions[1]


def test_of_a_contrast_that_is_turned_round_the_arm_that_failed_is_named() -> None:
    study = saved(draw(28, 0.05), experiment(("A", "x")), name="a")
    (one,) = study.summary.effects
    failure = ArmFailure(who="arm", blocks=2, tried=8, why={"crashed": 2})
    failed = one.model_copy(
        update={"ratio": None, "ci_low": None, "ci_high": None, "verdict": "not_measurable",
                "details": one.details.model_copy(update={"failure": failure})}
    )  # fmt: skip
    study = replace(study, summary=study.summary.model_copy(update={"effects": (failed,)}))
    (sentence,) = compare_arms(study, ("x", "A")).answer
    assert sentence == "A against x, queries per second: the control x failed in 2 of 8 blocks (crashed)."


def test_under_an_alarm_no_difference_of_arms_is_claimed_nor_one_over_the_control() -> None:
    alarmed = draw(14, 0.3, 0.1, noise=0.002)
    alarmed[:, 1] += 0.1
    found = compare_arms(saved(alarmed, name="a"), ("x", "A", "y"))
    (said,) = found.answer
    assert said.startswith("Two equal servers differ, so no difference is claimed: two copies of A differ")
    assert {one.arm for one in found.effects} == {"A", "y"}
    cells = [row[1] for row in arms_table(found).rows if len(row) > 1]
    assert {cell.word for cell in cells if isinstance(cell, Cell)} == {"not measurable"}
    a, b = (
        saved(alarmed[:, :3], experiment(("A", "x")), name="a"),
        saved(draw(17, 0.1), experiment(("A", "z")), name="b"),
    )
    assert compare_studies((a, b)).indirect == ()
    assert compare_studies((b, a)).indirect == ()


@pytest.mark.parametrize(
    ("arms", "message"), [(("x",), "two different"), (("x", "x"), "two different"), (("A", "z"), "no such arm")]
)
def test_wrong_arms_are_an_error(arms: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        compare_arms(saved(draw(29), name="a"), arms)


def test_a_saved_study_is_read_from_its_folder(tmp_path: Path) -> None:
    folder = fake_interleaved_folder.build(tmp_path / "allocators-1")
    found = SavedStudy.read(folder.path)
    assert found.server_of["glibc"] == "MariaDB 10.11.14"
    assert len(found.copies("qps", "oltp_read_only-64")) == 6


def spoil(folder: StudyFolder, how: str) -> None:
    if how == "older":
        path = folder.path / "study.json"
        path.write_text(path.read_text().replace('"format": 6', '"format": 0'))
    elif how == "half":
        path = folder.path / "summary.json"
        path.write_bytes(path.read_bytes()[:1000])
    elif how == "no plan":
        (folder.path / "plan.json").unlink()
    else:
        (folder.path / "summary.json").unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [("older", "format 0; this mydyno reads format"), ("half", "summary.json cannot be read"),
     ("no plan", "plan.json cannot be read"), ("running", "has no summary")],
)  # fmt: skip
def test_an_old_or_half_written_study_gives_a_clear_message(how: str, message: str, tmp_path: Path) -> None:
    folder = fake_study_folder.build(
        tmp_path / "allocators-1", fake_study_folder.Shape(arms=("glibc", "jemalloc"), connections=(16,), blocks=1)
    )
    spoil(folder, how)
    with pytest.raises(UserError, match=message) as caught:
        SavedStudy.read(folder.path)
    assert len(caught.value.message.splitlines()[0]) < 400
