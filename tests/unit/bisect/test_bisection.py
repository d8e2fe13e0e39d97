"""Bisections on a fake host with noise: decisions, skips, ends that do not differ, and interruptions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from mydyno.bisect.bisection import run_bisection
from mydyno.bisect.compare import BisectFolder, experiment_for
from mydyno.errors import StudyError
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.definition.plan import INTERIM_BLOCKS
from mydyno.model.definition.special_steps import CAPACITIES
from mydyno.model.stored.bisection import BisectResult
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_bisection import HOST, STEP, KilledError, World, made_history
from tests.support.fake_script import Script

pytestmark = pytest.mark.slow

TIME_S = 200.0


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository with COMMITS commits in a line; bisections only read it."""
    return made_history(tmp_path_factory.mktemp("history") / "source")


@pytest.fixture
def world(paths: HostPaths, history: tuple[Path, list[str]], script: Script) -> World:
    repository, commits = history
    return World(paths, repository, commits, script)


def outcomes(world: World, result: BisectResult) -> Mapping[int, str]:
    return {world.commits.index(one.commit.hash): one.outcome for one in result.comparisons}


async def test_the_commit_that_made_it_slower_is_found(world: World, tmp_path: Path) -> None:
    world.effects = {6: -0.05, 3: -0.004}
    folder = await world.folder(tmp_path / "one")
    result = await world.run(folder)
    assert result.state == "found"
    assert result.first_bad is not None
    assert (result.first_bad.hash, result.first_bad.subject) == (world.commits[6], "Commit 6")
    assert outcomes(world, result) == {4: "good", 6: "bad", 5: "good"}
    assert result.ends is not None
    assert result.ends.limit == pytest.approx(0.973, abs=0.01)
    assert result.remainder is None
    for one in result.comparisons:
        assert one.ratio == pytest.approx(world.rate(world.commits.index(one.commit.hash)) / 1000, abs=0.03)
        assert one.low is not None
        assert one.high is not None
        assert one.low < one.ratio < one.high
        assert (folder.path / one.study / "study.json").is_file()
        assert one.blocks == 6
    assert folder.result() == result


@pytest.mark.parametrize(
    ("effects", "found", "named", "is_from"),
    [
        pytest.param({4: -0.5, 5: 1.0, 7: -0.2}, 4, "more", 5, id="undone by the next commit"),
        pytest.param(
            {2: -0.2, 7: -0.15}, 2, "less", 2, id="a later commit makes it worse still", marks=pytest.mark.exhaustive
        ),
    ],
)
async def test_a_commit_that_is_not_all_the_ends_differ_by_is_told_with_the_command_that_goes_on(
    world: World, tmp_path: Path, effects: dict[int, float], found: int, named: str, is_from: int
) -> None:
    world.effects, world.slice_sd, world.seed = effects, 0.005, 3
    asked = ("mydyno", "bisect", "--good", "old", "--bad=new", "--time", "5 m", "my_patch.toml")
    folder = await world.folder(tmp_path / "one", command=asked, threshold=0.1)
    result = await world.run(folder)
    assert result.state == "found"
    assert result.first_bad is not None
    assert result.remainder is not None
    good, bad = world.commits[is_from][:12], world.commits[-1][:12]
    assert result.remainder.command == f"mydyno bisect --good {good} --bad={bad} --time '5 m' my_patch.toml"
    assert (result.first_bad.hash, result.remainder.named) == (world.commits[found], named)


@pytest.mark.exhaustive
async def test_a_bad_end_that_alone_comes_after_the_named_commit_leaves_no_command(
    world: World, tmp_path: Path
) -> None:
    world.effects, world.slice_sd = {7: -0.5, 8: 0.6}, 0.005
    result = await world.run(await world.folder(tmp_path / "one"))
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[7]
    assert result.remainder is not None
    assert (result.remainder.named, result.remainder.command) == ("more", "")


async def test_equal_ends_are_told_and_nothing_else_is_compared(world: World, tmp_path: Path) -> None:
    world.slice_sd = 0.003
    result = await world.run(await world.folder(tmp_path / "one"))
    assert (result.state, result.comparisons, world.tested) == ("no difference", (), [])


async def test_a_bad_end_that_is_better_is_told(world: World, tmp_path: Path) -> None:
    world.effects = {4: 0.2}
    result = await world.run(await world.folder(tmp_path / "one"))
    assert (result.state, result.comparisons) == ("better", ())


async def test_ends_that_noise_hides_cannot_be_told(world: World, tmp_path: Path) -> None:
    world.effects, world.slice_sd = {4: -0.02}, 0.3
    result = await world.run(await world.folder(tmp_path / "one"))
    assert (result.state, result.comparisons) == ("undecided", ())
    assert result.ends is not None
    assert result.ends.comparison.reason


