"""One block of a study on this host: what `mydyno block` does in a folder with study.json and plan.json.

It waits for its turn: an earlier block of the same study may still be undoing its changes. A controller that lost its
connection, or was killed and resumed, is back within seconds; the block that it left behind ends with its connection,
or when it has been silent for too long, and stops its servers first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from mydyno.drivers.base import Progress
from mydyno.errors import HostError, StudyError, UserError
from mydyno.execution.blocks import make_runs
from mydyno.execution.checks import check_host, other_versions
from mydyno.execution.environments.environment import Opener, close
from mydyno.execution.environments.open_environment import open_environment
from mydyno.execution.environments.probe import Sampler
from mydyno.execution.interleaved.block import SliceKind
from mydyno.execution.interleaved.order import BlockOrder, execute_order, given_up
from mydyno.execution.live import INTERVAL_S, LiveNow
from mydyno.execution.planning.design_choice import choose_design
from mydyno.execution.study_record import own_name
from mydyno.fleet.block_clients import BlockClients, check_address
from mydyno.fleet.messages import (
    GRACE_S,
    SILENCE_S,
    AnyMessage,
    Finished,
    Lived,
    Prepared,
    Progressed,
    Said,
    manifest,
    slice_text,
)
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.facts import host_facts
from mydyno.hosts.lock import CLEANING, lock_holder, study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import clean_up
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import Design, Plan, PlannedBlock, PlannedRun, make_plan
from mydyno.model.metrics import lane_name
from mydyno.model.stored.records import RunRecord, SliceRecord, StudyRecord
from mydyno.store.study_folder import StudyFolder

HOST_EVENT = "host_found"
Emit = Callable[[AnyMessage], None]
MOST_WAITING_S = SILENCE_S + GRACE_S
"""An earlier block notices that it was left, and undoes everything."""
MOST_UNKNOWN_S = 10.0
"""The holder does not answer: it may just have released the lock."""
STEP_S = 0.5


class _Reporter:
    """Sends what a block does to whoever started it: when it happens, and within seconds() once a second."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._now = LiveNow()

    def say(self, text: str) -> None:
        self._emit(Said(text=text))

    def pilot_ended(self, of: int, half_widths: Mapping[str, float]) -> None:
        """The controller reads it from the journal."""

    def does(self, text: str) -> None:
        self._emit(Progressed(text=text))

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:  # noqa: ARG002
        self.say(f"block {planned.block}: {lane_name(planned.arm, planned.copy_number)}")
        self._now.rest("starting", arm=planned.arm, copy_number=planned.copy_number)

    def run_ended(self, record: RunRecord) -> None:
        pass

    def load(self, step: Step, progress: Progress) -> None:
        self._now.load(step, progress)
        self._emit(Progressed(text=f"{step.id} {progress.t_s:.0f} s"))

    def sampling(self, sampler: Sampler | None) -> None:
        self._now.sampling(sampler)

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        self._now.slice_begins(kind, step, cycle, planned, instances)

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:  # noqa: ARG002
        self._now.slice_ended(record)
        self._emit(Progressed(text=slice_text(record)))

    @asynccontextmanager
    async def seconds(self, block: int) -> AsyncIterator[None]:
        """The state once a second, of a block whose servers are started next."""
        self._now.rest("starting", block=block)
        task = asyncio.create_task(self._send_seconds())
        try:
            yield
        finally:
            task.cancel()

    async def _send_seconds(self) -> None:
        while True:
            self._emit(Lived(second=self._now.second()))
            await asyncio.sleep(INTERVAL_S)


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
    async with AsyncExitStack() as stack:
        stack.enter_context(recorded_commands())
        await stack.enter_async_context(own_turn(study.study, paths.study_lock_address, reporter.say))
        clean_up(paths.undo, reporter.say)
        # Now that no earlier block has memory, disk space or control groups of this host.
        design = choose_design(experiment, paths)
        check_host(experiment, make_plan(experiment, design, 1), paths, apart=clients is not None)
        environment = await opener(paths, experiment, own_name(study.study), folder, reporter.say)
        stack.callback(close, environment, reporter.say)
        if clients is not None:
            check_address(clients.address)
            stack.push_async_callback(clients.close)
            environment.clients = clients
        await environment.rehearse(reporter.say)
        for arm in experiment.arms:
            await environment.template(arm, reporter.say)
        emit(Prepared(design=design.kind, why=design.why, versions=environment.versions, facts=host_facts(paths.data)))


