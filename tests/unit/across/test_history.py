"""A history over studies: which count, what changed, and how often nothing is called a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from mydyno.across.history import FoundStudies, Selection, history_of
from mydyno.across.saved import SavedStudy
from mydyno.errors import UserError
from mydyno.model.definition.experiment import ArmSpec, DataSpec, StepSpec
from mydyno.model.definition.specs import SearchSpec
from mydyno.model.stored.comparison import History, LeftOut
from mydyno.store.study_folder import StudyFolder
from tests.support.saved_studies import HOST, experiment, saved, values
from tests.support.simulated import at_most, simulated

ONE_ARM = experiment(("A", "x"))


def studies(
    count: int, seed: int = 1, at: int | None = None, size: float = 0.08, noise: float = 0.01
) -> list[SavedStudy]:
    """Studies of one host; from the one at `at` the effect is larger and the server newer."""
    random, found = np.random.default_rng(seed), []
    for day in range(count):
        later = at is not None and day >= at
        logs = values(random, (0.05 + (size if later else 0.0),), noise=noise, level=9.0 + random.normal(0.0, 0.05))
        version = "10.11.15-MariaDB" if later else "10.11.14-MariaDB"
        found.append(saved(logs, ONE_ARM, name=f"allocators-{day:02d}", day=day, version=version))
    return found


def history(found: Sequence[SavedStudy], selection: Selection | None = None, *unreadable: LeftOut) -> History:
    return history_of(FoundStudies(tuple(found), tuple(unreadable)), "allocators", selection)


def test_a_change_is_named_with_its_study_its_size_and_the_versions() -> None:
    made = history(studies(10, at=6))
    effect = made.series[0]
    (change,) = effect.changes
    assert (effect.kind, change.study, change.before) == ("effect", "allocators-06", "allocators-05")
    assert log(change.ratio) == pytest.approx(0.08, abs=0.02)
    assert change.ci_low < change.ratio < change.ci_high
    assert change.changed[0] == "version: MariaDB 10.11.14 → MariaDB 10.11.15"
    assert made.answer[0].startswith("The effect of x on queries per second is higher by ")
    assert "since allocators-06" in made.answer[0]
    assert "server MariaDB 10.11.14 → MariaDB 10.11.15" in made.answer[0]
    assert [(one.first, one.last, one.studies) for one in effect.levels] == [
        ("allocators-00", "allocators-05", 6), ("allocators-06", "allocators-09", 4),
    ]  # fmt: skip


def test_without_a_change_the_answer_says_what_would_have_been_found() -> None:
    made = history(studies(10))
    assert made.answer[0].startswith("No change is shown since 2026-11-")
    assert "would have been found" in made.answer[0]
    assert all(one.changes == () and one.detectable for one in made.series)


@pytest.mark.slow
def test_histories_without_a_change_show_one_in_at_most_5_percent() -> None:
    """Two series, of the effect and of the control's level, which scatters between sessions by 5 %."""
    count = simulated(60)
    wrong = sum(any(one.changes for one in history(studies(8, seed)).series) for seed in range(100, 100 + count))
    assert at_most(wrong / count, count)


def test_three_studies_show_nothing_and_two_are_referred_to_compare() -> None:
    assert "4 are needed" in history(studies(3)).answer[0]
    assert "`mydyno compare`" in history(studies(2)).answer[0]


def with_file(study: SavedStudy, sha256: str) -> SavedStudy:
    """The study with a file of the user's own."""
    return replace(study, study=study.study.model_copy(update={"files": {"/home/ann/shop.sql": sha256}}))


