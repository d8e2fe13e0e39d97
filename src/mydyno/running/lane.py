"""One arm (or the control's copy A′) inside a block of an interleaved study: its servers, its treatments, its loads.

All lanes of a block run at the same time and are loaded in turn. Whatever goes wrong in a lane after its data were
restored is a result of its arm, recorded in `failed`; the other lanes go on.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.drivers.held import HeldLoad, Holds, SliceOrder
from mydyno.errors import BugError, HostError, StudyError, UserError
from mydyno.hosts.quiet import process_cpu_s
from mydyno.model.experiment import ArmSpec, Step
from mydyno.model.plan import PlannedRun
from mydyno.model.records import Evidence, ServerRecord, StepRecord
from mydyno.running.bench import Bench
from mydyno.running.slices import LaneReadings, PartOfSlice, add_handshakes, whole_counts
from mydyno.running.together import all_or_none
from mydyno.servers.instance import LOAD_USER, Instance, Place
from mydyno.servers.templates import Template
from mydyno.store.files import write_text
from mydyno.treatments.base import Accounted, ProvesEnd, ProvesLoad, Treatment
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.reconcile import growth

CRASH_S = 3.0
"""A server that crashes writes a stack trace after its load has failed, and then ends."""


@dataclass
class Lane:
    """One arm's part of a block. Methods are called in the order in which they stand here."""

    bench: Bench
    planned: PlannedRun
    folder: Path
    """Where its logs go: the run's folder, not yet in its place."""
    first_number: int
    """Its servers are numbered from here, so that every server of the block has a number of its own."""
    instances: list[Instance] = field(default_factory=list)
    treatments: dict[int, list[Treatment]] = field(default_factory=dict)
    loads: list[HeldLoad] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    servers: list[ServerRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why its numbers do not count although the arm did not fail (a treatment that is not proved)."""
    failed: str = ""
    """Why the arm failed as a whole."""
    failed_steps: dict[str, str] = field(default_factory=dict)
    handshakes: dict[str, Any] = field(default_factory=dict)
    """TLS handshakes of the load since connect(): full, resumed, negotiated."""
    whole: dict[str, int] = field(default_factory=dict)
    """What the load did since connect(), warm-up and pilot included; to be held against the servers' counters."""
    begun: dict[int, dict[str, float]] = field(default_factory=dict)
    """Server counters at the begin of the current step, by instance."""
    started_unix_ns: int = field(default_factory=time.time_ns)

    @property
    def name(self) -> str:
        """The arm, with A′ for the control's copy."""
        return self.planned.arm + ("′" if self.planned.copy_number == 2 else "")

    @property
    def arm(self) -> ArmSpec:
        """The arm."""
        return self.bench.experiment.arm(self.planned.arm)

    @property
    def up(self) -> bool:
        """Whether it can be loaded."""
        return not self.failed and not self.reasons

    def runs_step(self, step: Step) -> bool:
        """Whether it can be loaded at this step."""
        return self.up and step.id not in self.failed_steps

    async def provision(self, template: Template) -> None:
        """Restore the data and apply the treatments; nothing runs yet. Raises HostError, which ends the study."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for index, place in enumerate(self.planned.places):
            suffix = "" if index == 0 else f"-{index + 1}"
            number = self.first_number + index
            where = Place(place, self.planned.places)
            instance = self.bench.instance(
                self.bench.scratch / f"server-{number}", self.folder / f"server{suffix}.log", number, where,
                self.planned.arm,
            )  # fmt: skip
            instance.settings.environment["MYDYNO_PADDING"] = "x" * self.planned.environment_padding_bytes
            self.instances.append(instance)
            self.treatments[number] = treatments_of(self.arm)
        try:
            for own in self.treatments.values():
                for treatment in own:
                    await treatment.get(self.bench.settings.cache, self.bench.host)
        except (HostError, UserError) as error:
            self.failed = f"{error.message}"
            return
        for instance in self.instances:
            await self.bench.restore(template, instance)

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
        """Read the servers' records and prove the treatments; an arm that is not what it says has no numbers."""
        await self._guarded(self._prove)

    async def _prove(self) -> None:
        for instance in self.instances:
            local = self._local_number(instance)
            self.servers.append((await instance.record()).model_copy(update={"instance": local}))
            for treatment in self.treatments[instance.number]:
                self._take(await treatment.evidence(instance), local)

    def _take(self, evidence: Evidence, local_number: int) -> None:
        self.evidence.append(evidence.model_copy(update={"instance": local_number}))
        if not evidence.holds:
            self.reasons.append(f"treatment not proved: {evidence.treatment}: {evidence.text}")

    def _local_number(self, instance: Instance) -> int:
        return instance.number - self.first_number + 1

    async def prewarm(self) -> None:
        """Read or store all data once."""
        await self._guarded(lambda: all_or_none([self.bench.prewarm(instance) for instance in self.instances]))

    async def connect(self, step: Step) -> None:
        """Connect a load program to each server and hold it."""
        if not self.runs_step(step):
            return
        self.handshakes, self.whole = {}, {}
        try:
            for instance in self.instances:
                self.begun[instance.number] = await instance.counters()
            self.loads = await all_or_none([self._hold(instance, step) for instance in self.instances])
        except StudyError as error:
            await self._step_failed(step, error)

    async def _hold(self, instance: Instance, step: Step) -> HeldLoad:
        driver = self.bench.drivers[step.driver]
        if not isinstance(driver, Holds):
            raise BugError(f"the driver {step.driver} cannot hold: this study needs the design blocks")
        private = self.bench.sockets / f"load-{instance.number}"
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        pid = None if instance.process is None else instance.pid
        address = instance.address(LOAD_USER)
        log = self.folder / "driver.log"
        return await driver.hold(address, self.bench.experiment.data, step, private, log, pid)

    async def slice(self, step: Step, order: SliceOrder) -> list[PartOfSlice]:
        """Load every server of the lane for one slice; empty where the arm failed in it."""
        before = [LaneReadings.read(instance) for instance in self.instances]
        try:
            records = await all_or_none([load.slice(order) for load in self.loads])
        except StudyError as error:
            await self._step_failed(step, error)
            return []
        for name, count in whole_counts(records).items():
            self.whole[name] = self.whole.get(name, 0) + count
        for record in records:
            add_handshakes(self.handshakes, record.get("tls", {}).get("whole_load", {}))
        after = [LaneReadings.read(instance) for instance in self.instances]
        return [PartOfSlice(*part) for part in zip(records, before, after, strict=True)]

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
            await self._step_failed(step, error)
        return counted

    @property
    def load_command(self) -> tuple[str, ...]:
        """How its first load program was started, without the password's file; empty where none runs."""
        words = self.loads[0].command if self.loads else ()
        return tuple(word for word in words if not word.startswith("--password-file"))

    def cpu_s(self) -> float:
        """CPU time of its servers so far; servers that have ended count 0."""
        pids = [instance.pid for instance in self.instances if instance.process is not None]
        return sum(process_cpu_s(pid) or 0.0 for pid in pids)

    async def account(self, steps: Sequence[StepRecord], samples: Sequence[Any]) -> None:
        """Proofs from after the load: of each step, of the whole, and those that end the server."""
        if not self.up:
            return
        await self._guarded(lambda: self._account(steps, samples))

    async def _account(self, steps: Sequence[StepRecord], samples: Sequence[Any]) -> None:
        for instance in self.instances:
            local = self._local_number(instance)
            for treatment in self.treatments[instance.number]:
                if isinstance(treatment, Accounted):
                    self._take(await treatment.account(instance), local)
                if isinstance(treatment, ProvesLoad) and len(self.instances) == 1:
                    for record in steps:
                        self._take(treatment.load_evidence(record, samples), local)
        for instance in self.instances:
            for treatment in self.treatments[instance.number]:
                if isinstance(treatment, ProvesEnd):
                    evidence = await treatment.end_evidence(instance)
                    if evidence is not None:
                        self._take(evidence, self._local_number(instance))

    async def stop(self) -> None:
        """End loads and servers, and undo the treatments; safe whatever has happened before."""
        await asyncio.gather(*(load.end() for load in self.loads))
        self.loads = []
        for warning in await asyncio.gather(*(instance.stop() for instance in self.instances)):
            if warning:
                self.warnings.append(warning)

    async def undo(self) -> None:
        """Undo the treatments and remove the data."""
        for treatment in reversed([one for own in self.treatments.values() for one in own]):
            await treatment.undo()
        for index, instance in enumerate(self.instances):
            configuration = instance.folder / "my.cnf"
            if configuration.exists() and self.folder.is_dir():
                name = "my.cnf" if index == 0 else f"my-{index + 1}.cnf"
                write_text(self.folder / name, configuration.read_text())
            shutil.rmtree(instance.folder, ignore_errors=True)

    async def _guarded(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do it where the lane is up; a failure of the server or its load is the arm's result."""
        if not self.up:
            return
        try:
            await work()
        except StudyError as error:
            self.failed = error.message

    async def _step_failed(self, step: Step, error: StudyError) -> None:
        """The step failed; where a server has ended, so has the arm for the rest of the block."""
        await asyncio.gather(*(load.end() for load in self.loads))
        self.loads = []
        self.failed_steps[step.id] = error.message
        await self._note_end(step, CRASH_S)

    async def _note_end(self, step: Step, wait_s: float) -> None:
        """Where a server ends within this time, that is why the step failed, and the arm with it."""
        for instance in self.instances:
            if self.failed or instance.process is None:
                continue
            try:
                exit_code = await instance.process.wait(wait_s)
            except TimeoutError:
                continue
            words = f"the server ended with exit code {exit_code} during {step.id}; {self.failed_steps[step.id]}"
            self.failed = self.failed_steps[step.id] = f"{words}{instance.log_tail()}"
