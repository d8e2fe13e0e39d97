"""A study over host groups: this process alone writes the plan and the journal; the groups execute blocks.

A block is executed wholly by one group. It is leased, executed aside on the host, fetched, checked, renamed into its
place and journalled; the state is rebuilt from plan and journal, so `resume` needs nothing but the study's folder.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mydyno.errors import HostError, UserError
from mydyno.execution.interleaved_study import Decided, given_up, is_decided, remaining_s
from mydyno.execution.load_host_obstacles import load_host_obstacles
from mydyno.execution.study_record import new_study
from mydyno.execution.time_plan import plan_time, shape_of
from mydyno.execution.washout import lengthen_washout, washout_of_next_block
from mydyno.fleet.block import BlockOrder, design_of
from mydyno.fleet.client_hosts import ClientHosts
from mydyno.fleet.cluster import Cluster, GroupLostError
from mydyno.fleet.leases import Leases
from mydyno.fleet.links import HostLink, link_to
from mydyno.fleet.messages import Finished, Prepared
from mydyno.fleet.runner import GroupRunner, GroupUnfitError
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.lock import folder_lock
from mydyno.hosts.paths import HostPaths
from mydyno.model.experiment import Experiment
from mydyno.model.host_groups import LOCAL, HostGroup
from mydyno.model.plan import Plan, make_plan
from mydyno.model.records import StudyRecord
from mydyno.model.summary import Summary
from mydyno.results.projection import Precision, precision_so_far
from mydyno.results.summarise import summarise
from mydyno.stats.looks import LOOKS
from mydyno.store.study_folder import StudyFolder

Linker = Callable[[HostGroup, HostPaths], HostLink]
RETRY_S = 60.0
"""Between two attempts to reach a lost group again."""
EXCLUDED_EVENT = "group_excluded"
KEPT_OUT = frozenset({"study_created", "run_began", "run_finished", "block_began"})
"""Events of a host's journal that the controller's own events stand for."""


class FleetWatcher(Protocol):
    """Receives the progress of all groups."""

    def say(self, text: str) -> None:
        """A message for the user."""

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """What a group does now, or (lasting) a message of it."""

    def block_leased(self, group: str, block: int, of: int) -> None:
        """A group begins a block."""

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """A block is finished and saved; `made` of `of` are."""

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """A group does not take blocks any more, for good or until it can be reached again."""


@dataclass(frozen=True)
class FleetRequest:
    """What to run on which hosts, and where to keep it."""

    experiment: Experiment
    source_text: str
    studies: Path
    groups: tuple[HostGroup, ...]
    command: tuple[str, ...] = ()
    decided: Decided = is_decided
    """When a study with a time may end at a look."""


async def run_on_groups(
    request: FleetRequest, paths: HostPaths, watcher: FleetWatcher, linker: Linker = link_to
) -> tuple[StudyFolder, Summary]:
    """A new study over host groups. Raises UserError and HostError before any block, StudyError when it went wrong."""
    check_groups(request.experiment, request.groups)
    with ExitStack() as stack:
        commands = stack.enter_context(recorded_commands())
        study = new_study(request.experiment, request.source_text, request.command, paths)
        study = study.model_copy(update={"host_groups": request.groups})
        async with _Runners(request.groups, paths, watcher, linker) as runners:
            try:
                prepared = await _prepare_all(runners, study, watcher)
            except BaseException:
                await _clean(runners, study)
                raise
            design = design_of(prepared)
            first = next(iter(prepared.values()))
            study = study.model_copy(
                update={
                    "versions": first.versions,
                    "host": first.facts,
                    "hosts": {name: one.facts for name, one in prepared.items()},
                }
            )
            time_s = request.experiment.design.time
            blocks = None
            if design.kind == "interleaved" and time_s is not None:
                blocks = plan_time(time_s, shape_of(request.experiment), groups=len(prepared)).blocks
            plan = make_plan(request.experiment, design, blocks)
            folder = StudyFolder.create(request.studies.resolve() / study.study, study, plan)
            commands.keep_in(folder.path)
            stack.enter_context(folder_lock(folder.path))
            fleet = _Fleet(folder, study, plan, runners, watcher, time_s if plan.sequential else None, request.decided)
            return folder, await fleet.run(list(prepared))


async def resume_on_groups(
    path: Path, paths: HostPaths, watcher: FleetWatcher, linker: Linker = link_to, time_s: float | None = None
) -> tuple[StudyFolder, Summary]:
    """Go on with a study over host groups, from its folder alone. Raises as run_on_groups does."""
    folder = StudyFolder.open(path.resolve())
    study, plan = folder.study(), folder.plan()
    if time_s is not None and not plan.sequential:
        raise UserError(
            f"--time: {folder.name} has a fixed number of blocks, which is examined once",
            "only a study that was begun with a time (design.time, --time) can be continued; begin a new one",
        )
    with ExitStack() as stack:
        stack.enter_context(recorded_commands()).keep_in(folder.path)
        stack.enter_context(folder_lock(folder.path))
        if time_s is None and not _missing(folder, plan):
            return folder, summarise(folder)
        for name in folder.discard_unfinished():
            watcher.say(f"dropped the unfinished copy {name}")
        async with _Runners(study.host_groups, paths, watcher, linker) as runners:
            prepared = await _prepare_all(runners, study, watcher)
            folder.journal.append("study_resumed")
            if time_s is not None:
                done = len(plan.blocks) - len(_missing(folder, plan))
                more = plan_time(time_s, shape_of(study.experiment), done, groups=len(prepared)).blocks
                if more > len(plan.blocks):
                    longer = make_plan(study.experiment, blocks=more)
                    plan = plan.model_copy(update={"blocks": longer.blocks})
                    folder.write_plan(plan)
            elif plan.sequential:
                time_s = remaining_s(plan, folder, study.experiment)
            return folder, await _Fleet(folder, study, plan, runners, watcher, time_s).run(list(prepared))


def check_groups(experiment: Experiment, groups: Sequence[HostGroup]) -> None:
    """Raises UserError for what a study over host groups cannot do."""
    if experiment.server.dsn is not None:
        raise UserError(
            "--hosts: an external server (server.dsn) is one server; blocks on several hosts would load it together",
            "leave --hosts out, or use server.name",
        )
    with_clients = [group.name for group in groups if group.load_hosts is not None]
    if with_clients and len(with_clients) < len(groups):
        alone = next(group.name for group in groups if not group.clients)
        raise UserError(
            f"--hosts: the group {with_clients[0]} has clients, the group {alone} has none",
            "one study has one way to load its servers: name clients in every [[group]] or in none",
        )
    obstacles = load_host_obstacles(experiment) if with_clients else []
    if obstacles:
        raise UserError(
            "--hosts: the load cannot come from client hosts:\n  " + "\n  ".join(obstacles),
            "remove `clients` from the [[group]] tables, or change the experiment",
        )


def _missing(folder: StudyFolder, plan: Plan) -> list[int]:
    return [block.block for block in plan.blocks if not folder.block_path(block.block).is_dir()]


class _Runners:
    """A runner for each group, closed at the end whatever happened."""

    def __init__(self, groups: Sequence[HostGroup], paths: HostPaths, watcher: FleetWatcher, linker: Linker) -> None:
        self.by_name = {group.name: _runner_of(group, paths, watcher, linker) for group in groups}

    async def __aenter__(self) -> Mapping[str, GroupRunner]:
        return self.by_name

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(runner.close() for runner in self.by_name.values()), return_exceptions=True)


def _runner_of(group: HostGroup, paths: HostPaths, watcher: FleetWatcher, linker: Linker) -> GroupRunner:
    links = {
        name: linker(HostGroup(name=name, server=None if address == LOCAL else address), paths)
        for name, address in group.client_names.items()
    }
    return GroupRunner(group.name, linker(group, paths), watcher.group_says, group.load_hosts, ClientHosts(links))


async def _prepare_all(
    runners: Mapping[str, GroupRunner], study: StudyRecord, watcher: FleetWatcher
) -> dict[str, Prepared]:
    """What each group that can take part found. Raises HostError if none can, UserError for a bad experiment."""

    async def prepare(runner: GroupRunner) -> Prepared:
        await runner.open()
        return await runner.prepare(study)

    answers = await asyncio.gather(*(prepare(runner) for runner in runners.values()), return_exceptions=True)
    found: dict[str, Prepared] = {}
    reasons = []
    for name, answer in zip(runners, answers, strict=True):
        if isinstance(answer, Prepared):
            wrong = _other_versions(study.versions or next(iter(found.values()), answer).versions, answer.versions)
            if not wrong:
                found[name] = answer
                continue
            why = f"{wrong}; runs of different versions do not belong in one study"
        elif isinstance(answer, GroupLostError):
            why = str(answer)
        else:
            assert isinstance(answer, BaseException)
            raise answer
        watcher.group_lost(name, why, True)
        reasons.append(f"{name}: {why}")
    if not found:
        raise HostError("no host group can execute the study:\n  " + "\n  ".join(reasons))
    return found


async def _clean(runners: Mapping[str, GroupRunner], study: StudyRecord) -> None:
    """Remove the study's folder on every host."""
    await asyncio.gather(*(runner.clean(study.study) for runner in runners.values()))