@pytest.mark.exhaustive
async def test_ends_whose_control_differs_from_its_copy_are_compared_once_more(world: World, tmp_path: Path) -> None:
    world.effects, world.alarms = {6: -0.05}, 1
    world.seed = 2  # by chance the copies differ once in 32 times, in the second comparison, too
    folder = await world.folder(tmp_path / "one")
    result = await world.run(folder)
    assert result.state == "found"
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[6]
    assert result.ends is not None
    assert "-again-" in result.ends.comparison.study
    assert len([one for one in folder.studies.iterdir() if "-again-" in one.name]) == 1


async def test_a_control_that_always_differs_from_its_copy_decides_nothing(world: World, tmp_path: Path) -> None:
    world.effects, world.alarms = {6: -0.05}, 99
    folder = await world.folder(tmp_path / "one")
    result = await world.run(folder)
    assert result.state == "undecided"
    assert len(list(folder.studies.iterdir())) == 2
    assert await world.run(folder) == result, "it is not compared a third time"


@pytest.mark.exhaustive
async def test_what_does_not_build_start_or_run_is_skipped_and_the_range_is_told(world: World, tmp_path: Path) -> None:
    world.effects = {4: -0.2}
    world.broken, world.silent, world.crashing = frozenset({4}), frozenset({3}), frozenset({5})
    result = await world.run(await world.folder(tmp_path / "one"))
    why = {world.commits.index(one.commit.hash): one.skipped_because for one in result.comparisons}
    assert {4: "build", 3: "start", 5: "failed"}.items() <= why.items()
    (unbuilt,) = (one.reason for one in result.comparisons if one.skipped_because == "build")
    assert unbuilt == "the build of 4 failed; the whole log: /logs/4.log"
    assert result.state == "range"
    assert [one.subject for one in result.suspects] == ["Commit 3", "Commit 4", "Commit 5", "Commit 6"]
    assert result.first_bad is None


@pytest.mark.exhaustive
async def test_a_threshold_makes_smaller_changes_good(world: World, tmp_path: Path) -> None:
    world.effects = {2: -0.05, 6: -0.2}
    result = await world.run(await world.folder(tmp_path / "one", threshold=0.1))
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[6]
    assert result.ends is not None
    assert result.ends.limit == pytest.approx(0.9)
    small = await world.run(await world.folder(tmp_path / "two", threshold=0.4))
    assert (small.state, small.comparisons) == ("no difference", ())


STEPS = {
    "sql": {"sql": "/files/shop.sql"},
    "replay": {"replay": "/files/log.jsonl"},
    "script": {"script": "/files/shop.lua"},
    "search": {"workload": "oltp_read_write", "search": {"metric": "latency_p99_us", "limit": 0.02}},
}


@pytest.mark.parametrize("kind", STEPS)
async def test_one_load_level_of_a_step_keeps_all_that_the_step_has(world: World, tmp_path: Path, kind: str) -> None:
    step = StepSpec.model_validate({**STEPS[kind], "connections": [4, 8], "warmup": 1, "measure": 8, "driver": "d"})
    asked = world.experiment(STEP, step)
    name = asked.resolved_steps[-1].id
    record = (await world.folder(tmp_path / "one", experiment=asked)).record()
    (only,) = experiment_for(record, record.bad, name, None).resolved_steps
    assert only == asked.resolved_steps[-1]
    assert (only.connections, only.driver) == (8, "d")


async def test_of_an_open_loop_the_rate_of_the_step_is_kept(world: World, tmp_path: Path) -> None:
    asked = world.experiment(StepSpec(workload="oltp_read_write", connections=(4, 8), rate=(100, 200)))
    record = (await world.folder(tmp_path / "one", experiment=asked)).record()
    for step in asked.resolved_steps:
        assert experiment_for(record, record.bad, step.id, None).resolved_steps == (step,)


@pytest.mark.exhaustive
async def test_a_commit_is_found_with_a_step_of_sql_transactions(world: World, tmp_path: Path) -> None:
    world.effects = {6: -0.1}
    (shop := tmp_path / "shop.sql").write_text("-- transaction: one\nSELECT 1;\n")
    asked = world.experiment(StepSpec.model_validate({"sql": str(shop), "connections": 4}), blocks=6, cycles=2)
    folder = await world.folder(tmp_path / "one", experiment=asked)
    result = await world.run(folder)
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[6]
    for one in result.comparisons:
        (step,) = StudyFolder.open(folder.path / one.study).study().experiment.resolved_steps
        assert (step.id, step.workload, step.sql) == ("shop-4", "shop", str(shop))


