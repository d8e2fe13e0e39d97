"""One block of a study on this host: what `mydyno block` does in a folder with study.json and plan.json."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

from mydyno.drivers.base import Progress
from mydyno.errors import HostError, UserError
from mydyno.execution.canaries import before_block
from mydyno.execution.design_choice import choose_design
from mydyno.execution.environment import Opener, Sampler, StudyEnvironment
from mydyno.execution.forecast import forecast
from mydyno.execution.interleaved import BlockResult, SliceKind, make_block
from mydyno.execution.interleaved_study import STOP_RESERVE_S, given_up
from mydyno.execution.open_environment import open_environment
from mydyno.execution.pace import FixedCycles, UntilDeadline
from mydyno.execution.run import make_saved_run
from mydyno.execution.time_plan import cycles_of, shape_of
from mydyno.fleet.block_clients import BlockClients, check_address
from mydyno.fleet.messages import AnyMessage, Finished, Prepared, Progressed, Said, manifest, slice_text
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.facts import host_facts
from mydyno.hosts.lock import study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import clean_up
from mydyno.model.experiment import Experiment, Step
from mydyno.model.plan import Design, Plan, PlannedBlock, PlannedRun, make_plan
from mydyno.model.records import SliceRecord, StudyRecord
from mydyno.servers.templates import Template
from mydyno.store.study_folder import StudyFolder

Emit = Callable[[AnyMessage], None]


@dataclass(frozen=True)
class BlockOrder:
    """What a host is to do for one block."""

    block: int
    length_s: float | None = None
    """Of an interleaved block: as many cycles as fit; None: the experiment's own number of cycles."""
    washout_s: float | None = None
    """None: design.washout."""
    group: str = ""
    """The host group that the block's runs name; empty: the controller names it."""
    skipped_arms: frozenset[str] = frozenset()
    """Arms that failed too often to be started again, besides those that failed in the host's own last blocks."""


