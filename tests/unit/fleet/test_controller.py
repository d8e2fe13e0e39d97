# mypy: disable-error-code="arg-type"
"""A study over host groups: who executes what, and every way in which a host can be lost."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError, UserError
from mydyno.execution.study_record import Request
from mydyno.files.atomic import sha256_of
from mydyno.fleet import block, cluster, controller
from mydyno.fleet.cluster import FleetLive, Leases
from mydyno.fleet.controller import resume_on_groups, run_on_groups
from mydyno.fleet.runner import GroupRunner
from mydyno.hosts.lock import study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec, StepSpec
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.stored.live import LiveEnded, LiveOpened, LivePrecision, LiveRun, LiveSecond
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import opener
from tests.support.fake_fleet import FakeHosts, FleetWatched, Mishaps, groups, interleaved, journal, study
from tests.support.fake_script import Script, experiment
from tests.support.live_records import live_records
from tests.support.patience import HANG_S
from tests.support.worded import worded

pytestmark = pytest.mark.usefixtures("lost_groups_stay_lost")


@pytest.mark.parametrize("kind", ["interleaved", "blocks"])
async def test_every_block_is_executed_once_and_wholly_by_one_group(
    hosts: FakeHosts, paths: HostPaths, kind: str
) -> None:
    asked = interleaved(blocks=5) if kind == "interleaved" else experiment(design={"blocks": 5})
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), asked)
    assert summary.design == kind and summary.state == "complete"
    assert sorted(block for _, block in watcher.committed) == [1, 2, 3, 4, 5]
    assert {group for group, _ in watcher.committed} == {"a", "b"}
    by_block = {one["block"]: one["group"] for one in journal(folder, "block_committed")}
    assert len(by_block) == 5
    for run in folder.runs():
        assert run.host_group == by_block[run.block]
    assert {run.block for run in folder.runs()} == {1, 2, 3, 4, 5}
    assert folder.study().host_groups == groups("a", "b")
    assert set(folder.study().hosts) == {"a", "b"}
    assert not [path for name in "ab" for path in (hosts.folder / name / "studies").iterdir()], "hosts are cleaned"


@pytest.mark.parametrize("kind", ["interleaved", "blocks"])
async def test_live_jsonl_shows_the_groups_and_what_they_finish(
    hosts: FakeHosts, paths: HostPaths, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "INTERVAL_S", 0.0)  # as many lines as the loop has turns
    hosts.mishaps["b"] = Mishaps(loses_block=lambda _: True)
    asked = interleaved() if kind == "interleaved" else experiment(design={"blocks": 4})
    folder, summary, _ = await study(hosts, paths, ("a", "b"), asked)
    found = live_records(folder.path)
    assert isinstance(found[0], LiveOpened) and isinstance(found[-1], LiveEnded)
    assert (found[-1].state, summary.state) == ("complete", "complete")
    assert found[-1].answer == worded(folder).answer
    seconds = [one for one in found if isinstance(one, LiveSecond)]
    assert {one.group for one in seconds} == {"", "a", "b"}
    assert [one.state for one in seconds if one.group == "b"] == ["starting", "lost"]
    of_a = [one for one in seconds if one.group == "a"]
    loaded = "slice" if kind == "interleaved" else "step"
    assert {"starting", loaded, "waiting"} <= {one.state for one in of_a}
    assert all(one.arm and one.step and one.block for one in of_a if one.state == loaded)
    runs = [one for one in found if isinstance(one, LiveRun)]
    assert sorted(one.folder for one in runs) == sorted(run.folder for run in folder.runs())
    assert {one.group for one in runs} == {"a"}
    assert any(isinstance(one, LivePrecision) for one in found) == (kind == "interleaved")


async def test_a_block_of_a_lost_group_is_executed_elsewhere(hosts: FakeHosts, paths: HostPaths) -> None:
    hosts.mishaps["a"] = Mishaps(loses_block=lambda _: True)
    folder, summary, watcher = await study(hosts, paths, ("a", "b"))
    assert summary.state == "complete"
    assert {group for group, _ in watcher.committed} == {"b"}
    (lost,) = journal(folder, "block_lost")
    assert lost["group"] == "a" and "the SSH connection ended" in str(lost["why"])
    attempts = [one["attempt"] for one in journal(folder, "block_leased") if one["block"] == lost["block"]]
    assert attempts == [1, 2]
    assert hosts.links["a"].began == [lost["block"]], "a lost group takes no further blocks"
    assert watcher.lost == [("a", f"block {lost['block']}: the SSH connection ended", False)]


class KilledError(Exception):
    """The controller ends here, as by kill -9: nothing more is written."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["leased", "fetched", "in its place", "journalled"])
