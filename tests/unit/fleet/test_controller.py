"""A study over host groups: who executes what, and every way in which a host can be lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError, UserError
from mydyno.fleet.controller import FleetRequest, resume_on_groups, run_on_groups
from mydyno.hosts.paths import HostPaths
from mydyno.model.experiment import Experiment, ServerSpec
from mydyno.model.host_groups import HostGroup
from mydyno.model.summary import Summary
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import Script, experiment, opener
from tests.support.fake_fleet import FakeHosts, FleetWatched, Mishaps


def groups(*names: str) -> tuple[HostGroup, ...]:
    return tuple(HostGroup(name=name, server=f"bench@{name}") for name in names)


def interleaved(blocks: int = 4, **design: object) -> Experiment:
    plain = {"kind": "interleaved", "blocks": blocks, "cycles": 3, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    return experiment(("glibc", "jemalloc"), design={**plain, **design})


@pytest.fixture
def hosts(tmp_path: Path, paths: HostPaths, script: Script) -> FakeHosts:
    return FakeHosts(tmp_path / "hosts", paths, opener(script))


async def study(
    hosts: FakeHosts, paths: HostPaths, names: tuple[str, ...], asked: Experiment | None = None
) -> tuple[StudyFolder, Summary, FleetWatched]:
    watcher = FleetWatched()
    request = FleetRequest(asked or interleaved(), "name = 'fake'", hosts.folder.parent / "studies", groups(*names))
    folder, summary = await run_on_groups(request, paths, watcher, hosts)
    return folder, summary, watcher


def journal(folder: StudyFolder, event: str) -> list[dict[str, object]]:
    return [one for one in folder.journal.read() if one["event"] == event]


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


async def test_a_study_whose_groups_are_all_lost_ends_and_is_resumed_from_its_folder(
    hosts: FakeHosts, paths: HostPaths
) -> None:
    for name in ("a", "b"):
        hosts.mishaps[name] = Mishaps(loses_block=lambda block: block >= 3)
    with pytest.raises(StudyError, match="every host group is lost"):
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
    with pytest.raises(UserError, match="nonsense"):
        await study(hosts, paths, ("a", "b"))
    assert [list(link.root.iterdir()) for link in hosts.links.values()] == [[], []]


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
    assert "server is 11.8.1-MariaDB, elsewhere 10.11.19-MariaDB" in watcher.lost[0][1]


async def test_a_copy_that_arrives_after_its_block_was_leased_again_is_dropped(
    hosts: FakeHosts, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that fell silent for too long; its block is executed elsewhere, and then its copy arrives."""
    from mydyno.fleet import controller

    late: list[tuple[object, ...]] = []
    commit = controller._Fleet._commit

    def keep_first(self: controller._Fleet, group: str, block: int, attempt: int, aside: Path, done: object) -> None:
        if block == 2 and attempt == 1:
            late.append((self, group, block, attempt, aside, done))
            self._lost(group, block, attempt, controller.GroupLostError("silent"))
            raise controller.GroupLostError("silent")
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
    linked = experiment(treatments={"glibc": {"network": "1gbit"}})
    refusals: list[tuple[Experiment, tuple[HostGroup, ...], str]] = [
        (interleaved(), (group,), "the group a has clients, but no address"),
        (interleaved(), (reachable, *groups("c")), "the group a has clients, the group c has none"),
        (linked, (reachable,), "arm glibc: network: its link has both ends on the server's host"),
    ]
    for refused, of, words in refusals:
        request = FleetRequest(refused, "", hosts.folder.parent / "studies", of)
        with pytest.raises(UserError, match=words):
            await run_on_groups(request, paths, FleetWatched(), hosts)
    external = experiment(server=ServerSpec(dsn="mysql://bench@db/sbtest"))
    request = FleetRequest(external, "", hosts.folder.parent / "studies", groups("a"))
    with pytest.raises(UserError, match="external server"):
        await run_on_groups(request, paths, FleetWatched(), hosts)
    assert hosts.links == {}


async def test_the_time_is_divided_by_the_rounds_of_blocks(hosts: FakeHosts, paths: HostPaths) -> None:
    """Two groups, a look at six blocks: three rounds, each of a third of the time."""
    folder, summary, watcher = await study(hosts, paths, ("a", "b"), interleaved(time=120.0))
    lengths = [length for link in hosts.links.values() for length in link.lengths_s]
    assert len(lengths) == len(watcher.committed) == len(folder.plan().blocks)
    assert summary.look == 6 or len(folder.plan().blocks) > 6
    rounds = -(-len(lengths) // 2)
    assert min(lengths) >= 0.9 * 120 / rounds


async def test_one_controller_at_a_time(hosts: FakeHosts, paths: HostPaths) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: int) -> None:
        began.set()
        await go_on.wait()

    hosts.mishaps["a"] = Mishaps(before_block=wait)
    running = asyncio.create_task(study(hosts, paths, ("a",)))
    await asyncio.wait_for(began.wait(), 30)
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
    await asyncio.wait_for(reached.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (path,) = (hosts.folder.parent / "studies").iterdir()
    hosts.mishaps.clear()
    watcher = FleetWatched()
    _, summary = await resume_on_groups(path, paths, watcher, hosts)
    assert summary.state == "complete"
    assert [block for _, block in watcher.committed] == [3, 4]