class _Reporter:
    """Sends what a block does to whoever started it."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit

    def say(self, text: str) -> None:
        self._emit(Said(text=text))

    def does(self, text: str) -> None:
        self._emit(Progressed(text=text))

    def load(self, step: Step, progress: Progress) -> None:
        self._emit(Progressed(text=f"{step.id} {progress.t_s:.0f} s"))

    def sampling(self, sampler: Sampler | None) -> None:
        """Samples stay on this host."""

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        """The end of a slice is reported, not its begin."""

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:  # noqa: ARG002
        self._emit(Progressed(text=slice_text(record)))


async def prepare_host(
    study: StudyRecord,
    folder: Path,
    paths: HostPaths,
    emit: Emit,
    opener: Opener = open_environment,
    clients: BlockClients | None = None,
) -> None:
    """Fetch, build and prepare everything that blocks of the study need on this host; emits Prepared.

    Raises UserError and HostError with what stands in the way.
    """
    experiment = study.experiment
    reporter = _Reporter(emit)
    with ExitStack() as stack:
        stack.enter_context(recorded_commands())
        design = choose_design(experiment, paths)
        _check(experiment, make_plan(experiment, design, 1), paths)
        stack.enter_context(study_lock(study.study, paths.study_lock_address))
        clean_up(paths.undo, reporter.say)
        environment = await opener(paths, experiment, _own_name(study), folder, reporter.say)
        stack.callback(_close, environment, reporter)
        if clients is not None:
            check_address(clients.address)
        await environment.rehearse(reporter.say)
        for arm in experiment.arms:
            await environment.template(arm, reporter.say)
        emit(
            Prepared(
                design=design.kind,
                why=design.why,
                # The CPU time of a load program on another host is no measure of this host's speed.
                client_untouched=design.client_untouched and clients is None,
                versions=environment.versions,
                facts=host_facts(paths.data),
            )
        )


async def execute_block(
    path: Path,
    order: BlockOrder,
    paths: HostPaths,
    emit: Emit,
    opener: Opener = open_environment,
    clients: BlockClients | None = None,
) -> None:
    """Execute one block of the study in `path`; emits Finished. A block that is there already is only reported.

    Raises UserError for a block that the plan does not have, HostError and StudyError as run_study does.
    """
    folder = StudyFolder.open(path.resolve())
    study, plan = folder.study(), folder.plan()
    block = next((one for one in plan.blocks if one.block == order.block), None)
    if block is None:
        raise UserError(f"--block {order.block}: the plan has the blocks 1 to {len(plan.blocks)}")
    unknown = order.skipped_arms - {arm.name for arm in study.experiment.arms}
    if unknown:
        raise UserError(f"--skip-arm {', '.join(sorted(unknown))}: no such arm in {study.experiment.name}")
    seen = len(folder.journal.read())
    overhead_s = None
    if not folder.is_block_complete(order.block):
        reporter = _Reporter(emit)
        async with AsyncExitStack() as stack:
            stack.enter_context(recorded_commands()).keep_in(folder.path)
            _check(study.experiment, plan, paths)
            stack.enter_context(study_lock(study.study, paths.study_lock_address))
            clean_up(paths.undo, reporter.say)
            environment = await opener(paths, study.experiment, _own_name(study), folder.path, reporter.does)
            stack.callback(_close, environment, reporter)
            _check_versions(study, environment)
            templates = {arm.name: await environment.template(arm, reporter.does) for arm in study.experiment.arms}
            if clients is not None:
                stack.push_async_callback(clients.close)
                await clients.open(environment.sockets / "clients")
                environment.clients = clients
            overhead_s = await _execute(environment, folder, plan, block, order, templates, reporter)
    if order.group:
        folder.name_host_group(order.block, order.group)
    emit(
        Finished(
            block=order.block,
            versions=study.versions,
            files=manifest(folder.block_path(order.block)),
            overhead_s=overhead_s,
            journal=tuple(folder.journal.read()[seen:]),
        )
    )


async def _execute(
    environment: StudyEnvironment,
    folder: StudyFolder,
    plan: Plan,
    block: PlannedBlock,
    order: BlockOrder,
    templates: dict[str, Template | None],
    reporter: _Reporter,
) -> float | None:
    """Seconds of overhead of an interleaved block; None for the design of blocks."""
    experiment = environment.experiment
    if plan.design == "interleaved":
        return (await _interleaved(environment, folder, block, order, templates, reporter)).overhead_s
    if experiment.design.canary:
        await before_block(environment, folder, block.block, reporter.say)
    for planned in block.runs:
        if not (folder.path / planned.folder / "run.json").is_file():
            reporter.say(f"block {block.block}: {planned.arm}" + (" (A/A copy)" if planned.copy_number == 2 else ""))
            await make_saved_run(environment, folder, plan, planned, templates[planned.arm], reporter)
    return None


async def _interleaved(
    environment: StudyEnvironment,
    folder: StudyFolder,
    block: PlannedBlock,
    order: BlockOrder,
    templates: dict[str, Template | None],
    reporter: _Reporter,
) -> BlockResult:
    experiment = environment.experiment
    steps = {step.id: step for step in experiment.resolved_steps}
    if order.length_s is None:
        pace: FixedCycles | UntilDeadline = FixedCycles(cycles_of(experiment))
    else:
        reserve_s = STOP_RESERVE_S + 0.5 * shape_of(experiment).servers
        pace = UntilDeadline(time.monotonic() + order.length_s, reserve_s)
    return await make_block(
        environment,
        block,
        [steps[step_id] for step_id in block.step_order],
        templates,
        folder,
        pace,
        reporter,
        experiment.design.washout if order.washout_s is None else order.washout_s,
        order.skipped_arms | given_up(folder, experiment.control, block.block),
    )


def _own_name(study: StudyRecord) -> str:
    """What this process marks its processes and changes with: two groups may share a kernel (containers), and a block
    that ends must not end the servers of another one of its study."""
    return f"{study.study}-{secrets.token_hex(3)}"


def _check(experiment: Experiment, plan: Plan, paths: HostPaths) -> None:
    obstacles = forecast(experiment, plan, paths).obstacles
    if obstacles:
        raise HostError("this host cannot execute the study:\n  " + "\n  ".join(obstacles))
    paths.program("dynoprobe")


def _check_versions(study: StudyRecord, environment: StudyEnvironment) -> None:
    for name, version in environment.versions.items():
        if study.versions.get(name, version) != version:
            raise HostError(
                f"{name} is {version} on this host, the study has {study.versions[name]}",
                "runs of different versions do not belong in one study: run `mydyno hosts prepare` on every host",
            )


def _close(environment: StudyEnvironment, reporter: _Reporter) -> None:
    for left in environment.close():
        reporter.say(f"could not be undone: {left}")


def design_of(prepared: dict[str, Prepared]) -> Design:
    """The design that every host can execute: interleaved where each of them can."""
    for name, one in prepared.items():
        if one.design == "blocks":
            return Design("blocks", f"{name}: {one.why}", one.client_untouched)
    first = next(iter(prepared.values()))
    return Design("interleaved", first.why, all(one.client_untouched for one in prepared.values()))