async def test_a_controller_killed_at_any_moment_is_resumed_from_its_folder(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    owner, name = {
        "leased": (GroupRunner, "execute"),
        "fetched": (StudyFolder, "adopt_block"),
        "in its place": (Leases, "committed"),
        "journalled": (FleetLive, "block_committed"),
    }[moment]
    whole = getattr(owner, name)
    calls = 0

    def killed(*arguments: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KilledError
        return whole(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        patch.setattr("tempfile.tempdir", str(hosts.folder))
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # what is half done stays
        with pytest.raises(KilledError):
            await study(hosts, paths, ("a",))
    (path,) = (hosts.folder.parent / "studies").iterdir()
    folder, summary = await resume_on_groups(path, paths, FleetWatched(), hosts)
    assert summary.state == "complete"
    assert sorted({run.block for run in folder.runs()}) == [1, 2, 3, 4]
    assert sorted(int(str(one["block"])) for one in journal(folder, "block_committed")) == [1, 2, 3, 4]
    assert not list(path.glob("blocks/.*")), "no half copy is left"


async def test_a_lost_host_that_can_be_reached_again_at_the_end_is_cleaned(hosts: FakeHosts, paths: HostPaths) -> None:
    hosts.mishaps["a"] = Mishaps(loses_block=lambda _: True)
    folder, _, _ = await study(hosts, paths, ("a", "b"))
    assert hosts.links["a"].cleanings == 1, "what was killed there may have left more than the folder"
    assert hosts.links["b"].cleanings == 0
    assert not (hosts.links["a"].root / folder.name).exists()
    assert journal(folder, "group_not_cleaned") == []


@pytest.mark.parametrize("first", [False, True], ids=["while it is prepared", "before its block"])
async def test_a_host_whose_earlier_block_is_still_ending_is_waited_for(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(block, "STEP_S", 0.01)
    held = contextlib.ExitStack()
    watcher = FleetWatched()
    say = watcher.group_says

    def group_says(group: str, text: str, lasting: bool) -> None:
        say(group, text, lasting)
        if "waiting for an earlier block" in text:
            held.close()

    def hold(block: int) -> None:
        if block == 1:
            (folder,) = (hosts.folder.parent / "studies").iterdir()
            held.enter_context(study_lock(folder.name, hosts.links["a"].paths.study_lock_address))

    monkeypatch.setattr(watcher, "group_says", group_says)
    if first:
        hosts.mishaps["a"] = Mishaps(before_block=hold)
    else:
        hosts.mishaps["a"] = Mishaps(
            before_prepare=lambda study: held.enter_context(
                study_lock(study, hosts.links["a"].paths.study_lock_address)
            )
        )
    request = Request(interleaved(), "name = 'fake'", hosts.folder.parent / "studies")
    folder, summary = await run_on_groups(request, groups("a"), paths, watcher, hosts)
    assert summary.state == "complete"
    waiting, pilot = watcher.said
    assert waiting == "a: waiting for an earlier block of this study to end"
    assert pilot.startswith("a: pilot")
    assert journal(folder, "block_lost") == []


async def test_a_host_that_is_still_lost_at_the_end_is_named_and_cleaned_by_resume(
    hosts: FakeHosts, paths: HostPaths
) -> None:
    def loses_block(_block: int) -> bool:
        hosts.mishaps["a"].unreachable = True
        return True

    hosts.mishaps["a"] = Mishaps(loses_block=loses_block)
    folder, summary, watcher = await study(hosts, paths, ("a", "b"))
    assert summary.state == "complete"
    (event,) = journal(folder, "group_not_cleaned")
    assert event["group"] == "a"
    assert any("a may keep files of this study" in one and "mydyno clean --hosts" in one for one in watcher.said)
    kept = hosts.links["a"].root / folder.name
    assert kept.is_dir()
    hosts.mishaps.clear()
    watcher = FleetWatched()
    await resume_on_groups(folder.path, paths, watcher, hosts)
    assert not kept.exists()
    removed, finished = watcher.said
    assert removed == "a: removed what this study had left there"
    assert f"{folder.name} is finished: nothing was run" in finished
    assert [one["group"] for one in journal(folder, "group_cleaned")] == ["a"]


def returning_after(first_retry_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "FIRST_RETRY_S", first_retry_s)
    monkeypatch.setattr(cluster, "MOST_WAITING_S", 900.0)


def losing(first: int, times: int) -> Mishaps:
    """Loses the connection in each of so many attempts at blocks from `first` on."""
    left = [times]

    def loses_block(block: int) -> bool:
        left[0] -= block >= first
        return block >= first and left[0] >= 0

    return Mishaps(loses_block=loses_block)


async def test_the_only_group_is_waited_for_when_its_connection_is_lost(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    returning_after(0.01, monkeypatch)
    hosts.mishaps["a"] = losing(3, 2)
    folder, summary, watcher = await study(hosts, paths, ("a",))
    assert summary.state == "complete"
    assert [one["block"] for one in journal(folder, "block_lost")] == [3, 3]
    assert [one["attempt"] for one in journal(folder, "block_committed")] == [1, 1, 3, 1]
    assert "no host group is left: waiting up to 15 min for a" in watcher.said
    assert watcher.said.count("a is back") == 2


async def test_a_block_that_is_lost_on_the_same_group_again_and_again_ends_the_study(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    returning_after(0.01, monkeypatch)
    hosts.mishaps["a"] = losing(3, 100)
    with pytest.raises(StudyError, match=r"block 3 was lost 3 times \(a\)"):
        await study(hosts, paths, ("a",))


async def test_a_group_that_returns_is_tried_soon_and_then_less_often(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    returning_after(5.0, monkeypatch)

    def loses_block(block: int) -> bool:
        if block != 2 or slept:
            return False
        hosts.mishaps["a"].unreachable = True
        return True

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)
        hosts.mishaps["a"].unreachable = len(slept) < 6

    hosts.mishaps["a"] = Mishaps(loses_block=loses_block)
    monkeypatch.setattr(controller, "sleep", sleep)
    _, summary, _ = await study(hosts, paths, ("a",))
    assert summary.state == "complete"
    assert slept == [5, 10, 20, 40, 60, 60]


async def test_a_study_whose_groups_lose_every_block_ends_and_is_resumed_from_its_folder(
    hosts: FakeHosts, paths: HostPaths
) -> None:
    for name in ("a", "b"):
        hosts.mishaps[name] = Mishaps(loses_block=lambda block: block >= 3)
    with pytest.raises(StudyError, match=r"block [34] was lost 3 times|every host group is lost"):
        await study(hosts, paths, ("a", "b"))
    (path,) = (hosts.folder.parent / "studies").iterdir()
    folder = StudyFolder.open(path)
    assert {run.block for run in folder.runs()} == {1, 2}
    assert not list(path.glob("blocks/.*")), "no half copy is left"
    hosts.mishaps.clear()
    watcher = FleetWatched()
    folder, summary = await resume_on_groups(path, paths, watcher, hosts)
    assert summary.state == "complete"
    assert sorted(block for _, block in watcher.committed) == [3, 4]
    last = {one["block"]: one["attempt"] for one in journal(folder, "block_committed")}
    assert last[1] == last[2] == 1 and last[3] > 1


@pytest.mark.parametrize(
    ("mishap", "words"),
    [
        (Mishaps(unreachable=True), "no route to host"),
        (Mishaps(refuses_block="disk: 1 MB are free at /data"), "1 MB are free"),
        (Mishaps(damages_copy=True), "is damaged"),
    ],
    ids=["unreachable", "full disk", "damaged copy"],
)
async def test_a_group_that_cannot_do_it_is_named_and_the_others_go_on(
    hosts: FakeHosts, paths: HostPaths, mishap: Mishaps, words: str
) -> None:
    hosts.mishaps["a"] = mishap
    _, summary, watcher = await study(hosts, paths, ("a", "b"))
    assert summary.state == "complete"
    assert {group for group, _ in watcher.committed} == {"b"}
    assert [(group, words in why) for group, why, _ in watcher.lost] == [("a", True)]


async def test_no_group_at_all_is_an_error_that_says_why_of_each(hosts: FakeHosts, paths: HostPaths) -> None:
    for name in ("a", "b"):
        hosts.mishaps[name] = Mishaps(unreachable=True)
    with pytest.raises(HostError, match=r"no host group can execute the study:\n  a: .*route.*\n  b: .*route"):
        await study(hosts, paths, ("a", "b"))
    assert not (hosts.folder.parent / "studies").exists()


async def test_a_study_that_cannot_be_prepared_leaves_nothing_on_the_hosts(
    hosts: FakeHosts, paths: HostPaths, script: Script
) -> None:
    async def refuse(*_: object) -> object:
        raise UserError("server.variables: nonsense is no variable of MariaDB 10.11")

    hosts.opener = refuse  # type: ignore[assignment]
    with pytest.raises(UserError, match=r"\n  a: server.variables: nonsense.*\n  b: server.variables: nonsense"):
        await study(hosts, paths, ("a", "b"))
    assert [list(link.root.iterdir()) for link in hosts.links.values()] == [[], []]


async def test_a_mistake_that_one_group_reports_names_the_group_and_does_not_stop_the_others(
    hosts: FakeHosts, paths: HostPaths, script: Script
) -> None:
    plain = opener(script)

    async def refuse_on_b(paths: HostPaths, *rest: object) -> object:
        if "/hosts/b/" in str(paths.data):
            raise UserError("server.basedir: /opt/mariadb does not exist")
        return await plain(paths, *rest)  # type: ignore[arg-type]

    hosts.opener = refuse_on_b  # type: ignore[assignment]
    _, summary, watcher = await study(hosts, paths, ("a", "b"))
    assert summary.state == "complete"
    assert {group for group, _ in watcher.committed} == {"a"}
    assert [(group, "/opt/mariadb does not exist" in why) for group, why, _ in watcher.lost] == [("b", True)]


async def test_a_group_with_another_server_version_takes_no_part(
    hosts: FakeHosts, paths: HostPaths, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = opener(script)

    async def other(paths: HostPaths, *rest: object) -> object:
        environment = await plain(paths, *rest)  # type: ignore[arg-type]
        if "/hosts/b/" in str(paths.data):
            environment.versions = {"server": "11.8.1-MariaDB"}
        return environment

    hosts.opener = other  # type: ignore[assignment]
    _, _, watcher = await study(hosts, paths, ("a", "b"))
    assert {group for group, _ in watcher.committed} == {"a"}
    assert "server is 11.8.1-MariaDB, the study has 10.11.19-MariaDB" in watcher.lost[0][1]


async def test_a_copy_that_arrives_after_its_block_was_leased_again_is_dropped(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that fell silent for too long; its block is executed elsewhere, and then its copy arrives."""
    late: list[tuple[object, ...]] = []
    commit = controller._Fleet._commit

    def keep_first(self: controller._Fleet, group: str, block: int, attempt: int, aside: Path, done: object) -> None:
        if block == 2 and attempt == 1:
            late.append((self, group, block, attempt, aside, done))
            self._lost(group, block, attempt, controller.GroupLostError("silent"))  # type: ignore[attr-defined]
            raise controller.GroupLostError("silent")  # type: ignore[attr-defined]
        commit(self, group, block, attempt, aside, done)  # type: ignore[arg-type]
        if block == 2:
            commit(*late[0])  # type: ignore[arg-type]

    monkeypatch.setattr(controller._Fleet, "_commit", keep_first)
    folder, summary, watcher = await study(hosts, paths, ("a", "b"))
    assert summary.state == "complete"
    first = late[0][1]
    assert f"dropped a late copy of block 2 from {first}" in watcher.said
    (committed,) = [one for one in journal(folder, "block_committed") if one["block"] == 2]
    assert committed["group"] != first and committed["attempt"] == 2
    assert {run.host_group for run in folder.runs() if run.block == 2} == {committed["group"]}
    assert not list(folder.path.glob("blocks/.*"))


async def test_what_a_study_over_hosts_cannot_do_is_refused_before_any_connection(
    hosts: FakeHosts, paths: HostPaths
) -> None:
    group = HostGroup(name="a", server="bench@a", clients=("bench@b",))
    reachable = group.model_copy(update={"address": "10.0.0.5"})
    step = StepSpec(workload="oltp_read_only", connections=(4,), warmup=2, measure=20, driver="sysbench")
    linked = experiment(steps=(step,))
    refusals: list[tuple[Experiment, tuple[HostGroup, ...], str]] = [
        (interleaved(), (group,), "the group a has clients, but no address"),
        (interleaved(), (reachable, *groups("c")), "the group a has clients, the group c has none"),
        (linked, (reachable,), "sysbench has no agents on other hosts"),
    ]
    for refused, of, words in refusals:
        request = Request(refused, "", hosts.folder.parent / "studies")
        with pytest.raises(UserError, match=words):
            await run_on_groups(request, of, paths, FleetWatched(), hosts)
    external = experiment(server=ServerSpec(dsn="mysql://bench@db/sbtest"))
    request = Request(external, "", hosts.folder.parent / "studies")
    with pytest.raises(UserError, match="external server"):
        await run_on_groups(request, groups("a"), paths, FleetWatched(), hosts)
    assert hosts.links == {}


async def test_files_of_the_experiment_are_copied_and_an_arm_is_loaded_by_the_copy(
    hosts: FakeHosts, paths: HostPaths, tmp_path: Path
) -> None:
    script = tmp_path / "shop.lua"
    script.write_text("function event() end")
    asked = interleaved().model_copy(update={"steps": (StepSpec(workload="script", script=str(script)),)})
    seen: dict[str, str | None] = {}

    def look(block: int, name: str = "a") -> None:
        (path,) = (hosts.folder / name / "studies").iterdir()
        (step,) = StudyFolder.open(path).study().experiment.steps
        seen[name] = step.script
        assert step.script is not None and Path(step.script).read_text() == script.read_text()

    hosts.mishaps["a"] = Mishaps(before_block=look)
    folder, summary, _ = await study(hosts, paths, ("a",), asked)
    assert summary.state == "complete"
    assert str(seen["a"]).endswith(f"/files{script}") and seen["a"] != str(script)
    assert folder.study().experiment == asked, "the study itself has the user's paths"
    assert folder.study().files == {str(script): sha256_of(script)}
    assert not list((hosts.folder / "a" / "studies").iterdir()), "and nothing is left"


async def test_a_missing_or_changed_file_ends_the_study_before_any_connection(
    hosts: FakeHosts, paths: HostPaths, tmp_path: Path
) -> None:
    script = tmp_path / "shop.lua"
    asked = interleaved().model_copy(update={"steps": (StepSpec(workload="script", script=str(script)),)})
    with pytest.raises(UserError, match=r"steps\[0\]\.script: .*shop\.lua: no such file"):
        await study(hosts, paths, ("a",), asked)
    assert hosts.links == {} and not (tmp_path / "studies").exists()
    script.write_text("function event() end")
    hosts.mishaps["a"] = Mishaps(loses_block=lambda block: block == 2)
    with pytest.raises(StudyError):
        await study(hosts, paths, ("a",), asked)
    (path,) = (tmp_path / "studies").iterdir()
    hosts.links.clear()
    script.write_text("function event() return end")
    with pytest.raises(UserError, match=r"shop\.lua was changed after the study began"):
        await resume_on_groups(path, paths, FleetWatched(), hosts)
    assert hosts.links == {}


async def test_a_groups_data_is_where_the_group_says(hosts: FakeHosts, paths: HostPaths) -> None:
    of = (HostGroup(name="a", server="bench@a", data="/mnt/nvme/mydyno"), *groups("b"))
    request = Request(interleaved(), "name = 'fake'", hosts.folder.parent / "studies")
    await run_on_groups(request, of, paths, FleetWatched(), hosts)
    for name, data in (("a", ["--data=/mnt/nvme/mydyno"]), ("b", [])):
        blocks = [process.arguments for process in hosts.links[name].processes if process.arguments[0] == "block"]
        assert len(blocks) > 1
        for arguments in blocks:
            assert [one for one in arguments if one.startswith("--data")] == data


async def test_one_controller_at_a_time(hosts: FakeHosts, paths: HostPaths) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: int) -> None:
        began.set()
        await go_on.wait()

    hosts.mishaps["a"] = Mishaps(before_block=wait)
    running = asyncio.create_task(study(hosts, paths, ("a",)))
    await asyncio.wait_for(began.wait(), HANG_S)
    (path,) = (hosts.folder.parent / "studies").iterdir()
    with pytest.raises(HostError, match="another mydyno controls"):
        await resume_on_groups(path, paths, FleetWatched(), hosts)
    go_on.set()
    await running


async def test_a_cancelled_study_is_resumed(hosts: FakeHosts, paths: HostPaths) -> None:
    reached = asyncio.Event()

    async def stop(block: int) -> None:
        if block == 3:
            reached.set()
            await asyncio.sleep(3600)

    hosts.mishaps["a"] = Mishaps(before_block=stop)
    running = asyncio.create_task(study(hosts, paths, ("a",)))
    await asyncio.wait_for(reached.wait(), HANG_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (path,) = (hosts.folder.parent / "studies").iterdir()
    hosts.mishaps.clear()
    watcher = FleetWatched()
    _, summary = await resume_on_groups(path, paths, watcher, hosts)
    assert summary.state == "complete"
    assert [block for _, block in watcher.committed] == [3, 4]