def _other_versions(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    return "; ".join(
        f"{name} is {found[name]}, elsewhere {version}"
        for name, version in expected.items()
        if name in found and found[name] != version
    )


@dataclass
class _Fleet:
    """The blocks of one study, executed by groups."""

    folder: StudyFolder
    study: StudyRecord
    plan: Plan
    runners: Mapping[str, GroupRunner]
    watcher: FleetWatcher
    time_s: float | None
    """For the blocks that are missing; None: without a time."""
    decided: Decided = is_decided
    began_s: float = field(default_factory=time.monotonic)
    _flying: set[int] = field(default_factory=set)
    """Blocks that groups execute now."""
    _returning: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, groups: Sequence[str]) -> Summary:
        """Execute what is missing, look after look; the summary."""
        self.leases = Leases(self.folder.journal)
        self.groups = len(groups)
        self.cluster = Cluster(groups, self._execute)
        try:
            async with self.cluster:
                for target in self._stages():
                    await self._execute_up_to(target)
                    if self.plan.sequential and target in LOOKS and target < len(self.plan.blocks):
                        if self.decided(self.folder, summarise(self.folder)):
                            self.watcher.say(f"every comparison is decided after {target} blocks")
                            break
                        if self._left_s() <= 0:
                            break
        finally:
            for task in self._returning:
                task.cancel()
        summary = summarise(self.folder)
        self.folder.journal.append("study_finished", state=summary.state)
        await _clean(self.runners, self.study)
        return summary

    def _stages(self) -> list[int]:
        """Numbers of blocks after which effects are examined; a look that would leave most groups idle is skipped."""
        last = len(self.plan.blocks)
        if not self.plan.sequential:
            return [last]
        done = last - len(_missing(self.folder, self.plan))
        stages: list[int] = []
        for look in LOOKS:
            if done < look < last and look - (stages[-1] if stages else done) >= self.groups:
                stages.append(look)
        return [*stages, last]

    def _left_s(self) -> float:
        return 0.0 if self.time_s is None else self.time_s - (time.monotonic() - self.began_s)

    async def _execute_up_to(self, target: int) -> None:
        blocks = [block for block in _missing(self.folder, self.plan) if block <= target]
        async for block, _ in self.cluster.map(blocks):
            lengthen_washout(self.folder, self.plan, self.study.experiment, block, self.watcher.say)

    def _length_s(self) -> float | None:
        """Of the next block: the time that is left, by the rounds that the blocks not yet begun need."""
        if self.plan.design != "interleaved" or not self.plan.sequential or self.time_s is None:
            return None
        waiting = len(_missing(self.folder, self.plan)) - len(self._flying)
        rounds = -(-max(1, waiting) // max(1, len(self.cluster.live)))
        return max(1.0, self._left_s() / rounds)

    async def _execute(self, group: str, block: int) -> None:
        """One block on one group. Raises GroupLostError, and another group takes it."""
        attempt = self.leases.lease(block, group)
        runner, of = self.runners[group], len(self.plan.blocks)
        self.watcher.block_leased(group, block, of)
        interleaved = self.plan.design == "interleaved"
        experiment = self.study.experiment
        order = BlockOrder(
            block,
            self._length_s(),
            washout_of_next_block(self.folder, experiment) if interleaved else None,
            skipped_arms=given_up(self.folder, experiment.control, block) if interleaved else frozenset(),
        )
        aside = self.folder.path / "blocks" / f".{block:02d}.{attempt}.unfinished"
        self._flying.add(block)
        try:
            finished = await runner.execute(self.study, self.plan, order, aside)
        except GroupLostError as error:
            shutil.rmtree(aside, ignore_errors=True)
            self._lost(group, block, attempt, error)
            raise
        finally:
            self._flying.discard(block)
        self._commit(group, block, attempt, aside, finished)

    def _lost(self, group: str, block: int, attempt: int, error: GroupLostError) -> None:
        self.leases.lost(block, attempt, group, str(error))
        for_good = isinstance(error, GroupUnfitError)
        self.watcher.group_lost(group, f"block {block}: {error}", for_good)
        if for_good:
            self.folder.journal.append(EXCLUDED_EVENT, group=group, why=str(error))
            return
        task = asyncio.create_task(self._return(group))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, group: str) -> None:
        """Try to reach a lost group again, until it can be or the study ends."""
        while True:
            await asyncio.sleep(RETRY_S)
            try:
                await self.runners[group].open()
            except GroupLostError:
                continue
            self.watcher.say(f"{group} is back")
            await self.cluster.add(group)
            return

    def _commit(self, group: str, block: int, attempt: int, aside: Path, finished: Finished) -> None:
        """Put a fetched block in its place, unless its lease was issued to another group since."""
        if not self.leases.is_current(block, attempt):
            shutil.rmtree(aside, ignore_errors=True)
            self.watcher.say(f"dropped a late copy of block {block} from {group}")
            return
        self.folder.adopt_block(block, aside, group)
        for event in finished.journal:
            if event["event"] not in KEPT_OUT:
                facts = {name: value for name, value in event.items() if name not in {"event", "unix_ns"}}
                self.folder.journal.append(
                    event["event"], **facts, host_group=group, host_unix_ns=event.get("unix_ns", 0)
                )
        self.leases.committed(block, attempt, group)
        made = len(self.plan.blocks) - len(_missing(self.folder, self.plan))
        precision = None
        if self.plan.design == "interleaved":
            precision = precision_so_far(self.folder, self.plan, len(self.plan.blocks))
        self.watcher.block_committed(group, block, made, len(self.plan.blocks), precision)