def test_studies_that_are_not_comparable_are_left_out_with_the_reason() -> None:
    random = np.random.default_rng(2)
    found = studies(4)
    other_data = ONE_ARM.model_copy(update={"data": DataSpec(tables=4, rows=5000)})
    other_arm = ONE_ARM.model_copy(
        update={"arms": (ONE_ARM.arms[0], ArmSpec(name="x", treatments={"environment": {"ARM": "z"}}))}
    )
    other_control = ONE_ARM.model_copy(
        update={"arms": (ArmSpec(name="A", treatments={"environment": {"ARM": "z"}}), ONE_ARM.arms[1])}
    )
    alarmed = values(random, (0.05,), noise=0.002)
    alarmed[:, 1] += 0.1
    found += [
        saved(values(random, (0.05,)), ONE_ARM, name="allocators-host", host={**HOST, "hostname": "vm-8"}),
        saved(values(random, (0.05,)), other_data, name="allocators-data"),
        saved(values(random, (0.05,)), other_arm, name="allocators-arm"),
        saved(values(random, (0.05,)), other_control, name="allocators-control"),
        saved(alarmed, ONE_ARM, name="allocators-alarm"),
    ]
    found.sort(key=lambda study: study.study.created_unix_ns)
    found = [with_file(one, "1f3a9c2e") for one in found]
    found.append(with_file(saved(values(random, (0.05,)), ONE_ARM, name="allocators-file"), "77e0"))
    found.sort(key=lambda study: study.study.created_unix_ns)
    made = history(found, None, LeftOut(study="allocators-half", reason="summary.json cannot be read"))
    reasons = {one.study: one.reason for one in made.left_out}
    assert reasons["allocators-host"] == "another host (hostname vm-8)"
    assert reasons["allocators-data"] == "other data (data.rows 5000)"
    assert reasons["allocators-control"] == "arm A is defined differently (environment.ARM)"
    assert "allocators-arm" not in reasons, "the control's level counts: another arm is defined differently"
    assert "two equal servers differ" in reasons["allocators-alarm"]
    assert reasons["allocators-half"] == "summary.json cannot be read"
    assert reasons["allocators-file"] == "other data (file shop.sql 77e0)"
    assert set(made.studies) == {*(f"allocators-{day:02d}" for day in range(4)), "allocators-arm"}
    effect, level = made.series
    assert ("allocators-arm" in effect.missing, "allocators-arm" in level.missing) == (True, False)
    assert (len(effect.points), len(level.points)) == (4, 5)


def test_another_objective_and_another_number_of_instances_are_left_out() -> None:
    def searched(day: int, limit: float = 0.02, **changes: object) -> SavedStudy:
        search = SearchSpec(metric="latency_p99_us", limit=limit)
        step = StepSpec(workload="oltp_read_only", connections=(4,), search=search)
        of = ONE_ARM.model_copy(update={"steps": (step,), **changes})
        return saved(values(np.random.default_rng(day), (0.05,)), of, name=f"allocators-{day}", day=day)

    made = history([searched(0, limit=0.01), searched(1, instances=4), *map(searched, range(2, 6))])
    assert {one.study: one.reason for one in made.left_out} == {
        "allocators-0": "other load: it has no load level in common with the newest study",
        "allocators-1": "arm A is defined differently (instances)",
    }


def test_of_copies_the_one_with_the_most_runs_counts_once() -> None:
    """A copy may have been continued under its own name."""
    found = studies(4)
    copy = found[1]
    more = copy.summary.model_copy(update={"runs": (*copy.summary.runs, copy.summary.runs[0])})
    found[2:2] = [
        SavedStudy(StudyFolder(Path(name)), copy.study, copy.plan, summary, copy.runs)
        for name, summary in (("copy", copy.summary), ("continued", more))
    ]
    made = history(found)
    assert made.studies == ("allocators-00", "continued", "allocators-02", "allocators-03")
    assert {one.study: one.reason for one in made.left_out} == dict.fromkeys(
        ("allocators-01", "copy"), "it is the same study as continued"
    )
    assert [len(one.points) for one in made.series] == [4, 4]


def test_a_study_whose_arm_failed_is_missing_in_its_series_alone() -> None:
    found = studies(5)
    broken = found[2]
    effects = tuple(
        one.model_copy(update={"ratio": None, "verdict": "not_measurable"}) for one in broken.summary.effects
    )
    summary = broken.summary.model_copy(update={"effects": effects})
    found[2] = SavedStudy(broken.folder, broken.study, broken.plan, summary, broken.runs)
    effect, level = history(found).series
    assert (effect.missing, len(effect.points)) == (("allocators-02",), 4)
    assert (level.missing, len(level.points)) == ((), 5)


def test_a_study_with_a_zero_among_its_values_is_missing_in_the_series_of_levels() -> None:
    found = studies(5)
    one, step = found[2], found[2].summary.steps[0].id
    runs = [run.model_copy(update={"values": {step: {"qps": 0.0}}}) if (run.arm, run.block) == ("A", 3) else run
            for run in one.summary.runs]  # fmt: skip
    found[2] = replace(one, summary=one.summary.model_copy(update={"runs": tuple(runs)}))
    _, level = history(found).series
    assert (level.missing, len(level.points)) == (("allocators-02",), 4)


def test_options_select_the_series() -> None:
    made = history(studies(4), Selection(arm="x"))
    assert [(one.kind, one.arm) for one in made.series] == [("effect", "x"), ("level", "x")]
    for selection, message in (
        (Selection(arm="z"), "--arm z"), (Selection(step="oltp"), "--step oltp"),
        (Selection(metric="tps"), "--metric tps"), (Selection(host="vm-9"), "--host vm-9"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            history(studies(4), selection)


def test_an_unknown_experiment_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="no readable study of alocators") as caught:
        history_of(FoundStudies(tuple(studies(2)), ()), "alocators")
    assert "did you mean 'allocators'" in caught.value.hint
