"""One arm (or the control's copy A′) inside a block of an interleaved study: its servers, its treatments, its loads.

All lanes of a block run at the same time and are loaded in turn. Whatever goes wrong in a lane after its data were
restored is a result of its arm, recorded in `failed`; the other lanes continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.clock import of_monotonic
from mydyno.drivers.base import StepContext
from mydyno.drivers.held import HeldLoad, HoldingDriver, SliceOrder, digests_of, findings_of
from mydyno.errors import BugError, DriverError, HostError, StudyError, UserError
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.slices import QUERIES, LaneReadings, PartOfSlice, add_handshakes, whole_counts
from mydyno.execution.validity import VARIABLES_HINT, refused_variables, unproved_by
from mydyno.files.atomic import remove_tree, write_text
from mydyno.hosts.local import all_or_none
from mydyno.hosts.quiet import MemoryCounters, killed_processes, process_cpu_s
from mydyno.model.definition.experiment import ArmSpec, Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.metrics import lane_name
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import (
    CountFacts,
    CpuProfile,
    Digest,
    DriverFinding,
    Evidence,
    ServerRecord,
    StepRecord,
)
from mydyno.servers.running.base import LOAD_USER, CpuSlot, RunningServer
from mydyno.servers.templates import Template
from mydyno.store.samples import Sample
from mydyno.treatments.base import Treatment
from mydyno.workloads.reconcile import growth

CRASH_S = 3.0
"""A server that crashes writes a stack trace after its load has failed, and then ends."""

MOST_TRIES = 5
"""For one slice."""
KILLED = (-9, 137)
"""Exit codes of a process that SIGKILL ended, directly and as a shell reports it."""


def server_end(exit_code: int, pid: int | None, out_of_memory_kills: int, killed: Set[int] | None) -> str:
    """How a server ended, in words. `out_of_memory_kills`: on the whole host since the block began; `killed`: which
    processes they ended, None where the kernel's log cannot be read.
    """
    if exit_code in KILLED and out_of_memory_kills > 0:
        if killed is None:
            return f"the server was killed (exit code {exit_code}) while this host was out of memory"
        if pid in killed:
            return f"the kernel killed the server for lack of memory (exit code {exit_code})"
    return f"the server ended with exit code {exit_code}"


def _has_errors(record: dict[str, Any]) -> bool:
    counts = record["whole_counts"]
    return any(counts.get(name, 0) for name in ("errors", "ignored_errors", "reconnects"))


@dataclass
class Lane:
    """One arm's part of a block. Methods are called in the order of their definition."""

    environment: StudyEnvironment
    planned: PlannedRun
    folder: Path
    """Where its logs go: the run's folder, not yet in its place."""
    first_number: int
    """Its servers are numbered from here, so that every server of the block has a number of its own."""
    started_unix_ns: int
    instances: list[RunningServer] = field(default_factory=list)
    treatments: dict[int, list[Treatment]] = field(default_factory=dict)
    loads: list[HeldLoad] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    servers: list[ServerRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    """Why its numbers do not count although the arm did not fail (a treatment that is not proved)."""
    failed: str = ""
    """Why the arm failed as a whole."""
    failed_steps: dict[str, str] = field(default_factory=dict)
    load_command: tuple[str, ...] = ()
    """How its first load program was started, without the password's file; empty if none was."""
    handshakes: dict[str, Any] = field(default_factory=dict)
    """TLS handshakes of the load since connect(): full, resumed, negotiated."""
    whole: dict[str, int] = field(default_factory=dict)
    """What the load did since connect(), warm-up included; to be compared with the servers' counters."""
    digests: tuple[Digest, ...] = ()
    """Those of the capture that the load replays."""
    findings: tuple[DriverFinding, ...] = ()
    """What the load programs' own rules found in all slices since connect()."""
    served: int = 0
    """Queries that its servers answered since their start: warm-up and washouts included."""
    begun: dict[int, dict[str, float]] = field(default_factory=dict)
    """Server counters at the beginning of the current step, by instance."""
    memory: MemoryCounters = field(default_factory=MemoryCounters.read)
    """The kernel's counters when the lane was made."""
    cpu_profiles: tuple[CpuProfile, ...] = ()
    waits: tuple[CountFacts, ...] = ()
    kernel: tuple[CountFacts, ...] = ()
    connection_memory: dict[str, float] = field(default_factory=dict)
    """{step: memory of the servers per connection in bytes}, for the first connected step: later ones reuse memory."""
    configurations: dict[str, str] = field(default_factory=dict)
    """The servers' option files, by their names in the run's folder."""
    connected: bool = False
    """Whether any step was connected."""
    stopped: bool = False
    """Whether stop() was called."""

    @property
    def name(self) -> str:
        """The arm, or its second copy."""
        return lane_name(self.planned.arm, self.planned.copy_number)

    @property
    def key(self) -> tuple[str, int]:
        """Arm and copy."""
        return self.planned.arm, self.planned.copy_number

    @property
    def arm(self) -> ArmSpec:
        """The arm."""
        return self.environment.experiment.arm(self.planned.arm)

    @property
    def up(self) -> bool:
        """Whether it can be loaded."""
        return not self.failed and not self.reasons

    def runs_step(self, step: Step) -> bool:
        """Whether it can be loaded at this step."""
        return self.up and step.id not in self.failed_steps

    async def provision(self, template: Template | None) -> None:
        """Restore the data and apply the treatments; nothing runs yet. Raises HostError, which ends the study."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for index, place in enumerate(self.planned.places):
            suffix = "" if index == 0 else f"-{index + 1}"
            number = self.first_number + index
            slot = CpuSlot(place, self.planned.places)
            instance = self.environment.instance(
                self.environment.scratch / f"server-{number}", self.folder / f"server{suffix}.log", number, slot,
                self.planned.arm,
            )  # fmt: skip
            instance.build_number = self.planned.build
            instance.settings.environment["MYDYNO_PADDING"] = "x" * self.planned.environment_padding_bytes
            self.instances.append(instance)
            self.treatments[number] = self.environment.treatments(self.arm)
        try:
            for own in self.treatments.values():
                for treatment in own:
                    await treatment.get(self.environment.paths, self.environment.host)
        except (HostError, UserError) as error:
            self.failed = f"{error.message}"
            return
        await self._guarded(lambda: self._restore(template))

    async def _restore(self, template: Template | None) -> None:
        for instance in self.instances:
            await self.environment.restore(template, instance)

    async def apply(self) -> None:
        """Apply the treatments: one lane after the other, since they change this host."""
        await self._guarded(self._apply)

    async def _apply(self) -> None:
        for instance in self.instances:
            for treatment in self.treatments[instance.number]:
                await treatment.apply(instance)

    async def start(self) -> None:
        """Start the servers."""
        await self._guarded(lambda: all_or_none([instance.start() for instance in self.instances]))

    async def prove(self) -> None:
        """Read the servers' records and prove the treatments; an arm whose treatment is not verified has no values."""
        await self._guarded(self._prove)

    async def _prove(self) -> None:
        for instance in self.instances:
            local = self._local_number(instance)
            self.servers.append((await instance.record()).model_copy(update={"instance": local}))
            for treatment in self.treatments[instance.number]:
                self._take(await treatment.evidence(instance), local)

    def _take(self, evidence: Evidence | None, local_number: int) -> None:
        if evidence is None:
            return
        self.evidence.append(evidence.model_copy(update={"instance": local_number}))
        if reason := unproved_by([evidence]):
            self.reasons.append(reason)

    def _local_number(self, instance: RunningServer) -> int:
        return instance.number - self.first_number + 1

    async def prewarm(self) -> None:
        """Read or store all data once."""
        await self._guarded(lambda: all_or_none([self.environment.prewarm(instance) for instance in self.instances]))

    async def connect(self, step: Step) -> None:
        """Connect a load program to each server and hold it."""
        self.handshakes, self.whole, self.findings, self.digests, self.load_command = {}, {}, (), (), ()
        if not self.runs_step(step):
            return
        try:
            await self.begin_counting()
            before = self.rss_bytes()
            self.loads = await all_or_none([self._hold(instance, step) for instance in self.instances])
        except StudyError as error:
            await self.step_failed(step, error)
            return
        self.load_command = tuple(one for one in self.loads[0].command if not one.startswith("--password-file"))
        after = self.rss_bytes()
        if before is not None and after is not None and not self.connected:
            connections = step.connections * len(self.instances)
            self.connection_memory[step.id] = max(0.0, after - before) / connections
        self.connected = True

    async def begin_counting(self) -> None:
        """Read the servers' counters, from which disconnect() counts. Raises StudyError."""
        for instance in self.instances:
            self.begun[instance.number] = await instance.counters()

    def rss_bytes(self) -> float | None:
        """Resident memory of its servers; None where it cannot be read."""
        found = [LaneReadings.read(instance).memory for instance in self.instances]
        return sum(one["server_rss_bytes"] for one in found) if all(found) else None

    async def _hold(self, instance: RunningServer, step: Step) -> HeldLoad:
        driver = self.environment.drivers[step.driver]
        if not isinstance(driver, HoldingDriver):
            raise BugError(f"the driver {step.driver} cannot hold its connections: this study needs the design blocks")
        private = self.environment.sockets / f"load-{self.first_number + self._local_number(instance) - 1}"
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        pid = None if instance.process is None else instance.pid
        data, log = self.environment.experiment.data, self.folder / "driver.log"
        clients = self.environment.clients
        agents = () if clients is None else clients.agents
        return await driver.hold(StepContext(instance.address(LOAD_USER), data, step, private, log, agents), pid)

    async def slice(self, step: Step, order: SliceOrder) -> list[PartOfSlice]:
        """Load every server of the lane for one slice; empty if the arm failed in it, or before.

        A slice that passed while the load program stood still, as when the host pauses, is made again: that is not the
        arm's doing.
        """
        if not self.runs_step(step):
            return []
        try:
            for attempt in range(1, MOST_TRIES + 1):
                before = [LaneReadings.read(instance) for instance in self.instances]
                records = await all_or_none([load.slice(order) for load in self.loads])
                after = [LaneReadings.read(instance) for instance in self.instances]
                for name, count in whole_counts(records).items():
                    self.whole[name] = self.whole.get(name, 0) + count
                    self.served += count if name in QUERIES else 0
                self.findings = tuple(one for record in records for one in findings_of(record.get("findings", ())))
                self.digests = self.digests or digests_of(records[0].get("digests", ()))
                for record in records:
                    add_handshakes(self.handshakes, record.get("tls", {}).get("whole_load", {}))
                empty = [record for record in records if record["length_s"] <= 0]
                if not empty:
                    if attempt > 1:
                        self.warnings.append(
                            f"slice {order.id}: made {attempt} times, since the load program stood still"
                        )
                    return [PartOfSlice(*part) for part in zip(records, before, after, strict=True)]
                if any(_has_errors(record) for record in empty):
                    raise DriverError(f"slice {order.id} ended before its measured part: every connection was lost")
            raise DriverError(f"slice {order.id}: the load program stood still during it, {MOST_TRIES} times in a row")
        except StudyError as error:
            await self.step_failed(step, error)
            return []

    async def disconnect(self, step: Step) -> dict[str, float]:
        """End the load programs; how the servers' counters grew since connect(), all servers together."""
        await asyncio.gather(*(load.end() for load in self.loads))
        self.loads = []
        counted: dict[str, float] = {}
        if step.id in self.failed_steps:
            await self._note_end(step, 0.1)  # by now a server that crashed has written its stack trace
        if not self.runs_step(step):
            return counted
        try:
            for instance in self.instances:
                for name, value in growth(self.begun[instance.number], await instance.counters()).items():
                    counted[name] = counted.get(name, 0.0) + value
        except StudyError as error:
            await self.step_failed(step, error)
        return counted

    async def load_alone(self, step: Step, orders: Sequence[SliceOrder]) -> list[list[PartOfSlice]]:
        """Slices after the run's own work is complete: a failure in them is a warning, not the arm's result."""
        before = self.failed, dict(self.failed_steps)
        found: list[list[PartOfSlice]] = []
        await self.connect(step)
        for order in orders:
            parts = await self.slice(step, order)
            if parts:
                found.append(parts)
        await self.disconnect(step)
        if (self.failed, self.failed_steps) != before:
            self.warnings.append(f"loaded alone, it failed: {self.failed or self.failed_steps.get(step.id, '')}")
            self.failed, self.failed_steps = before
        return found

    def cpu_s(self) -> float:
        """CPU time of its servers so far; servers that have ended count 0."""
        pids = [instance.pid for instance in self.instances if instance.process is not None]
        return sum(process_cpu_s(pid) or 0.0 for pid in pids)

    async def account(self, steps: Sequence[StepRecord], samples: Sequence[Sample]) -> None:
        """Proofs from after the load: of each step, of the whole, and those that end the server."""
        if not self.up:
            return
        await self._guarded(lambda: self._account(steps, samples))

    async def _account(self, steps: Sequence[StepRecord], samples: Sequence[Sample]) -> None:
        for instance in self.instances:
            local = self._local_number(instance)
            for treatment in self.treatments[instance.number]:
                self._take(await treatment.account(instance), local)
                if len(self.instances) == 1:
                    for record in steps:
                        self._take(treatment.load_evidence(record, samples), local)
        for instance in self.instances:
            for treatment in self.treatments[instance.number]:
                self._take(await treatment.end_evidence(instance), self._local_number(instance))

    async def stop(self) -> None:
        """End loads and servers, and undo the treatments; safe in any state."""
        if self.stopped:
            return
        self.stopped = True
        await asyncio.gather(*(load.end() for load in self.loads))
        self.loads = []
        for warning in await asyncio.gather(*(instance.stop() for instance in self.instances)):
            if warning:
                self.warnings.append(warning)

    async def undo(self) -> None:
        """Undo the treatments."""
        for treatment in reversed([one for own in self.treatments.values() for one in own]):
            await treatment.undo()

    def remove_data(self) -> None:
        """Remove the servers' folders."""
        for index, instance in enumerate(self.instances):
            configuration = instance.folder / "my.cnf"
            if configuration.exists():
                self.configurations["my.cnf" if index == 0 else f"my-{index + 1}.cnf"] = configuration.read_text()
            remove_tree(instance.folder)

    def write_configurations(self) -> None:
        """The servers' option files, once the data of every lane are removed: a file that is written through to the
        disk before takes all that the servers wrote with it.
        """
        for name, text in self.configurations.items():
            write_text(self.folder / name, text)

    async def _guarded(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do it where the lane is up; a failure of the server or its load is the arm's result."""
        if not self.up:
            return
        try:
            await work()
        except StudyError as error:
            self.failed = error.message

    async def step_failed(self, step: Step, error: StudyError) -> None:
        """The step failed; where a server has ended, so has the arm for the rest of the block.

        Raises HostError if the load's own host is lost, which ends the block.
        """
        if self.environment.clients is not None:
            self.environment.clients.check()
        await asyncio.gather(*(load.end() for load in self.loads))
        self.loads = []
        self.failed_steps[step.id] = error.message
        await self._note_end(step, CRASH_S)

    async def _note_end(self, step: Step, wait_s: float) -> None:
        """If a server ends within this time, its end is the cause, and the arm failed as a whole."""
        for instance in self.instances:
            if self.failed or instance.process is None:
                continue
            try:
                exit_code = await instance.process.wait(wait_s)
            except TimeoutError:
                continue
            memory = MemoryCounters.read().since(self.memory)
            killed = killed_processes((self.started_unix_ns - of_monotonic(0)) / 1e9)
            end = server_end(exit_code, instance.pid, memory.out_of_memory_kills or 0, killed)
            words = f"{end} during {step.id}; {self.failed_steps[step.id]}"
            self.failed = self.failed_steps[step.id] = f"{words}{instance.log_tail()}"


def check_variables(lanes: Sequence[Lane], control: str) -> None:
    """Raise StudyError where a server does not start with the variables of its arm, or has others in force.

    No later block would change that. Any other arm that does not start has failed, which is a result.
    """
    of_control = next(lane for lane in lanes if lane.planned.arm == control)
    for lane in lanes:
        if words := refused_variables(lane.evidence):
            raise StudyError(f"arm {lane.planned.arm}: variables: {words}", VARIABLES_HINT)
        if lane.failed and not of_control.failed and lane.arm.treatments.get("variables"):
            raise StudyError(
                f"arm {lane.planned.arm}: variables: its server does not start with them, and the control's does: "
                f"{lane.failed}",
                "change the value that its log names, or leave the arm out",
            )
