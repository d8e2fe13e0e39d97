"""One block of an interleaved study: every arm's servers and the control's copy up together, loaded one at a time.

Restore, treat, start, prove and prewarm all lanes; then, step by step, connect a load program to each and run cycles of
slices in random order; then stop and undo everything. In the design "switchback" one server serves all lanes
(switchback.py). The block's folder is written under a temporary name and renamed when complete.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Literal, Protocol

from mydyno import clock
from mydyno.drivers.held import SliceOrder
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.environments.probe import CLIENT_SCOPE, Sampler, busy_client_words, busy_pct
from mydyno.execution.interleaved.block_records import run_record, step_record, step_samples, windows_of
from mydyno.execution.interleaved.capacity_search import BlockSearches
from mydyno.execution.interleaved.counted_slices import KernelSlices, ProfiledSlices, SlicesApart, WaitSlices
from mydyno.execution.interleaved.cycle import QuietWait, balanced_order
from mydyno.execution.interleaved.lane import Lane, check_variables
from mydyno.execution.interleaved.long_transactions import may_be_empty, slice_too_short
from mydyno.execution.interleaved.pilot import is_enough
from mydyno.execution.interleaved.slices import Around, slice_record, speed_between
from mydyno.execution.interleaved.statement_pairs import compare_statements
from mydyno.execution.interleaved.switchback import lanes_of
from mydyno.execution.planning.time_plan import SLICE_GAP_S, CapturedTime, Pace, shape_of
from mydyno.failpoints import failpoint
from mydyno.hosts.limits import quota_periods, throttled_since
from mydyno.hosts.quiet import MemoryCounters, process_cpu_s
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import PlannedBlock, PlannedRun
from mydyno.model.definition.special_steps import speed_of
from mydyno.model.definition.specs import apart_slice_s
from mydyno.model.stored.reasons import GIVEN_UP
from mydyno.model.stored.records import ClientLoad, RunRecord, SliceRecord, StepRecord
from mydyno.servers.templates import Template
from mydyno.store.samples import ALONE_FILE, SLICES_FILE, Sample, write_samples, write_slices
from mydyno.store.study_folder import StudyFolder

STARTING_AT_A_TIME = 4
PROBE_TARGETS_PER_S = 5
"""Servers that the probe reads each second; with more, it reads each less often, to limit the servers' CPU time."""
MOST_STREAMS = 1 << 22
ALONE_SLICES = 8
"""Slices of the control with the other servers stopped, after the last step of a study's first block."""
ALONE_CYCLE = 1_000_000
"""Their random streams are numbered from here: beyond those of every cycle."""

SliceKind = Literal["warm-up", "slice", "profile", "waits", "kernel", "alone"]


class BlockWatcher(Protocol):
    """Receives the progress of a block and of its pilot."""

    def say(self, text: str) -> None:
        """A line for the user."""

    def sampling(self, sampler: Sampler | None) -> None:
        """The sampler of the block's servers has been started, or (None) stopped."""

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        """The servers of a lane, of these numbers, are loaded; `cycle` is 0 outside of cycles."""

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        """A slice of a cycle has ended."""

    def pilot_ended(self, of: int, half_widths: Mapping[str, float]) -> None:
        """The precision to be expected at `of` blocks, from the pilot; empty: it showed none."""


@dataclass
class BlockResult:
    """A finished block, already saved."""

    runs: list[RunRecord] = field(default_factory=list)
    slices: list[SliceRecord] = field(default_factory=list)
    waited_s: float = 0.0
    overhead_s: float = 0.0
    """From the block's begin to its first slice, and from its last slice to its end."""