@pytest.mark.exhaustive
async def test_a_commit_is_found_with_a_search_for_the_capacity(world: World, tmp_path: Path) -> None:
    world.effects, random = {6: -0.3}, Random(1)
    tools = world.tools()
    world.script.capacity = lambda arm, _copy, _order: (
        3 * world.rate_of(arm) * random.lognormvariate(0, 0.03)
    )  # fmt: skip
    asked = world.experiment(StepSpec.model_validate({**STEPS["search"], "connections": 4}), blocks=6, cycles=10)
    folder = await world.folder(tmp_path / "one", experiment=asked, metric=CAPACITIES["rate"])
    result = await run_bisection(folder, world.repository, HOST, tools)
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[6]
    for one in result.comparisons:
        assert one.ratio == pytest.approx(world.rate(world.commits.index(one.commit.hash)) / 1000, abs=0.05)


@pytest.mark.exhaustive
async def test_a_step_whose_name_repeats_is_the_same_in_every_comparison(world: World, tmp_path: Path) -> None:
    """The second of two equal names has a number that it loses where it is alone."""
    world.effects = {6: -0.1}
    second = STEP.model_copy(update={"options": {"range_size": 7}})
    asked = world.experiment(STEP, second, blocks=6, cycles=2)
    folder = await world.folder(tmp_path / "one", experiment=asked, step="oltp_read_only-4-2")
    result = await world.run(folder)
    assert result.state == "found"
    assert result.ends is not None
    for one in (result.ends.comparison, *result.comparisons):
        (step,) = StudyFolder.open(folder.path / one.study).study().experiment.resolved_steps
        assert step.options == {"range_size": 7}


@pytest.fixture
def on_the_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices take their time on the clock alone."""
    monotonic, monotonic_ns = time.monotonic, time.monotonic_ns
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + world.skipped_s)
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic_ns() + round(1e9 * world.skipped_s))


@pytest.mark.usefixtures("on_the_clock")
async def test_a_commit_that_is_clearly_bad_ends_its_study_at_an_interim_analysis(world: World, tmp_path: Path) -> None:
    world.effects, world.slice_sd = {1: -0.5}, 0.003
    asked = world.experiment(time=10 * TIME_S)
    result = await world.run(await world.folder(tmp_path / "one", experiment=asked, threshold=0.1))
    assert {one.outcome for one in result.comparisons} == {"bad"}
    assert {one.blocks for one in result.comparisons} <= set(INTERIM_BLOCKS[:2])
    assert max(one.duration_s for one in result.comparisons) < 5 * TIME_S


@pytest.mark.exhaustive
@pytest.mark.usefixtures("on_the_clock")
async def test_an_undecided_commit_gets_more_time_and_is_then_skipped(world: World, tmp_path: Path) -> None:
    """Commit 4 is exactly at the limit, which no time decides."""
    world.effects = {4: -0.1, 5: -0.3}
    asked = world.experiment(time=TIME_S)
    result = await world.run(
        await world.folder(tmp_path / "one", experiment=asked, threshold=0.1, longest_s=2 * TIME_S)
    )
    (first, *_) = result.comparisons
    assert (first.commit.subject, first.outcome, first.skipped_because) == ("Commit 4", "skipped", "undecided")
    assert first.times > 1
    assert first.blocks in INTERIM_BLOCKS[1:], "time that leads to no look is not spent"
    assert TIME_S < first.duration_s <= 2.2 * TIME_S
    assert result.state == "range"


async def test_an_interrupted_bisection_goes_on_where_it_was(world: World, tmp_path: Path) -> None:
    world.effects, world.killed_at = {6: -0.1}, 6
    world.seed = 2  # by chance the copies differ in one of the first seed's comparisons
    folder = await world.folder(tmp_path / "one")
    with pytest.raises(KilledError):
        await world.run(folder)
    kept = [path.name for path in folder.studies.iterdir()]
    unfinished = folder.result()
    assert unfinished is not None
    assert (unfinished.state, unfinished.left) == ("unfinished", 4)
    result = await world.run(BisectFolder.open(folder.path))
    assert result.first_bad is not None
    assert result.first_bad.hash == world.commits[6]
    assert set(kept) <= {path.name for path in folder.studies.iterdir()}, "the interrupted study was continued"
    assert len(list(folder.studies.iterdir())) == 1 + len(result.comparisons)
    before = list(world.tested)
    assert await world.run(folder) == result
    assert world.tested == before, "a complete bisection compares nothing again"


async def test_a_control_that_fails_ends_the_bisection_and_skips_nothing(world: World, tmp_path: Path) -> None:
    world.effects = {6: -0.1}
    folder = await world.folder(tmp_path / "one")
    tools = world.tools()
    world.script.start_error = lambda arm, _copy: "no memory" if arm == "good" else None
    with pytest.raises(StudyError, match="the control good failed in 3 blocks"):
        await run_bisection(folder, world.repository, HOST, tools)
    assert folder.comparisons() == []
