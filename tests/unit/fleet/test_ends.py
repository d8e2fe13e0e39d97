# mypy: disable-error-code="arg-type"
"""When a study over host groups ends: at a look, when its time is spent, or because more runs would not help."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from mydyno.errors import StudyError
from mydyno.execution.interleaved.order import BlockOrder
from mydyno.execution.study_record import Request
from mydyno.fleet.controller import EXCLUDED_EVENT, resume_on_groups, run_on_groups
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.live import LivePrecision
from mydyno.store.samples import ALONE_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import opener
from tests.support.fake_fleet import FakeHosts, FleetWatched, groups, interleaved, journal, study
from tests.support.fake_script import Script, experiment
from tests.support.live_records import live_records
from tests.support.study_times import allowing, with_time

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
    hosts: FakeHosts, paths: HostPaths
) -> None:
    watcher, studies = FleetWatched(), hosts.folder.parent / "studies"
    request = Request(
        with_time(interleaved(), 16), "name = 'fake'", studies, decided=lambda _folder, _summary: False,
        timing=allowing([16, 16, 16, 16, 16, 16, 6]),
    )  # fmt: skip
    folder, summary = await run_on_groups(request, groups("a"), paths, watcher, hosts)
    blocks = len(folder.plan().blocks)
    assert (summary.state, summary.look, blocks) == ("complete", 6, 6)
    _, summary = await resume_on_groups(folder.path, paths, watcher, hosts, time_s=600.0, timing=allowing([10]))
    aims = [(aim["after"], aim["blocks"]) for aim in journal(folder, "aim")]
    assert (aims, summary.look, summary.alpha) == ([(6, 6)], 10, 0.004)


async def test_the_time_is_divided_by_the_blocks_up_to_the_look_that_is_aimed_for(
    hosts: FakeHosts, paths: HostPaths
) -> None:
    """Sixteen blocks planned; after the sixth one there is time for ten."""
    waiting: dict[int, int] = {}

    class Recorded(allowing([16] * 6 + [10])):  # type: ignore[misc]
        def order(self, block: int, waits: int) -> BlockOrder:
            waiting[block] = waits
            return super().order(block, waits)

    asked = with_time(interleaved(), 16)
    request = Request(
        asked, "name = 'fake'", hosts.folder.parent / "studies", decided=lambda _folder, _summary: False,
        timing=Recorded,
    )  # fmt: skip
    await run_on_groups(request, groups("a"), paths, FleetWatched(), hosts)
    assert waiting == {block: 17 - block for block in range(1, 7)} | {block: 11 - block for block in range(7, 11)}


async def test_a_late_study_counts_the_groups_that_still_execute_blocks(
    hosts: FakeHosts, paths: HostPaths, script: Script
) -> None:
    """On b the control fails in three blocks: then a makes the others alone."""
    hosts.openers["b"] = opener(replace(script, start_error=lambda _arm, _copy: "no such file"))
    groups_left: list[int] = []

    class Late(allowing([10], lambda done: 60.0 if done > 8 else None)):  # type: ignore[misc]
        def late(self, look: int, done: int) -> str | None:
            said = super().late(look, done)
            if said:
                groups_left.append(self.groups)
            return said

    await study(hosts, paths, ("a", "b"), with_time(interleaved(), 10, groups=2), Late)
    assert groups_left == [1]


async def test_blocks_that_take_less_time_than_planned_lead_to_a_later_look(
    hosts: FakeHosts, paths: HostPaths, script: Script
) -> None:
    """Two groups, six blocks planned; after the third one there is time for ten or eleven.

    A fourth may have ended meanwhile.
    """
    random = Random(1)
    script.slice_qps = lambda *_: random.gauss(1000, 10)
    asked = with_time(interleaved(), 6, groups=2)
    asked = asked.model_copy(update={"verdict": asked.verdict.model_copy(update={"margin": 0.00001})})
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), asked, allowing([6, 6, 6, 10]))
    *_, aim = journal(folder, "aim")
    assert aim["blocks"] in (10, 11)
    assert (summary.state, summary.look, summary.alpha) == ("complete", aim["blocks"], 0.036)
    assert len(watcher.committed) == len(folder.plan().blocks) == aim["blocks"]


async def test_a_study_that_is_late_says_so_and_goes_on_to_its_first_look(hosts: FakeHosts, paths: HostPaths) -> None:
    asked = with_time(interleaved(), 6, groups=2)
    timing = allowing([6], lambda done: 60.0 if done else None)
    _, summary, watcher = await study(hosts, paths, ("a", "b"), asked, timing)
    assert (summary.state, summary.look) == ("complete", 6)
    (said,) = (line for line in watcher.said if "longer here than planned" in line)
    assert "continues to its first interim analysis, at 6 blocks, about " in said


async def test_the_first_block_has_a_pilot_and_the_control_alone(hosts: FakeHosts, paths: HostPaths) -> None:
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), interleaved(blocks=6))
    (pilot,) = journal(folder, "pilot")
    first = next(run.host_group for run in folder.runs() if run.block == 1)
    assert (pilot["of"], pilot["host_group"]) == (6, first)
    assert any(line.startswith(f"{first}: pilot") for line in watcher.said)
    made_none = [one for one in live_records(folder.path) if isinstance(one, LivePrecision) and one.made == 0]
    assert [one.blocks for one in made_none] == [6]
    assert [one.arm for one in read_slices(folder.block_path(1) / ALONE_FILE)] == ["glibc"] * 8
    assert summary.interleaving is not None and summary.interleaving.alone is not None


async def test_two_groups_on_which_blocks_fail_one_after_the_other_end_the_study(
    hosts: FakeHosts, paths: HostPaths, script: Script
) -> None:
    """On b from the first block, on a from its fourth."""
    made = Counter[str]()

    def fails_from(group: str, first: int) -> Script:
        def error(arm: str, copy: int) -> str | None:
            made[group] += (arm, copy) == ("glibc", 1)
            return "no such file" if arm == "glibc" and made[group] >= first else None

        return replace(script, start_error=error)

    hosts.openers |= {"a": opener(fails_from("a", 4)), "b": opener(fails_from("b", 1))}
    with pytest.raises(StudyError, match=re.escape("the control glibc failed in 3 blocks in a row (on a): no such")):
        await study(hosts, paths, ("a", "b"), interleaved(blocks=20))
    (path,) = (hosts.folder.parent / "studies").iterdir()
    folder = StudyFolder.open(path)
    assert [one["group"] for one in journal(folder, EXCLUDED_EVENT)] == ["b"]
    runs = [run.host_group for run in folder.runs() if (run.arm, run.copy_number) == ("glibc", 1)]
    assert (runs.count("a"), runs.count("b")) == (6, 3)


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
    events = [(event["event"], event.get("group")) for event in folder.journal.read()]
    at = events.index((EXCLUDED_EVENT, "b"))
    assert events[at - 1] == ("block_committed", "b"), "before the group could begin another block"
    made = [run.host_group for run in folder.runs() if (run.arm, run.copy_number) == ("glibc", 1)]
    assert (made.count("a"), made.count("b")) == (9 - blocks, blocks)
