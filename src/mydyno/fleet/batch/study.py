"""A study whose blocks a batch system executes: submit them, watch, submit lost ones again, report.

The study's folder and the batch system are the truth: blocks that are complete, tasks that wait or run. What this
process knows beyond that is how often it has seen a block lost. It may be killed at any time; the tasks go on, and
`mydyno resume` watches them.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from asyncio import sleep
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from secrets import token_hex
from typing import Any

from mydyno.errors import HostError, StudyError
from mydyno.evaluation.facts import precision_so_far, summarise
from mydyno.execution.checks import check_more_time, other_versions
from mydyno.execution.interim import ended
from mydyno.execution.live import Listener
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.study_record import Request, note_resumed, nothing_to_resume
from mydyno.fleet.batch.kubernetes import Kubernetes
from mydyno.fleet.batch.slurm import Slurm
from mydyno.fleet.batch.system import BatchSystem, Task, label_of, last_lines
from mydyno.fleet.block import HOST_EVENT
from mydyno.fleet.cluster import LOST_EVENT, FleetLive, FleetWatcher
from mydyno.fleet.groups import check_server
from mydyno.fleet.study_files import FOLDER, find_files, on_host
from mydyno.hosts.lock import folder_lock
from mydyno.hosts.paths import HostPaths, check_writable
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import BatchJob
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.summary import Summary
from mydyno.store.logs import Journal
from mydyno.store.study_folder import FINISHED_EVENT, StudyFolder
from mydyno.wording.stored_result import StoredResult

Systems = Mapping[str, Callable[[Path, BatchJob], BatchSystem]]
SYSTEMS: Systems = {"slurm": Slurm, "kubernetes": Kubernetes}
LIMIT_FACTOR, LIMIT_S = 3.0, 900.0
"""The time limit of a task: so many times what is expected, and more for fetching servers and making data."""
SUBMITTED_EVENT = "blocks_submitted"


@dataclass(frozen=True)
class Watching:
    """What a test passes other ones of."""

    systems: Systems = field(default_factory=lambda: SYSTEMS)
    poll_s: float = 10.0
    """Between two questions to the batch system, which all its users share."""
    seen_late_s: float = 90.0
    """For a file of a node to be seen here: NFS remembers for a minute that there is none (nfs(5), acdirmax)."""
    sleep: Callable[[float], Awaitable[None]] = sleep


def planned(
    experiment: Experiment, job: BatchJob, paths: HostPaths, systems: Systems = SYSTEMS
) -> tuple[Plan, BatchJob]:
    """The plan, and the job with its time limit. Raises UserError and HostError; starts nothing."""
    check_server(experiment, f"--on {job.system}", "remove --on")
    systems[job.system](Path(), job).check()
    plan = plan_study(experiment, paths)
    block_s = forecast(experiment, plan, paths).study_s / len(plan.blocks)
    return plan, job.model_copy(update={"limit_s": 60 * ceil((LIMIT_FACTOR * block_s + LIMIT_S) / 60)})


async def run_on_batch(
    request: Request, job: BatchJob, paths: HostPaths, watcher: FleetWatcher, how: Watching = Watching()
) -> tuple[StudyFolder, Summary]:
    """A new study. Raises UserError and HostError before any block, StudyError when it went wrong."""
    plan, job = planned(request.experiment, job, paths, how.systems)
    check_writable(request.studies, "--studies")
    files = find_files(request.experiment)
    with ExitStack() as stack:
        made = request.new_study(paths)
        path = stack.enter_context(StudyFolder.claimed(request.studies.resolve(), made.study))
        # Another user's study of the same second may have the same name.
        job = job.model_copy(update={"name": f"mydyno-{label_of(path.name)}-{token_hex(2)}"})
        known = {"study": path.name, "files": files.checksums, "batch": job}
        study = on_host(made.model_copy(update=known), files.at(str(path / FOLDER)))
        folder = StudyFolder.create(path, study, plan)
        files.copy_to(path / FOLDER)
        stack.enter_context(folder_lock(path))
        live = stack.enter_context(FleetLive(watcher, request.listeners))
        batch = _Batch(folder, plan, how.systems[job.system](path, job), live, how)
        watcher.kept_in(path)
        try:
            await batch.submit(sorted(batch.blocks))
        except HostError:
            shutil.rmtree(path)
            path.mkdir()  # which `claimed` removes, with a studies folder that it has made
            raise
        live.keep_in(folder, plan, made=0, resumed=False)
        return folder, await batch.watch()


async def resume_on_batch(
    path: Path,
    watcher: FleetWatcher,
    time_s: float | None = None,
    listeners: tuple[Listener, ...] = (),
    how: Watching = Watching(),
) -> tuple[StudyFolder, Summary]:
    """Go on with a study, from its folder alone: blocks that are neither complete nor under way are submitted."""
    folder = StudyFolder.open(path.resolve())
    study, plan = folder.study(), folder.plan()
    assert study.batch is not None
    check_more_time(folder, plan, time_s)
    check_writable(folder.path, "the study folder")
    system = how.systems[study.batch.system](folder.path, study.batch)
    with ExitStack() as stack:
        stack.enter_context(folder_lock(folder.path))
        live = stack.enter_context(FleetLive(watcher, listeners))
        batch = _Batch(folder, plan, system, live, how)
        finished = sorted(batch.blocks - batch.left)
        for block in finished:
            batch.take_in(block)
        if not batch.left and any(event["event"] == FINISHED_EVENT for event in folder.journal.read()):
            watcher.say(nothing_to_resume(folder, plan))
            return folder, summarise(folder)
        lost: list[int] = []
        if batch.left:
            system.check()
            tasks = await system.tasks(batch.left)
            lost = [block for block in sorted(batch.left) if block not in tasks or tasks[block].is_over]
        live.keep_in(folder, plan, len(finished), resumed=True)
        note_resumed(folder, study, live.say)
        if lost:
            await batch.submit(lost)
        return folder, await batch.watch()


@dataclass
class _Batch:
    """The blocks of one study."""

    folder: StudyFolder
    plan: Plan
    system: BatchSystem
    live: FleetLive
    how: Watching
    left: set[int] = field(init=False)
    """Blocks that are waited for."""
    missing: dict[int, Task] = field(default_factory=dict)
    """Blocks that are not submitted again → the last attempt."""
    _losses: Counter[int] = field(default_factory=Counter)
    _avoided: set[str] = field(default_factory=set)
    """Nodes that have lost a block: a broken one is always free, and would take all others."""
    _since_s: dict[int, float] = field(default_factory=dict)
    """Since when a block has neither a task that runs nor a folder."""

    def __post_init__(self) -> None:
        self.blocks = {block.block for block in self.plan.blocks}
        self.left = {block for block in self.blocks if not self.folder.is_block_complete(block)}

    @property
    def _made(self) -> int:
        return len(self.blocks) - len(self.left) - len(self.missing)

    async def submit(self, blocks: Sequence[int]) -> None:
        """A job for these blocks. Raises HostError with the reason if the batch system refuses it."""
        job = await self.system.submit(blocks, self._avoided)
        self.folder.journal.append(SUBMITTED_EVENT, blocks=list(blocks), job=job)
        self.live.say(f"{len(blocks)} blocks submitted to {self.system.title}: {job}")

    async def watch(self) -> Summary:
        """Until every block is there or lost; the summary of those that are there. Raises StudyError without any."""
        self.live.blocks_begin(self._made, len(self.blocks), None)
        try:
            while self.left:
                await self._look()
                if self.left:
                    await self.how.sleep(self.how.poll_s)
        except asyncio.CancelledError:
            self.live.say(f"the blocks go on without this program; to cancel them: {self.system.cancel_command()}")
            raise
        self.folder.discard_unfinished()
        for block, task in self.missing.items():
            await self._say_missing(block, task)
        if len(self.missing) == len(self.blocks):
            raise StudyError(
                f"none of the {len(self.blocks)} blocks is finished; the reasons are above",
                f"fix the cause, then submit them again: mydyno resume {self.folder.path}",
            )
        summary = ended(self.folder, self.plan, len(self.blocks))
        self.live.finished(StoredResult.load(self.folder))
        return summary

    async def _look(self) -> None:
        """Take in what has happened."""
        try:
            tasks = await self.system.tasks(self.left)
        except HostError as error:
            self._show(f"{error.message}; asked again in {self.how.poll_s:.0f} s")
            return
        again = [block for block in sorted(self.left) if await self._is_lost(block, tasks.get(block))]
        if again:
            try:
                await self.submit(again)
            except HostError as error:
                self.left -= set(again)
                self.missing |= {block: Task(block, "failed", error.message) for block in again}
        phases = Counter(tasks[block].phase for block in self.left - set(again) if block in tasks)
        why = next((task.state for block, task in tasks.items() if block in self.left and task.phase == "waiting"), "")
        self._show(
            f"{self._made} of {len(self.blocks)} blocks done · {phases['running']} running · "
            f"{len(self.left) - phases['running']} waiting{f', {why}' if why else ''} · {len(self.missing)} lost"
        )

    async def _is_lost(self, block: int, task: Task | None) -> bool:
        """Whether a block is to be submitted again."""
        if task is not None and not task.is_over:
            self._since_s.pop(block, None)
            return False
        if self.folder.is_block_complete(block):
            self.left.discard(block)
            self._commit(block, task.node if task else "")
            return False
        if task is None or task.phase == "succeeded":
            waited_s = time.monotonic() - self._since_s.setdefault(block, time.monotonic())
            if waited_s < self.how.seen_late_s:
                return False
            known = f"{task.state}, but its block is not here" if task else f"unknown to {self.system.title}"
            task = Task(block, "failed", known, task.node if task else "", task.log if task else "")
        self._since_s.pop(block, None)
        self._losses[block] += 1
        attempt = self._losses[block]
        self.folder.journal.append(LOST_EVENT, block=block, attempt=attempt, group=task.node, why=task.state)
        again = task.again and attempt < self.system.attempts
        lines = await self._last_lines(task)
        if again or lines == [self._no_log]:
            self.live.say(": ".join([f"block {block} LOST{_on(task)}", task.state, *lines[-1:]]))
        if again:
            self._avoided |= {task.node} - {""}
            return True
        self.left.discard(block)
        self.missing[block] = task
        return False

    def _commit(self, block: int, node: str) -> None:
        self.take_in(block)
        of, precision = len(self.blocks), None
        if self.plan.design != "blocks":
            precision = precision_so_far(self.folder, self.plan, of)
        self.live.block_committed(node, block, self._made, of, precision)

    def take_in(self, block: int) -> None:
        """Into the study's journal what the attempts at a finished block have written apart."""
        for path in sorted(self.folder.path.glob(f"journal.{block}-*.jsonl")):
            for event in Journal(path).read():
                if event["event"] == HOST_EVENT:
                    self._note_host(block, event["group"], event["versions"], event["host"])
                else:
                    self.folder.journal.append(**event)
            path.unlink()

    def _note_host(self, block: int, node: str, versions: dict[str, str], host: dict[str, Any]) -> None:
        """The study has the versions of its first block: blocks that begin later refuse others by themselves."""
        study = self.folder.study()
        if wrong := other_versions(study.versions, versions):
            self.live.say(f"block {block} was executed by {node} with other versions: {wrong}")
        known = {"versions": study.versions or versions, "hosts": {**study.hosts, node: host}}
        self.folder.write_study(study.model_copy(update=known))

    @property
    def _no_log(self) -> str:
        return f"it has written no log: do all nodes have the folder {self.folder.path}?"

    async def _last_lines(self, task: Task) -> list[str]:
        """Of a task's log, or why a node has written none."""
        return last_lines(await self.system.log(task)) or ([self._no_log] if task.node else [])

    async def _say_missing(self, block: int, task: Task) -> None:
        lines = await self._last_lines(task)
        self.live.say("\n  ".join([f"block {block} is MISSING{_on(task)}: {task.state}", *lines]))

    def _show(self, text: str) -> None:
        self.live.group_says(self.system.title, text, lasting=False)


def _on(task: Task) -> str:
    return f" on {task.node}" if task.node else ""
