"""Studies with a time on a fake host: looks, more time by resume, and which look a late study comes to."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.execution.interleaved.study_time import StudyTime, overhead_s
from mydyno.execution.planning.time_plan import next_look_s, shape_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.plan import EARLY, SIX, interim_aimed_at
from mydyno.model.stored.summary import Summary
from mydyno.store.study_folder import StudyFolder
from mydyno.study import resume_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script
from tests.support.study_times import allowing, left_after_blocks, with_time
from tests.unit.execution.interleaved.test_study import STEP, interleaved, noisy, study


async def test_with_a_time_no_effect_is_examined_before_a_look(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """On a host so slow that a block takes as long as the whole study should."""
    noisy(script, 0.5)
    asked = with_time(interleaved(), 6)
    whole_s = asked.design.time or 0.0
    timing = left_after_blocks(lambda done: whole_s * (1.01 - done))
    _, summary, watcher = await study(script, paths, tmp_path, asked, timing)
    assert summary.look is None
    assert all(effect.verdict in (None, "inconclusive", "not_measurable") for effect in summary.effects)
    assert len(watcher.ended) == 3 * 3


@pytest.mark.parametrize("copies", [1, 2])
async def test_a_study_with_a_time_is_continued_by_more_time(
    copies: int, script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, first_summary = await aimed(script, paths, tmp_path, [6], copies=copies)
    first = folder.plan()
    assert first.sequential and len(first_summary.runs) == 6 * (2 + copies)
    watcher = Watched(script)
    folder, summary = await resume_study(folder.path, paths, watcher, opener(script), time_s=600, timing=allowing([10]))
    assert folder.plan().blocks[: len(first.blocks)] == first.blocks
    assert len(folder.plan().blocks) == 10
    assert [run.folder for run in summary.runs] == [run.folder for run in folder.plan().runs]
    assert len(summary.runs) == 10 * (2 + copies)


async def test_more_time_that_leads_to_no_look_is_refused_with_the_shortest_that_does(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _ = await aimed(script, paths, tmp_path, [6])
    with pytest.raises(UserError, match=r"has 6 blocks, and its next interim analysis, at 10, takes about ") as refused:
        await resume_study(folder.path, paths, Watched(script), opener(script), time_s=6)
    assert re.fullmatch(r"use --time \d+m", str(refused.value.hint))
    assert not folder.missing_runs(folder.plan()), "and nothing was begun"


async def test_the_shortest_time_that_is_taken_leads_to_a_look_however_long_preparations_take(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _ = await aimed(script, paths, tmp_path, [6])
    asked = folder.study().experiment
    least_s = next_look_s(shape_of(asked), 6, overhead_s(folder)) + 1.0
    time = StudyTime(folder, asked, folder.plan(), least_s)
    time.began_s -= 0.9 * least_s
    assert time.aim().blocks == 10
    assert not time.is_over(6)


async def aimed(
    script: Script,
    paths: HostPaths,
    tmp_path: Path,
    allowed: Sequence[int],
    cycles: int = 2,
    late_s: Callable[[int], float | None] = lambda _: None,
    said: list[str] | None = None,
    copies: int = 1,
) -> tuple[StudyFolder, Summary]:
    """A study of which the time allows so many blocks before its first block, after it, and so on; nothing decides."""
    noisy(script, 0.0)
    what = with_time(interleaved(), allowed[0], cycles)
    design = what.design.model_copy(update={"copies": copies})
    verdict = what.verdict.model_copy(update={"margin": 0.00001})
    what = what.model_copy(update={"design": design, "verdict": verdict})
    folder, summary, watcher = await study(script, paths, tmp_path, what, allowing(allowed, late_s))
    if said is not None:
        said += watcher.said
    return folder, summary


@pytest.mark.slow
async def test_the_look_that_the_time_allows_has_most_of_the_error_rate(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """Blocks take less time than planned at first, then more. Small changes of the time move no goal."""
    folder, summary = await aimed(script, paths, tmp_path, [10, 16, 16, 16, 16, 16, 16, 10])
    aims = [(event["blocks"], event["after"]) for event in folder.journal.read() if event["event"] == "aim"]
    assert aims == [(16, 1), (10, 7)]
    assert (summary.look, summary.alpha, summary.state) == (10, 0.036, "complete")
    assert summary.looks == folder.plan().looks == interim_aimed_at(10).rates


@pytest.mark.slow
async def test_blocks_made_after_a_look_change_nothing_of_what_it_showed(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """Six blocks and two more give exactly the effects of the six, whose coefficients are not those of all eight."""
    folder, _ = await aimed(script, paths, tmp_path, [10], cycles=8)

    def first(blocks: int) -> Summary:
        for block in range(blocks + 1, 11):
            shutil.rmtree(folder.block_path(block), ignore_errors=True)
        return summarise(folder)

    eight, six = first(8), first(6)
    assert eight.look == six.look == 6
    assert {run.block for run in eight.runs} == set(range(1, 9))
    assert all(run.values for run in eight.runs), "later blocks have values too"
    assert eight.effects == six.effects
    assert eight.interleaving is not None
    assert six.interleaving is not None
    assert six.interleaving.coefficients[STEP]["qps"]
    assert eight.interleaving.coefficients == six.interleaving.coefficients
    assert eight.interleaving.cycles == six.interleaving.cycles / 6 * 8


@pytest.mark.slow
async def test_a_look_that_was_examined_keeps_its_error_rate(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, first = await aimed(script, paths, tmp_path, [*[6] * 6, 10])
    _, second = await resume_study(
        folder.path, paths, Watched(script), opener(script), time_s=600, timing=allowing([10])
    )
    assert [(one.look, one.alpha) for one in (first, second)] == [(6, 0.036), (10, 0.004)]
    assert second.looks == folder.plan().looks == SIX.rates


@pytest.mark.slow
async def test_where_blocks_take_longer_than_planned_the_early_look_is_aimed_for(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, first = await aimed(script, paths, tmp_path, [6, 6, 4, 4, 6])
    assert (first.look, first.alpha, len(folder.plan().blocks), first.state) == (4, 0.036, 4, "complete")
    assert folder.plan().looks == interim_aimed_at(EARLY).rates
    _, second = await resume_study(
        folder.path, paths, Watched(script), opener(script), time_s=600, timing=allowing([6])
    )
    assert (second.look, second.alpha) == (6, 0.004)


async def test_a_study_that_is_late_goes_on_to_its_first_look(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    lines: list[str] = []
    _, summary = await aimed(script, paths, tmp_path, [6], 1, lambda done: 60.0 if done else None, lines)
    assert (summary.look, summary.state) == (4, "complete")
    (said,) = (line for line in lines if "longer here than planned" in line)
    assert "continues to its first interim analysis, at 4 blocks, about " in said


async def test_where_the_time_is_spent_the_look_aimed_for_falls(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """Ten blocks were aimed for; the time is spent after the seventh."""
    lines: list[str] = []
    folder, summary = await aimed(script, paths, tmp_path, [10], 1, lambda done: 150.0 if done >= 7 else None, lines)
    assert (summary.look, summary.alpha, summary.state) == (7, 0.036, "complete")
    assert folder.plan().looks == interim_aimed_at(7).rates
    assert not [line for line in lines if "longer here than planned" in line]


async def test_a_study_with_a_fixed_number_of_blocks_is_not_continued(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    with pytest.raises(UserError, match="fixed number of blocks"):
        await resume_study(folder.path, paths, Watched(script), opener(script), time_s=60)


async def test_resuming_a_complete_study_without_a_time_runs_nothing(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _ = await aimed(script, paths, tmp_path, [6])
    before = len(script.events)
    await resume_study(folder.path, paths, Watched(script), opener(script))
    assert len(script.events) == before
