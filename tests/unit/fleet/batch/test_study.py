"""A study over a batch system that executes blocks inside this process, or loses them, as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError, UserError
from mydyno.evaluation.facts import summarise
from mydyno.execution.environments.environment import Opener
from mydyno.execution.interleaved.order import BlockOrder
from mydyno.execution.study_record import Request
from mydyno.fleet.batch.study import Watching, resume_on_batch, run_on_batch
from mydyno.fleet.batch.system import Task, label_of, last_lines
from mydyno.fleet.block import execute_block
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.host_groups import BatchJob
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.stored.records import StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.store.logs import read_commands
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import opener
from tests.support.fake_fleet import FleetWatched, interleaved
from tests.support.fake_script import Script, experiment
from tests.support.stored_schemas import check

JOB = BatchJob(system="slurm", program="mydyno")


@dataclass
class Cluster:
    """A batch system with one node for each block."""

    paths: HostPaths
    opener: Opener
    fates: dict[int, list[str]] = field(default_factory=dict)
    """Block → the states that its attempts end in; COMPLETED after these."""
    tasks_by_block: dict[int, Task] = field(default_factory=dict)
    submitted: list[list[int]] = field(default_factory=list)
    avoided: list[set[str]] = field(default_factory=list)
    refuses: str = ""
    silent: int = 0
    """So many questions it does not answer."""
    logs: bool = True
    """Whether nodes can write the logs of tasks."""
    title: str = "Slurm"
    attempts: int = 3

    def __call__(self, path: Path, _job: BatchJob) -> Cluster:
        self.path = path
        return self

    def check(self) -> None:
        pass

    def text(self, blocks: Sequence[int]) -> str:
        return str(blocks)

    async def submit(self, blocks: Sequence[int], avoid: Collection[str]) -> str:
        if self.refuses:
            raise HostError(self.refuses)
        self.submitted.append(list(blocks))
        self.avoided.append(set(avoid))
        for block in blocks:
            fates = self.fates.get(block, [])
            self.tasks_by_block[block] = Task(block, "running", fates.pop(0) if fates else "COMPLETED", f"node{block}")
        return f"job {len(self.submitted)}"

    async def end_tasks(self, _s: float = 0) -> None:
        """What running tasks end in; it is called where the study would wait."""
        for block, task in list(self.tasks_by_block.items()):
            if task.phase != "running" or task.state == "RUNNING":
                continue
            if task.state == "COMPLETED":
                order, paths, node = BlockOrder(block), self.paths, task.node
                await execute_block(self.path, order, paths, lambda _: None, self.opener, group=node)
            if task.state == "FORGOTTEN":
                del self.tasks_by_block[block]
                continue
            self.tasks_by_block[block] = replace(
                task,
                phase="succeeded" if task.state == "COMPLETED" else "failed",
                again=task.state != "CANCELLED",
            )

    async def tasks(self, blocks: Collection[int]) -> dict[int, Task]:
        if self.silent:
            self.silent -= 1
            raise HostError("squeue: Unable to contact slurm controller")
        return {block: task for block, task in self.tasks_by_block.items() if block in blocks}

    async def log(self, task: Task) -> str:
        return (
            f'{{"event": "progressed", "text": "…"}}\nmydyno: error: of block {task.block}\n'
            if task.node and self.logs
            else ""
        )

    def cancel_command(self) -> str:
        return "scancel --name=x"


Run = Callable[..., Awaitable[tuple[StudyFolder, Summary]]]


@pytest.fixture
def cluster(paths: HostPaths, script: Script) -> Cluster:
    return Cluster(paths, opener(script))


def watching(cluster: Cluster, sleep: Callable[[float], Awaitable[None]] | None = None) -> Watching:
    return Watching({"slurm": cluster}, seen_late_s=0.0, sleep=sleep or cluster.end_tasks)


@pytest.fixture
def watcher() -> FleetWatched:
    return FleetWatched()


@pytest.fixture
def run(cluster: Cluster, paths: HostPaths, watcher: FleetWatched, tmp_path: Path) -> Run:
    request = Request(interleaved(3), "name = 'fake'", tmp_path / "studies")
    return lambda sleep=None: run_on_batch(request, JOB, paths, watcher, watching(cluster, sleep))


async def test_a_study_without_mishaps(run: Run, cluster: Cluster, watcher: FleetWatched) -> None:
    folder, summary = await run()
    assert summary.state == "complete"
    assert cluster.submitted == [[1, 2, 3]]
    assert sorted(watcher.committed) == [("node1", 1), ("node2", 2), ("node3", 3)]
    assert watcher.said == ["3 blocks submitted to Slurm: job 1"]
    record = folder.study()
    assert record.batch is not None and record.batch.name.startswith("mydyno-fake-2")
    assert sorted(record.hosts) == ["node1", "node2", "node3"]
    assert record.versions
    events = [event["event"] for event in folder.journal.read()]
    assert (events.count("block_finished"), events.count("study_finished")) == (3, 1)
    assert not list(folder.path.glob("journal.*-*"))


async def test_a_lost_block_is_submitted_again_elsewhere(run: Run, cluster: Cluster, watcher: FleetWatched) -> None:
    cluster.fates = {2: ["NODE_FAIL", "TIMEOUT"], 3: ["FORGOTTEN"]}
    folder, summary = await run()
    assert summary.state == "complete"
    assert cluster.submitted == [[1, 2, 3], [2], [2, 3]]
    assert cluster.avoided == [set(), {"node2"}, {"node2"}]
    assert "block 2 LOST on node2: NODE_FAIL: mydyno: error: of block 2" in watcher.said
    assert "block 3 LOST: unknown to Slurm" in watcher.said
    assert "journal" in check(folder.path)
    lost = [event for event in folder.journal.read() if event["event"] == "block_lost"]
    assert [(event["block"], event["attempt"]) for event in lost] == [(2, 1), (2, 2), (3, 1)]


async def test_what_stays_lost_or_is_cancelled_is_missing_from_the_report(
    run: Run, cluster: Cluster, watcher: FleetWatched
) -> None:
    cluster.fates = {2: ["FAILED (exit code 3)"] * 4, 3: ["CANCELLED"]}
    folder, summary = await run()
    assert cluster.submitted == [[1, 2, 3], [2], [2]]
    assert summary.state == "partial"
    assert {run.block for run in folder.runs()} == {1}
    assert watcher.said[-2:] == [
        "block 3 is MISSING on node3: CANCELLED\n  mydyno: error: of block 3",
        "block 2 is MISSING on node2: FAILED (exit code 3)\n  mydyno: error: of block 2",
    ]
    # What is missing is submitted again when the user asks for it.
    cluster.fates = {}
    folder, summary = await resume_on_batch(folder.path, watcher, how=watching(cluster))
    assert cluster.submitted[3:] == [[2, 3]]
    assert summary.state == "complete"


async def test_a_node_without_the_studys_folder_is_named_after_its_first_task(
    run: Run, cluster: Cluster, watcher: FleetWatched, tmp_path: Path
) -> None:
    async def first_look(_s: float) -> None:
        await cluster.end_tasks()
        seen.append(list(watcher.said))

    seen: list[list[str]] = []
    cluster.logs, cluster.fates = False, {1: ["FAILED (signal 53)"], 2: ["CANCELLED"]}
    await run(first_look)
    words = f"it has written no log: do all nodes have the folder {tmp_path}/studies/"
    assert any(one.startswith(f"block 1 LOST on node1: FAILED (signal 53): {words}") for one in seen[1])
    assert any(one.startswith(f"block 2 LOST on node2: CANCELLED: {words}") for one in seen[1])


async def test_without_any_block_the_study_fails(run: Run, cluster: Cluster, watcher: FleetWatched) -> None:
    cluster.fates = {block: ["CANCELLED"] for block in (1, 2, 3)}
    with pytest.raises(StudyError, match="none of the 3 blocks is finished"):
        await run()
    assert len([words for words in watcher.said if "MISSING" in words]) == 3


async def test_a_job_that_is_refused_leaves_no_study(run: Run, cluster: Cluster, tmp_path: Path) -> None:
    cluster.refuses = "sbatch: error: invalid partition specified: nope"
    with pytest.raises(HostError, match="invalid partition"):
        await run()
    assert not (tmp_path / "studies").exists()


async def test_the_tasks_go_on_without_the_controller_and_are_not_submitted_twice(
    run: Run, cluster: Cluster, watcher: FleetWatched, tmp_path: Path
) -> None:
    async def interrupted(_s: float) -> None:
        raise asyncio.CancelledError

    cluster.fates = {1: ["COMPLETED"], 2: ["RUNNING"], 3: ["NODE_FAIL"]}
    with pytest.raises(asyncio.CancelledError):
        await run(interrupted)
    assert watcher.said[-1] == "the blocks go on without this program; to cancel them: scancel --name=x"
    await cluster.end_tasks()
    (path,) = (tmp_path / "studies").iterdir()

    executed = path / "blocks/.02.2-ab12.unfinished"
    executed.mkdir(parents=True)

    async def later(_s: float) -> None:
        assert executed.is_dir(), "the folder in which a node executes the block"
        cluster.tasks_by_block[2] = Task(2, "running", "COMPLETED", "node2")
        await cluster.end_tasks()

    _, summary = await resume_on_batch(path, watcher, how=watching(cluster, later))
    assert cluster.submitted == [[1, 2, 3], [3]]
    assert summary.state == "complete"
    await resume_on_batch(path, watcher, how=watching(cluster))
    assert "is finished: nothing was run" in watcher.said[-1]


async def test_a_study_that_has_ended_without_its_controller_is_reported(
    run: Run, cluster: Cluster, watcher: FleetWatched, tmp_path: Path
) -> None:
    async def interrupted(_s: float) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run(interrupted)
    await cluster.end_tasks()
    (path,) = (tmp_path / "studies").iterdir()
    folder, summary = await resume_on_batch(path, watcher, how=watching(cluster))
    events = [event["event"] for event in folder.journal.read()]
    assert (events.count("block_finished"), events.count("study_finished")) == (3, 1)
    assert (len(cluster.submitted), len(folder.study().hosts), summary.state) == (1, 3, "complete")


async def test_nodes_with_other_versions_are_named(
    run: Run, cluster: Cluster, watcher: FleetWatched, tmp_path: Path
) -> None:
    async def other(_s: float) -> None:
        await cluster.end_tasks()
        (path,) = (tmp_path / "studies").iterdir()
        (journal,) = path.glob("journal.3-*.jsonl")
        journal.write_text(journal.read_text().replace("10.11.19", "10.11.0"))

    await run(other)
    assert any("block 3 was executed by node3 with other versions" in words for words in watcher.said)


async def test_a_batch_system_that_does_not_answer_loses_nothing(run: Run, cluster: Cluster) -> None:
    cluster.silent = 2
    _, summary = await run()
    assert (cluster.submitted, summary.state) == ([[1, 2, 3]], "complete")


async def test_an_external_server_is_refused(paths: HostPaths, watcher: FleetWatched, tmp_path: Path) -> None:
    asked = experiment(server=ServerSpec(dsn="mysql://bench@db/x"))
    with pytest.raises(UserError, match="--on slurm: an external server"):
        await run_on_batch(Request(asked, "", tmp_path / "studies"), JOB, paths, watcher)


async def test_blocks_that_nodes_execute_in_a_shared_folder_are_one_study(
    tmp_path: Path, paths: HostPaths, script: Script
) -> None:
    """The second block of a node is executed while another's is unfinished, one while a lost attempt still runs."""
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 3, "cycles": 2, "quiet_wait": 0})
    record = StudyRecord(study="fake-1", created_unix_ns=1, mydyno_version="1", experiment=asked)
    folder = StudyFolder.create(tmp_path / "fake-1", record, make_plan(asked, Design("interleaved")))
    others = [StudyFolder.open(folder.path, attempt).begin_block(2) for attempt in ("", "a")]
    for number, node in ((1, "node-a"), (2, "node-b"), (3, "node-b")):
        await execute_block(folder.path, BlockOrder(number), paths, lambda _: None, opener(script), group=node)
    assert all(other.is_dir() for other in others), "what another node is at is left alone"
    assert {run.block: run.host_group for run in folder.runs()} == {1: "node-a", 2: "node-b", 3: "node-b"}
    logs = {path.name.partition("-")[0] for path in folder.path.glob("commands*")}
    assert logs == {"commands.1", "commands.2", "commands.3"}, "no two nodes append to one file"
    assert [line["event"] for line in read_commands(folder.path)].count("opened") == 3
    assert "commands" in check(folder.path)
    assert summarise(folder).state == "complete"
    began = script.events.count("start")
    await execute_block(folder.path, BlockOrder(2), paths, lambda _: None, opener(script), group="node-b")
    assert script.events.count("start") == began, "another attempt finds its block finished"


def test_the_last_lines_of_a_log_are_those_for_a_person() -> None:
    log = (
        '{"event":"said","text":"fetching"}\n{"event":"progressed","text":"1 s"}\n\n' + "x\n" * 3 + "Traceback\nerror\n"
    )
    assert last_lines(log) == ["x", "x", "x", "Traceback", "error"]
    assert last_lines(log.partition("\n\n")[0]) == ["fetching"]


@pytest.mark.parametrize(
    ("name", "label"),
    [("a" * 80 + "-20261123T120000Z", "a" * 27 + "-20261123t120000z"), ("a" * 80 + "-b" * 22, "b" + "-b" * 21)],
)
def test_a_long_name_keeps_its_time_and_ends_in_a_letter_or_digit(name: str, label: str) -> None:
    assert label_of(name) == label
