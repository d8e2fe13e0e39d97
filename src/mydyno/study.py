"""The order of steps of a study, and nothing else: check, plan, and per run: provision, load, measure, stop, save."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.execution.blocks import make_runs
from mydyno.execution.checks import check_host, check_more_time, other_versions
from mydyno.execution.environments.environment import Opener, StudyEnvironment, close
from mydyno.execution.environments.open_environment import open_environment
from mydyno.execution.interim import Decided, Stopping, ended, is_decided
from mydyno.execution.interleaved.study import Blocks
from mydyno.execution.interleaved.study_time import StudyTime, remaining_s
from mydyno.execution.live import Listener, LiveWatcher, Watcher
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.study_record import Request, note_resumed, nothing_to_resume, own_name
from mydyno.fleet.study_files import find_files
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.lock import turn_of
from mydyno.hosts.paths import HostPaths, check_writable
from mydyno.hosts.undo import clean_up
from mydyno.model.definition.plan import Plan, instances_of_each
from mydyno.model.stored.records import StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.servers.templates import Template
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult


async def run_study(
    request: Request, paths: HostPaths, watcher: Watcher, opener: Opener = open_environment
) -> tuple[StudyFolder, Summary]:
    """A new study, from check to summary. `opener` makes the study environment; tests pass a fake one.

    Raises UserError and HostError before anything is started, StudyError when it went wrong on the way; what was
    finished is kept, and resume_study continues from there.
    """
    with ExitStack() as stack:
        commands = stack.enter_context(recorded_commands())
        plan = plan_study(request.experiment, paths)
        _check_folders(request.studies, "--studies", paths)
        check_host(request.experiment, plan, paths)
        files = find_files(request.experiment)
        made = request.new_study(paths)
        path = stack.enter_context(StudyFolder.claimed(request.studies.resolve(), made.study))
        study = made.model_copy(update={"study": path.name, "files": files.checksums})
        await turn_of(stack, study.study, paths.study_lock_address, watcher.say if paths.waits else None)
        live = stack.enter_context(LiveWatcher(watcher, request.listeners, request.live_interval_s))
        clean_up(paths.undo, live.say, paths.root)
        environment = await opener(paths, request.experiment, own_name(study.study), path, live.say)
        stack.callback(close, environment, live.say)
        folder = StudyFolder.create(path, _with_facts(study, environment), plan)
        files.keep_in(folder.path)
        commands.keep_in(folder.path)
        live.keep_in(folder.path, study.study, plan, resumed=False)
        time_s = request.experiment.design.time if plan.sequential else None
        more = instances_of_each(request.experiment) == 1
        time = request.timing(folder, request.experiment, plan, time_s, more)
        summary = await _execute(environment, time, live, request.decided)
        live.finished(StoredResult.load(folder))
        return folder, summary


async def resume_study(
    path: Path,
    paths: HostPaths,
    watcher: Watcher,
    opener: Opener = open_environment,
    time_s: float | None = None,
    listeners: tuple[Listener, ...] = (),
    decided: Decided = is_decided,
    timing: type[StudyTime] = StudyTime,
) -> tuple[StudyFolder, Summary]:
    """Make the runs that a study still lacks, in its plan's order. Raises as run_study does.

    `time_s` adds blocks to an interleaved study with a time, up to the last interim analysis that fits; None: the time
    that was left. `decided`: when it may end at one.
    """
    folder = StudyFolder.open(path.resolve())
    study, plan = folder.study(), folder.plan()
    check_more_time(folder, plan, time_s)
    if time_s is None and not folder.missing_runs(plan):
        watcher.say(nothing_to_resume(folder, plan))
        return folder, summarise(folder)
    with ExitStack() as stack:
        _check_folders(folder.path, "the study folder", paths)
        stack.enter_context(recorded_commands()).keep_in(folder.path)
        find_files(study.experiment).check_unchanged(study)
        check_host(study.experiment, plan, paths)
        await turn_of(stack, study.study, paths.study_lock_address, watcher.say if paths.waits else None)
        live = stack.enter_context(LiveWatcher(watcher, listeners))
        live.keep_in(folder.path, study.study, plan, resumed=True)
        clean_up(paths.undo, live.say, paths.root)
        environment = await opener(paths, study.experiment, own_name(study.study), folder.path, live.say)
        stack.callback(close, environment, live.say)
        if wrong := other_versions(study.versions, environment.versions):
            raise UserError(wrong, "runs of different versions do not belong in one study; begin a new one")
        note_resumed(folder, study, live.say, folder.discard_unfinished())
        more = time_s is not None
        if time_s is None and plan.sequential:
            time_s = remaining_s(plan, folder, study.experiment)
        summary = await _execute(environment, timing(folder, study.experiment, plan, time_s, more), live, decided)
        live.finished(StoredResult.load(folder))
        return folder, summary


async def _execute(environment: StudyEnvironment, time: StudyTime, watcher: LiveWatcher, decided: Decided) -> Summary:
    """Make what the study lacks, by its design."""
    for evidence in await environment.rehearse(watcher.say):
        time.folder.journal.append("treatment_rehearsed", treatment=evidence.treatment, text=evidence.text)
    templates = {arm.name: await environment.template(arm, watcher.say) for arm in environment.experiment.arms}
    if time.plan.design == "blocks":
        return await _make_runs(environment, time.folder, time.plan, templates, watcher)
    return await Blocks(environment, time, watcher, decided).run(templates)


def _check_folders(studies: Path, name: str, paths: HostPaths) -> None:
    for folder, what in ((studies, name), (paths.data, "--data"), (paths.cache, "the cache folder")):
        check_writable(folder, what)


async def _make_runs(
    environment: StudyEnvironment,
    folder: StudyFolder,
    plan: Plan,
    templates: Mapping[str, Template | None],
    watcher: LiveWatcher,
) -> Summary:
    stopping = Stopping(folder)
    for block in plan.blocks:
        async for record in make_runs(environment, folder, plan, block, templates, watcher):
            stopping.stop(stopping.run_ended(record))
    return ended(folder, plan, len(plan.blocks))


def _with_facts(study: StudyRecord, environment: StudyEnvironment) -> StudyRecord:
    found = {"versions": environment.versions, "server_host": environment.server_facts}
    return study.model_copy(update=found)
