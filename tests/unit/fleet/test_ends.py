# mypy: disable-error-code="arg-type"
"""When a study over host groups ends: at a look, when its time is spent, or because more runs would not help."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mydyno.errors import StudyError
from mydyno.fleet import controller
from mydyno.fleet.controller import EXCLUDED_EVENT, FleetRequest, resume_on_groups, run_on_groups
from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import opener
from tests.support.fake_fleet import FakeHosts, FleetWatched, groups, interleaved, journal, study
from tests.support.fake_script import Script, experiment

pytestmark = pytest.mark.usefixtures("lost_groups_stay_lost")


async def test_the_time_is_divided_by_the_rounds_of_blocks(hosts: FakeHosts, paths: HostPaths) -> None:
    """Two groups, a look at six blocks: three rounds, each of a third of the time."""
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), interleaved(time=120.0))
    lengths = [length for link in hosts.links.values() for length in link.lengths_s]
    assert len(lengths) == len(watcher.committed) == len(folder.plan().blocks)
    assert summary.look == 6 or len(folder.plan().blocks) > 6
    rounds = -(-len(lengths) // 2)
    assert min(lengths) >= 0.9 * 120 / rounds


async def test_a_study_whose_time_is_spent_ends_at_a_look_and_more_time_aims_at_a_later_one(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller._Fleet, "_left_s", lambda _: 0.0)
    watcher, studies = FleetWatched(), hosts.folder.parent / "studies"
    request = FleetRequest(
        interleaved(time=600.0), "name = 'fake'", studies, groups("a"), decided=lambda _folder, _summary: False
    )
    folder, summary = await run_on_groups(request, paths, watcher, hosts)
    blocks = len(folder.plan().blocks)
    assert (summary.state, summary.look) == ("complete", blocks)
    _, summary = await resume_on_groups(folder.path, paths, watcher, hosts, time_s=600.0)
    (aim,) = journal(folder, "aim")
    assert (blocks, aim["after"], aim["blocks"], summary.look) == (6, 6, 16, 10)


@pytest.mark.parametrize(
    ("kind", "words", "blocks"),
    [
        ("interleaved", "the control glibc failed in 3 blocks in a row (on a): no such file", [1, 2, 3]),
        ("blocks", "4 runs in a row are invalid; the last one (on a): no such file", [1, 2]),
    ],
)
async def test_failures_in_a_row_end_a_study_that_can_be_resumed(
    hosts: FakeHosts, paths: HostPaths, script: Script, kind: str, words: str, blocks: list[int]
) -> None:
    script.start_error = lambda _arm, _copy: "no such file"
    asked = interleaved(blocks=5) if kind == "interleaved" else experiment(design={"blocks": 5})
    with pytest.raises(StudyError, match=re.escape(words)):
        await study(hosts, paths, ("a",), asked)
    (path,) = (hosts.folder.parent / "studies").iterdir()
    assert sorted({run.block for run in StudyFolder.open(path).runs()}) == blocks
    script.start_error = lambda _arm, _copy: None
    watcher = FleetWatched()
    await resume_on_groups(path, paths, watcher, hosts)
    assert sorted({run.block for run in StudyFolder.open(path).runs()}) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("kind", "why", "blocks"),
    [
        ("interleaved", "the control glibc failed in 3 blocks in a row (on b): no such file", 3),
        ("blocks", "4 runs in a row are invalid; the last one (on b): no such file", 2),
    ],
)
async def test_a_group_on_which_blocks_fail_in_a_row_gets_no_more_and_the_others_finish(
    hosts: FakeHosts, paths: HostPaths, script: Script, kind: str, why: str, blocks: int
) -> None:
    hosts.openers["b"] = opener(replace(script, start_error=lambda _arm, _copy: "no such file"))
    asked = interleaved(blocks=9) if kind == "interleaved" else experiment(design={"blocks": 9})
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), asked)
    assert summary.state == "complete"
    assert watcher.lost == [("b", why, True)]
    assert [(one["group"], one["why"]) for one in journal(folder, EXCLUDED_EVENT)] == [("b", why)]
    made = [run.host_group for run in folder.runs() if (run.arm, run.copy_number) == ("glibc", 1)]
    assert (made.count("a"), made.count("b")) == (9 - blocks, blocks)
