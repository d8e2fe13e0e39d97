"""A study over host groups: this process alone writes the plan and the journal; the groups execute blocks.

A block is executed wholly by one group. It is leased, executed aside on the host, fetched, checked, renamed into its
place and journalled; the state is rebuilt from plan and journal, so `resume` needs nothing but the study's folder.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import HostError, StudyError, UserError
from mydyno.evaluation.facts import precision_so_far, summarise
from mydyno.execution.checks import check_more_time, other_versions
from mydyno.execution.interim import Decided, Stopping, decided_at, ended, is_decided
from mydyno.execution.interleaved.order import BlockOrder, lengthen_washout
from mydyno.execution.interleaved.pilot import PILOT_EVENT
from mydyno.execution.interleaved.study_time import StudyTime, remaining_s
from mydyno.execution.live import Listener
from mydyno.execution.planning.time_plan import TimePlan, check_time, plan_time, shape_of
from mydyno.execution.study_record import Request, note_resumed, nothing_to_resume
from mydyno.fleet.block import design_of
from mydyno.fleet.cluster import Cluster, FleetLive, FleetWatcher, GroupLostError, Leases
from mydyno.fleet.groups import check_groups
from mydyno.fleet.links import ClientHosts, HostLink, link_to
from mydyno.fleet.messages import Finished, Prepared
from mydyno.fleet.runner import GroupRunner, GroupUnfitError
from mydyno.fleet.study_files import StudyFiles, find_files
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.lock import folder_lock
from mydyno.hosts.paths import HostPaths, check_writable
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import LOCAL, HostGroup
from mydyno.model.definition.plan import Plan, make_plan
from mydyno.model.stored.records import StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult

Linker = Callable[[HostGroup, HostPaths], HostLink]
FIRST_RETRY_S, RETRY_S = 5.0, 60.0
"""Before the first attempt to reach a lost group again; between two of them it doubles, up to RETRY_S."""
EXCLUDED_EVENT = "group_excluded"
UNCLEANED_EVENT, CLEANED_EVENT = "group_not_cleaned", "group_cleaned"
KEPT_OUT = frozenset({"study_created", "run_began", "run_finished", "block_began"})
"""Events of a host's journal that the controller's own events stand for."""


async def run_on_groups(
    request: Request, groups: tuple[HostGroup, ...], paths: HostPaths, watcher: FleetWatcher, linker: Linker = link_to
) -> tuple[StudyFolder, Summary]:
    """A new study over host groups. Raises UserError and HostError before any block, StudyError when it went wrong."""
    check_groups(request.experiment, groups)
    check_writable(request.studies, "--studies")
    time_s = request.experiment.design.time
    if time_s is not None and request.experiment.design.kind != "blocks":
        check_time(time_s, shape_of(request.experiment), len(groups))
    files = await _files(request.experiment, groups)
    with ExitStack() as stack:
        commands = stack.enter_context(recorded_commands())
        study = request.new_study(paths)
        path = stack.enter_context(StudyFolder.claimed(request.studies.resolve(), study.study))
        study = study.model_copy(
            update={"study": path.name, "host_groups": groups, "files": files.checksums}
        )  # fmt: skip
        live = stack.enter_context(FleetLive(watcher, request.listeners))
        async with _runners(groups, paths, live, linker, files) as runners:
            try:
                prepared = await _prepare_all(runners, study, live)
            except BaseException:
                await _clean(runners, study, live)
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
            blocks = None
            if design.kind != "blocks" and time_s is not None:
                blocks = plan_time(time_s, shape_of(request.experiment), groups=len(prepared)).blocks
            plan = make_plan(request.experiment, design, blocks)
            folder = StudyFolder.create(path, study, plan)
            files.keep_in(folder.path)
            commands.keep_in(folder.path)
            stack.enter_context(folder_lock(folder.path))
            live.keep_in(folder, plan, made=0, resumed=False)
            time_s = time_s if plan.sequential else None
            time = request.timing(folder, request.experiment, plan, time_s, groups=len(prepared))
            return folder, await _Fleet(time, study, runners, live, request.decided).run(list(prepared))


async def resume_on_groups(
    path: Path,
    paths: HostPaths,
    watcher: FleetWatcher,
    linker: Linker = link_to,
    time_s: float | None = None,
    listeners: tuple[Listener, ...] = (),
    timing: type[StudyTime] = StudyTime,
) -> tuple[StudyFolder, Summary]:
    """Go on with a study over host groups, from its folder alone. Raises as run_on_groups does."""
    folder = StudyFolder.open(path.resolve())
    study, plan = folder.study(), folder.plan()
    check_more_time(folder, plan, time_s, len(study.host_groups))
    check_writable(folder.path, "the study folder")
    with ExitStack() as stack:
        stack.enter_context(recorded_commands()).keep_in(folder.path)
        stack.enter_context(folder_lock(folder.path))
        if time_s is None and not _missing(folder, plan):
            if _uncleaned(folder):
                await _clean_later(folder, paths, FleetLive(watcher), linker)
            watcher.say(nothing_to_resume(folder, plan))
            return folder, summarise(folder)
        files = await _files(study.experiment, study.host_groups)
        files.check_unchanged(study)
        live = stack.enter_context(FleetLive(watcher, listeners))
        live.keep_in(folder, plan, len(plan.blocks) - len(_missing(folder, plan)), resumed=True)
        async with _runners(study.host_groups, paths, live, linker, files) as runners:
            prepared = await _prepare_all(runners, study, live)
            note_resumed(folder, study, live.say, folder.discard_unfinished())
            leases = Leases(folder.journal)
            for run in folder.runs():
                leases.adopt(run.block, run.host_group)
            more = time_s is not None
            if time_s is None and plan.sequential:
                time_s = remaining_s(plan, folder, study.experiment)
            time = timing(folder, study.experiment, plan, time_s, more, len(prepared))
            return folder, await _Fleet(time, study, runners, live).run(list(prepared))


async def _files(experiment: Experiment, groups: Sequence[HostGroup]) -> StudyFiles:
    """What is copied to the hosts; nothing if there are none but this one. Raises UserError."""
    if not any(group.addresses for group in groups):
        return StudyFiles()
    return await asyncio.to_thread(find_files, experiment, any(group.clients for group in groups))


def _missing(folder: StudyFolder, plan: Plan) -> list[int]:
    return [block.block for block in plan.blocks if not folder.block_path(block.block).is_dir()]


@asynccontextmanager
async def _runners(
    groups: Sequence[HostGroup], paths: HostPaths, live: FleetLive, linker: Linker, files: StudyFiles | None = None
) -> AsyncIterator[Mapping[str, GroupRunner]]:
    """A runner for each group, closed at the end whatever happened."""
    by_name = {group.name: _runner_of(group, paths, live, linker, files) for group in groups}
    try:
        yield by_name
    finally:
        await asyncio.gather(*(runner.close() for runner in by_name.values()), return_exceptions=True)


def _runner_of(
    group: HostGroup, paths: HostPaths, live: FleetLive, linker: Linker, files: StudyFiles | None
) -> GroupRunner:
    links = {
        name: linker(HostGroup(name=name, server=None if address == LOCAL else address), paths)
        for name, address in group.client_names.items()
    }
    return GroupRunner(group.name, linker(group, paths), live, group.load_hosts, ClientHosts(links), files, group.data)


async def _prepare_all(
    runners: Mapping[str, GroupRunner], study: StudyRecord, watcher: FleetLive
) -> dict[str, Prepared]:
    """What each group that can take part found. Raises HostError if none can, UserError if each names a mistake."""

    async def prepare(runner: GroupRunner) -> Prepared:
        await runner.open()
        return await runner.prepare(study)

    answers = await asyncio.gather(*(prepare(runner) for runner in runners.values()), return_exceptions=True)
    found: dict[str, Prepared] = {}
    reasons = []
    mistakes_only = True
    """Whether every group that failed named a mistake in the experiment."""
    for name, answer in zip(runners, answers, strict=True):
        if isinstance(answer, Prepared):
            wrong = other_versions(study.versions or next(iter(found.values()), answer).versions, answer.versions)
            if not wrong:
                found[name] = answer
                continue
            why, mistakes_only = f"{wrong}; runs of different versions do not belong in one study", False
        elif isinstance(answer, GroupLostError):
            why, mistakes_only = str(answer), False
        elif isinstance(answer, UserError):
            why = str(answer)
        else:
            assert isinstance(answer, BaseException)
            raise answer
        watcher.group_lost(name, why, True)
        reasons.append(f"{name}: {why}")
    if not found:
        kind = UserError if mistakes_only else HostError
        raise kind("no host group can execute the study:\n  " + "\n  ".join(reasons))
    return found


async def _clean(
    runners: Mapping[str, GroupRunner], study: StudyRecord, watcher: FleetLive, lost: Collection[str] = ()
) -> dict[str, str]:
    """Remove the study's folder on every host, and what else lost groups keep; {group: why it could not be done}."""
    names = list(runners)
    results = await asyncio.gather(
        *(runners[name].clean(study.study, name in lost) for name in names), return_exceptions=True
    )
    left = {}
    for name, error in zip(names, results, strict=True):
        if error is None:
            continue
        if not isinstance(error, GroupLostError):
            raise error
        left[name] = str(error)
        address = next((group.server for group in study.host_groups if group.name == name), None) or LOCAL
        watcher.say(
            f"{name} may keep files of this study, because it cannot be reached ({error}); when it is back: "
            f"mydyno clean --hosts {address}"
        )
    return left