class Block:
    """The state of one block while it runs."""

    def __init__(
        self,
        environment: StudyEnvironment,
        folder: StudyFolder,
        block: PlannedBlock,
        pace: Pace,
        watcher: BlockWatcher,
        washout_s: float,
        searches: BlockSearches,
        pilot: Callable[[Sequence[SliceRecord]], None] | None,
        switchback: bool,
    ) -> None:
        """`pilot` receives the slices of the first cycles of the block's first step.

        `searches` choose the rates of a capacity search.
        """
        steps = {step.id: step for step in environment.experiment.resolved_steps}
        self.environment = environment
        self.block = block
        self.steps = [steps[step_id] for step_id in block.step_order]
        self._folder = folder
        self._aside = folder.begin_block(block.block)
        self.lanes = lanes_of(environment, block, self._aside, switchback)
        self.slices: list[SliceRecord] = []
        self.profiled = ProfiledSlices(environment.profiler(), environment.clients is not None)
        self.waits = WaitSlices(environment.wait_counter(), environment.clients is not None)
        self.kernel = KernelSlices(environment.kernel_counter(), environment.clients is not None)
        self._apart: tuple[SlicesApart[Any, Any, Any], ...] = (self.profiled, self.waits, self.kernel)
        self.pilot = pilot
        self.searches = searches
        self.washout_s = washout_s
        self._pace = pace
        self._watcher = watcher
        self._captured = CapturedTime(self.steps)
        self._quiet = QuietWait(environment.experiment.design.quiet_wait)
        self._memory = MemoryCounters.read()
        self._wall_offset_ns = clock.wall_offset_ns()
        self._probe: Sampler | None = None
        self._probe_words: list[str] = []
        self._unsampled: dict[str, str] = {}
        self._samples: list[Sample] = []
        self._step_records: dict[tuple[str, int], list[StepRecord]] = {}

    async def make(
        self, templates: Mapping[str, Template | None], given_up: frozenset[str], alone: bool
    ) -> BlockResult:
        """Run the block and save it. `given_up` are arms that failed too often to be started again.

        `alone`: at the end the other servers are stopped, and the control is loaded alone (alone.jsonl).
        Raises HostError for what would spoil every block; a failing arm is a result.
        """
        begun_s = time.monotonic()
        try:
            await self.start(templates, given_up)
            loaded_s = time.monotonic()
            for number, step in enumerate(self.steps):
                if not self.control.up:
                    break
                await self.step(step, len(self.steps) - number)
            ended_s = time.monotonic()
            await self.account()
            accounted_s = time.monotonic()
            if alone:
                await self.load_alone()
            alone_s = time.monotonic() - accounted_s
        finally:
            await self.stop()
        result = self.finished()
        write_slices(self._aside / SLICES_FILE, result.slices)
        self.write_apart()
        self._folder.commit_block(self.block.block, result.runs, result.waited_s)
        result.overhead_s = (loaded_s - begun_s) + (time.monotonic() - ended_s) - alone_s
        return result

    @property
    def control(self) -> Lane:
        """The control's first copy: without it the block has no ratio."""
        name = self.environment.experiment.control
        return next(lane for lane in self.lanes if lane.key == (name, 1))

    @property
    def _at_positions(self) -> list[Lane]:
        """In the block's order: the lane that has the server of all is no more often the first one than the others."""
        return sorted(self.lanes, key=lambda lane: lane.planned.position)

    async def start(self, templates: Mapping[str, Template | None], given_up: frozenset[str]) -> None:
        """Everything up to the first slice."""
        for lane in self.lanes:
            if lane.planned.arm in given_up:
                lane.folder.mkdir(parents=True, exist_ok=True)
                lane.failed = GIVEN_UP
            else:
                await lane.provision(templates[lane.planned.arm])
        for lane in self.lanes:
            await lane.apply()
        gate = asyncio.Semaphore(STARTING_AT_A_TIME)

        async def begin(lane: Lane) -> None:
            async with gate:
                await lane.start()

        await asyncio.gather(*(begin(lane) for lane in self.lanes))
        await asyncio.gather(*(lane.prove() for lane in self.lanes))
        if self.block.block == 1:
            check_variables(self.lanes, self.environment.experiment.control)
        for lane in self.lanes:
            await lane.prewarm()
        up = [lane for lane in self.lanes if lane.up]
        if instances := list(dict.fromkeys(instance for lane in up for instance in lane.instances)):
            interval_ms = 1000 * max(1, -(-len(instances) // PROBE_TARGETS_PER_S))
            self._probe = self.environment.probe(instances, speed_meter=True)
            await self._probe.start(interval_ms)
            self._watcher.sampling(self._probe)

    async def step(self, step: Step, steps_left: int) -> None:
        """One step of all lanes: connect, warm up, cycles, disconnect."""
        root = self.environment.paths.root
        began_unix_ns, before_quota = clock.unix_ns(), quota_periods(root)
        self._pace.step_begins(steps_left)
        if step.statements:
            length_s = self._pace.left_s(shape_of(self.environment.experiment).cycle_s)
            self._begins("slice", step, 1, self.control)
            self.slices += await compare_statements(self.environment, self.lanes, step, self._aside, length_s)
        else:
            await self._load(step)
        samples = [] if self._probe is None or self.environment.clients is None else self._probe.so_far()
        throttled = throttled_since(before_quota, root)
        counters = [await lane.disconnect(step) for lane in self.lanes]
        for lane, counted in zip(self.lanes, counters, strict=True):
            own = [one for one in self.slices if one.step == step.id and self._is_of(one, lane)]
            clients = self._clients(own, samples)
            record = step_record(lane, step, own, counted, clients, began_unix_ns, throttled)
            self._step_records.setdefault(lane.key, []).append(record)

    async def _load(self, step: Step) -> None:
        """Connect, warm up, cycles."""
        for lane in self._at_positions:
            await lane.connect(step)
        if step.warmup_s > 0:
            warmup = self._order(step, "warmup", 0, 0.0, step.warmup_s)
            for lane in self._present(step):
                self._begins("warm-up", step, 0, lane)
                await lane.slice(step, self.searches.warmup(step, lane.key, warmup))
        for lane in self._present(step):
            await self._ramp(step, lane)
        cycle, last_s = 0, 0.0
        slice_s = self.environment.experiment.design.slice
        has_room = partial(self._captured.has_room, step, self.washout_s + slice_s)
        has_room_apart = partial(self._captured.has_room, step, self.washout_s + apart_slice_s(slice_s))
        while self.control.runs_step(step) and self._pace.another_cycle(cycle, last_s) and has_room():
            began_s = time.monotonic()
            await self._quiet.before_cycle(self._all_cpu_s(), self._all_cpu_s)
            cycle += 1
            await self._cycle(step, cycle)
            if cycle == 1 and self.block.block == 1:
                await self._require_transactions(step)
            self._quiet.note_steal([o.steal for o in self.slices if (o.step, o.cycle) == (step.id, cycle)])
            last_s = time.monotonic() - began_s
            self._state_precision(step, cycle)
            for apart in self._apart:
                if apart.due(cycle) and self._pace.another_cycle(cycle - 1, last_s) and has_room_apart():
                    await self._cycle_apart(apart, step, cycle)
        self._state_precision(step, cycle, last=True)

    async def _ramp(self, step: Step, lane: Lane) -> None:
        async def load(order: SliceOrder) -> list[dict[str, Any]]:
            self._begins("warm-up", step, 0, lane)
            return [part.record for part in await lane.slice(step, order)]

        await self.searches.ramp(step, lane.key, self._stream(step, 0), load)

    @property
    def _loaded_share(self) -> float:
        """Share of the time of a slice, to the next one, in which it loads."""
        loaded_s = self.environment.experiment.design.slice + self.washout_s
        return loaded_s / (loaded_s + SLICE_GAP_S)

    def _clients(self, slices: Sequence[SliceRecord], samples: Sequence[Sample]) -> tuple[ClientLoad, ...]:
        """The hosts that these slices were loaded from, and how busy they were meanwhile."""
        clients = self.environment.clients
        if clients is None:
            return ()
        busy = busy_pct(samples, windows_of(slices), self._loaded_share)
        return tuple(ClientLoad(name=agent.name, busy_pct=busy.get(agent.name)) for agent in clients.agents)

    def _state_precision(self, step: Step, cycles: int, last: bool = False) -> None:
        """After so many cycles of the block's first step: the pilot, once they are enough, or there are no more."""
        own = [one for one in self.slices if one.step == step.id]
        if self.pilot is not None and (last or is_enough(cycles, len({(one.arm, one.copy_number) for one in own}))):
            pilot, self.pilot = self.pilot, None
            pilot(own)

    async def _cycle(self, step: Step, cycle: int) -> None:
        design = self.environment.experiment.design
        lanes, name = self._present(step), f"mydyno-cycle-2-{design.seed}-{self.block.block}-{step.id}"
        order = self._order(step, f"{step.id}/{cycle}", cycle, self.washout_s, design.slice)
        for position, place in enumerate(balanced_order(len(lanes), cycle, name), 1):
            lane = lanes[place]
            if not lane.runs_step(step):
                continue
            others_before = self._all_cpu_s() - lane.cpu_s()
            speed_before = await self._speed()
            self._begins("slice", step, cycle, lane)
            own = self.searches.order(step, lane.key, order)
            parts = await lane.slice(step, own)
            speed_after = await self._speed()
            others_s = self._all_cpu_s() - lane.cpu_s() - others_before
            if not parts:
                planned = lane.planned
                failed = SliceRecord(
                    block=self.block.block, step=step.id, cycle=cycle, position=position, arm=planned.arm,
                    copy=planned.copy_number, started_unix_ns=clock.unix_ns(), length_s=0.0, washout_s=self.washout_s,
                    failed=lane.failed_steps.get(step.id, lane.failed),
                )  # fmt: skip
                self.slices.append(failed)
                continue
            record = slice_record(
                step, self.block.block, cycle, position, lane.planned.arm, lane.planned.copy_number, parts,
                Around(
                    others_s, speed_between(speed_before, speed_after), self.environment.clients is not None,
                    self.environment.experiment.server.dsn is not None,
                ),
            ).model_copy(update={
                "washout_s": self.washout_s,
                "served": lane.served or None,
                "search": self.searches.note(step, lane.key, own, [part.record for part in parts]),
            })  # fmt: skip
            self.slices.append(record)
            self._samples += step_samples(record, lane.first_number)
            self._watcher.slice_ended(step, cycle, record)
            await self._quiet.after_slice(lane.cpu_s)

    async def _require_transactions(self, step: Step) -> None:
        """Raises HostError where the control was loaded, and none of its transactions ended within a slice."""
        lane, slice_s = self.control, self.environment.experiment.design.slice
        own = [one for one in self.slices if one.step == step.id and one.arm == lane.planned.arm]
        if any(one.transactions or one.failed for one in own) or may_be_empty(step, slice_s) or speed_of(step):
            return

        async def load(length_s: float) -> int:
            order = SliceOrder(f"{step.id}/{length_s:g}s", self._stream(step, -1), self.washout_s, length_s)
            parts = await lane.slice(step, order)
            return sum(int(part.record["counts"]["transactions"]) for part in parts)

        raise await slice_too_short(step, self.environment.experiment.design, load, lane.instances[0])

    async def _cycle_apart(self, apart: SlicesApart[Any, Any, Any], step: Step, cycle: int) -> None:
        design, lanes = self.environment.experiment.design, self._present(step)
        Random(f"mydyno-{apart.name}-1-{design.seed}-{self.block.block}-{step.id}-{cycle}").shuffle(lanes)
        name = f"{apart.name}/{step.id}/{cycle}"
        order = self._order(step, name, apart.first_stream + cycle, self.washout_s, apart_slice_s(design.slice))
        await apart.cycle(step, cycle, lanes, order, lambda lane: self._begins(apart.kind, step, cycle, lane))

    def _begins(self, kind: SliceKind, step: Step, cycle: int, lane: Lane) -> None:
        failpoint(kind)
        self._watcher.slice_begins(kind, step, cycle, lane.planned, [one.number for one in lane.instances])

    def _present(self, step: Step) -> list[Lane]:
        return [lane for lane in self._at_positions if lane.runs_step(step) and lane.loads]

    def _order(self, step: Step, name: str, cycle: int, washout_s: float, measure_s: float) -> SliceOrder:
        """A slice for every lane; of a replay at captured times the part after the last one."""
        place = self._captured.take(step, washout_s, measure_s)
        return SliceOrder(name, self._stream(step, cycle) if place is None else place, washout_s, measure_s)

    def _stream(self, step: Step, cycle: int) -> int:
        """The same for every lane of a cycle, another one in each cycle, step and block."""
        design = self.environment.experiment.design
        return Random(f"mydyno-stream-2-{design.seed}-{self.block.block}-{step.id}-{cycle}").randrange(1, MOST_STREAMS)

    def _all_cpu_s(self) -> float:
        pids = {one.pid for lane in self.lanes for one in lane.instances if one.process is not None}
        return sum(process_cpu_s(pid) or 0.0 for pid in pids)

    async def _speed(self) -> tuple[int, int] | None:
        return None if self._probe is None else await self._probe.speed()

    def _is_of(self, record: SliceRecord, lane: Lane) -> bool:
        return (record.arm, record.copy_number) == lane.key

    async def account(self) -> None:
        """Proofs from after the load."""
        samples = [] if self._probe is None else self._probe.so_far()
        for lane in reversed(self.lanes):  # the first may have the server of all, which its proof may end
            lane.cpu_profiles = self.profiled.save(lane)
            lane.waits = self.waits.save(lane)
            lane.kernel = self.kernel.save(lane)
            await lane.account(self._step_records.get(lane.key, []), self._local(lane, [*samples, *self._samples]))

    async def load_alone(self) -> None:
        """Stop the other servers and load the control alone, for as many slices of the last step as ALONE_SLICES."""
        step, control, design = self.steps[-1], self.control, self.environment.experiment.design
        others = [lane for lane in self.lanes if lane is not control]
        length_s = ALONE_SLICES * (self.washout_s + design.slice)
        if not (others and control.runs_step(step) and self._captured.has_room(step, length_s)):
            return
        await self._stop_probe()
        await asyncio.gather(*(lane.stop() for lane in others))
        orders = [
            self._order(step, f"alone/{number}", ALONE_CYCLE + number, self.washout_s, design.slice)
            for number in range(ALONE_SLICES)
        ]
        own = control.planned
        self._begins("alone", step, 0, control)
        slices = [
            slice_record(step, own.block, number, 1, own.arm, own.copy_number, parts, Around(0.0))
            for number, parts in enumerate(await control.load_alone(step, orders), 1)
        ]
        write_slices(self._aside / ALONE_FILE, [one.model_copy(update={"washout_s": self.washout_s}) for one in slices])

    async def _stop_probe(self) -> None:
        if self._probe is None:
            return
        self._watcher.sampling(None)
        self._probe_words += await self._probe.stop()
        self._unsampled.update(self._probe.unsampled())
        sampled, complaints = self._probe.samples()
        self._samples += sampled
        self._probe_words += complaints
        self._probe = None

    async def stop(self) -> None:
        """Stop the probe and every server, then undo; whatever fails, the rest is still done."""
        results = [
            *await asyncio.gather(self._stop_probe(), return_exceptions=True),
            *await asyncio.gather(*(lane.stop() for lane in self.lanes), return_exceptions=True),
        ]
        for lane in reversed(self.lanes):
            await lane.undo()
        await asyncio.gather(*(asyncio.to_thread(lane.remove_data) for lane in self.lanes))
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def write_apart(self) -> None:
        """The slices apart from the measured ones, a file of each kind that exists."""
        for apart in self._apart:
            if apart.records:
                write_slices(self._aside / apart.file, apart.records)

    def _local(self, lane: Lane, samples: Sequence[Sample]) -> list[Sample]:
        """The samples of the host and of the lane's own servers, which are numbered from 1 in its files.

        Without the host's network: what is sampled are the interfaces of all servers together.
        """
        own = {f"{kind}:{lane.first_number + index}": f"{kind}:{index + 1}"
               for index in range(len(lane.planned.places)) for kind in ("instance", "driver")}  # fmt: skip
        return [
            replace(sample, scope=own.get(sample.scope, sample.scope))
            for sample in samples
            if sample.scope in own
            or sample.scope.startswith(f"{CLIENT_SCOPE}:")
            or (sample.scope == "host" and not sample.metric.startswith("network_"))
        ]

    def finished(self) -> BlockResult:
        """Write each run's files and return the records."""
        memory = MemoryCounters.read().since(self._memory)
        runs = []
        self._probe_words += busy_client_words(
            self._samples, windows_of(self.slices), self.environment.experiment.validity.driver_cpu, self._loaded_share
        )
        self._probe_words += clock.step_words(self._wall_offset_ns)
        for lane in self.lanes:
            steps = self._step_records.get(lane.key, [])
            record = run_record(lane, steps, self._probe_words, memory, self._unsampled)
            samples = self._local(lane, self._samples)
            lane.write_configurations()
            write_samples(lane.folder / "samples.parquet", samples, lane.started_unix_ns, steps)
            runs.append(record)
        return BlockResult(runs, self.slices, self._quiet.waited_s)