async def execute_block(
    path: Path,
    order: BlockOrder,
    paths: HostPaths,
    emit: Emit,
    opener: Opener = open_environment,
    clients: BlockClients | None = None,
    group: str = "",
) -> None:
    """Execute one block of the study in `path`; emits Finished. A block that is there already is only reported.

    `group`: the host group that its runs name; empty: the controller names it. Raises UserError for a block that the
    plan does not have, HostError and StudyError as run_study does, StudyError if an earlier block of the study does not
    end.
    """
    # A batch system may have lost sight of a block that still runs, and start it elsewhere.
    folder = StudyFolder.open(path.resolve(), f"{order.block}-{token_hex(4)}" if group else "")
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
            stack.enter_context(recorded_commands()).keep_in(folder.path, folder.commands_file)
            await stack.enter_async_context(own_turn(study.study, paths.study_lock_address, reporter.say))
            seen = len(folder.journal.read())
            if not folder.is_block_complete(order.block):  # the earlier block may have finished it
                overhead_s = await _execute(
                    stack, folder, study, plan, block, order, paths, reporter, opener, clients, group
                )
    if group:
        folder.name_host_group(order.block, group)
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
    stack: AsyncExitStack,
    folder: StudyFolder,
    study: StudyRecord,
    plan: Plan,
    block: PlannedBlock,
    order: BlockOrder,
    paths: HostPaths,
    reporter: _Reporter,
    opener: Opener,
    clients: BlockClients | None,
    group: str,
) -> float | None:
    """Seconds of overhead of an interleaved block; None for the design of blocks. `stack`: what to close afterwards."""
    clean_up(paths.undo, reporter.say)
    check_host(study.experiment, plan, paths, apart=clients is not None)
    environment = await opener(paths, study.experiment, own_name(study.study), folder.path, reporter.does)
    stack.callback(close, environment, reporter.say)
    if wrong := other_versions(study.versions, environment.versions):
        hint = "runs of different versions do not belong in one study: run `mydyno hosts prepare` on every host"
        raise HostError(wrong, hint)
    if group:
        folder.journal.append(HOST_EVENT, group=group, versions=environment.versions, host=host_facts(paths.data))
    await stack.enter_async_context(reporter.seconds(order.block))
    templates = {arm.name: await environment.template(arm, reporter.does) for arm in study.experiment.arms}
    if clients is not None:
        stack.push_async_callback(clients.close)
        await clients.open(environment.sockets / "clients")
        environment.clients = clients
    if plan.design != "blocks":
        skipped = order.skipped_arms | given_up(folder, study.experiment.control, order.block)
        order = replace(order, skipped_arms=skipped)
        return (await execute_order(environment, folder, plan, order, templates, reporter)).overhead_s
    async for _ in make_runs(environment, folder, plan, block, templates, reporter):
        pass
    return None


def design_of(prepared: dict[str, Prepared]) -> Design:
    """The design that every host can execute: interleaved where each of them can."""
    for name, one in prepared.items():
        if one.design == "blocks":
            return Design("blocks", f"{name}: {one.why}")
    first = next(iter(prepared.values()))
    return Design(first.design, first.why)


@asynccontextmanager
async def own_turn(
    study: str,
    address: str,
    say: Callable[[str], None],
    *,
    most_waiting_s: float = MOST_WAITING_S,
    most_unknown_s: float = MOST_UNKNOWN_S,
) -> AsyncIterator[None]:
    """Hold the host's lock, after an earlier block of this study, or `mydyno clean`, has released it.

    Raises HostError for another study, StudyError if the earlier block does not end.
    """
    began_s = time.monotonic()
    said = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(study_lock(study, address))
                break
            except HostError as error:
                holder, waited_s = lock_holder(address), time.monotonic() - began_s
                if holder is not None and holder.study in {study, CLEANING}:
                    if waited_s >= most_waiting_s:
                        words = f"an earlier process still holds this host after {most_waiting_s:.0f} s: {holder}"
                        raise StudyError(words) from error
                elif (holder is not None and holder.pid) or waited_s >= most_unknown_s:
                    raise
            if not said:
                say("waiting for an earlier block of this study to end")
                said = True
            await asyncio.sleep(STEP_S)
        yield