def _uncleaned(folder: StudyFolder) -> set[str]:
    """Groups whose hosts could not be cleaned when the study ended last."""
    found: set[str] = set()
    for event in folder.journal.read():
        if event["event"] == UNCLEANED_EVENT:
            found.add(str(event["group"]))
        elif event["event"] == CLEANED_EVENT:
            found.discard(str(event["group"]))
    return found


async def _clean_later(folder: StudyFolder, paths: HostPaths, watcher: FleetLive, linker: Linker) -> None:
    """Clean hosts of a finished study that could not be reached at its end."""
    study, names = folder.study(), _uncleaned(folder)
    groups = [group for group in study.host_groups if group.name in names]
    async with _runners(groups, paths, watcher, linker) as runners:
        left = await _clean(runners, study, watcher, names)
    for name in names - set(left):
        folder.journal.append(CLEANED_EVENT, group=name)
        watcher.say(f"{name}: removed what this study had left there")


@dataclass
class _Fleet:
    """The blocks of one study, executed by groups."""

    time: StudyTime
    study: StudyRecord
    runners: Mapping[str, GroupRunner]
    watcher: FleetLive
    decided: Decided = is_decided
    target: TimePlan = field(init=False)
    """What the study aims for now."""
    _flying: set[int] = field(default_factory=set)
    """Blocks that groups execute now."""
    _returning: dict[asyncio.Task[None], str] = field(default_factory=dict)
    """Tasks that try to reach a lost group again → the group."""
    _were_lost: set[str] = field(default_factory=set)
    """Groups that were lost at some time: programs may have been killed there."""

    async def run(self, groups: Sequence[str]) -> Summary:
        """Execute what is missing, look after look; the summary."""
        self.folder = self.time.folder
        self.leases = Leases(self.folder.journal)
        self._stopping = Stopping(self.folder)
        self.cluster = Cluster(groups, self._execute, self._returning.values, self.watcher.say, self.folder.path)
        done, self.target = self.time.done, self.time.aim()
        self.watcher.blocks_begin(done, self.target.blocks, None if self.time.time_s is None else self.time.left_s)
        try:
            async with self.cluster:
                while done < self.target.blocks and not self.time.is_over(done):
                    look = self._next_look(done, self.target.blocks)
                    await self._execute_up_to(look)
                    done = look
                    if done < self.target.blocks and decided_at(
                        self.folder, self.time.plan, done, self.decided, self.watcher.say
                    ):
                        break
        except StudyError:
            await self._undo_left()
            raise
        finally:
            for task in self._returning:
                task.cancel()
        summary = ended(self.folder, self.time.plan, done)
        left = await _clean(self.runners, self.study, self.watcher, {*self._were_lost, *_uncleaned(self.folder)})
        for name in _uncleaned(self.folder) - set(left):
            self.folder.journal.append(CLEANED_EVENT, group=name)
        for name, why in left.items():
            self.folder.journal.append(UNCLEANED_EVENT, group=name, why=why)
        self.watcher.finished(StoredResult.load(self.folder))
        return summary

    async def _undo_left(self) -> None:
        """On hosts that can be reached: what killed programs left there. The study's folders are kept for `resume`."""
        runners = (self.runners[name] for name in self._were_lost)
        await asyncio.gather(*(runner.undo_left() for runner in runners), return_exceptions=True)

    def _next_look(self, done: int, last: int) -> int:
        """The number of blocks after which effects are examined next; not one that would leave most groups idle."""
        looks = self.time.plan.schedule
        return (
            next((one for one in sorted(looks.rates) if done + self.time.groups <= one < last), last) if looks else last
        )

    async def _execute_up_to(self, look: int) -> None:
        """Before the look the target is never lowered: blocks under way may be beyond it."""
        experiment = self.study.experiment
        async for block, _ in self.cluster.map(self.time.missing(look)):
            self.time.groups = max(1, len(self.cluster.live))
            if late := self.time.late(look, self.time.done):
                self.watcher.say(late)
            self.target = self.time.replan(self.target, self.time.done, at_least=self.target.blocks)
            lengthen_washout(self.folder, experiment, block, self.watcher.say)
        self.target = self.time.replan(self.target, look)

    async def _execute(self, group: str, block: int) -> None:
        """One block on one group, if it is not made yet. Raises GroupLostError: only other groups take blocks now."""
        if self.folder.block_path(block).is_dir():
            return  # on a group that was excluded then
        attempt = self.leases.lease(block, group)
        plan = self.time.plan
        self.watcher.block_leased(group, block, self.target.blocks)
        order = BlockOrder(block)
        if plan.design != "blocks":
            self.time.groups = max(1, len(self.cluster.live))
            order = self.time.order(block, len(self.time.missing(self.target.blocks)) - len(self._flying))
        aside = self.folder.path / "blocks" / f".{block:02d}.{attempt}.unfinished"
        self._flying.add(block)
        try:
            finished = await self.runners[group].execute(self.study, plan, order, aside)
        except GroupLostError as error:
            shutil.rmtree(aside, ignore_errors=True)
            self._lost(group, block, attempt, error)
            raise
        finally:
            self._flying.discard(block)
        self._commit(group, block, attempt, aside, finished)
        if why := self._fails_in_a_row(group, block):
            self._exclude(group, why)
            raise GroupLostError(why)

    def _fails_in_a_row(self, group: str, block: int) -> str | None:
        """Note the runs of a block that ended: why the group should execute no more of them, or None."""
        runs = [run for run in self.folder.runs() if run.block == block and run.host_group == group]
        if self.time.plan.design != "blocks":
            return self._stopping.block_ended(runs, self.study.experiment.control) if runs else None
        return next(filter(None, [self._stopping.run_ended(run) for run in runs]), None)

    def _exclude(self, group: str, why: str) -> None:
        """Raises StudyError if there is no other group."""
        if not self._returning and set(self.cluster.live) <= {group}:
            self._stopping.stop(why)
        self.folder.journal.append(EXCLUDED_EVENT, group=group, why=why)
        self.watcher.group_lost(group, why, True)

    def _lost(self, group: str, block: int, attempt: int, error: GroupLostError) -> None:
        self.leases.lost(block, attempt, group, str(error))
        self._were_lost.add(group)
        for_good = isinstance(error, GroupUnfitError)
        self.watcher.group_lost(group, f"block {block}: {error}", for_good)
        if for_good:
            self.folder.journal.append(EXCLUDED_EVENT, group=group, why=str(error))
            return
        task = asyncio.create_task(self._return(group))
        self._returning[task] = group
        task.add_done_callback(self._returning.pop)

    async def _return(self, group: str) -> None:
        """Try to reach a lost group again, until it can be or the study ends."""
        for attempt in itertools.count():
            await sleep(min(RETRY_S, FIRST_RETRY_S * 2 ** min(attempt, 10)))
            try:
                await self.runners[group].open()
                await self.runners[group].undo_left()
            except GroupLostError:
                continue
            self.watcher.say(f"{group} is back")
            self.cluster.add(group)
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
            if event["event"] == PILOT_EVENT:
                self.watcher.pilot_ended(event["of"], event["half_widths"])
        self.leases.committed(block, attempt, group)
        if finished.overhead_s is not None:
            self.time.overheads_s.append(finished.overhead_s)
        plan, of, precision = self.time.plan, self.target.blocks, None
        if plan.design != "blocks":
            precision = precision_so_far(self.folder, plan, of)
        self.watcher.block_committed(group, block, self.time.done, of, precision)
