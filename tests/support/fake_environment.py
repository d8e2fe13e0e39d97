"""A fake host, server and driver: the whole program runs without any of them, with exact numbers and in no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.drivers.base import Driver, Progress
from mydyno.errors import ServerError
from mydyno.evaluation.facts import Precision
from mydyno.execution.counters.programs import StartCounting
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.block import BlockResult, SliceKind
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ArmSpec, Experiment, Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.records import Evidence, RunRecord, SliceRecord
from mydyno.servers.running.base import WHOLE_HOST, CpuSlot, RunningServer
from mydyno.servers.templates import Template
from mydyno.treatments.base import Treatment
from tests.support.fake_counters import FakeCounting, FakeProbe, FakeProfiler, FakeTracer
from tests.support.fake_driver import FakeDriver
from tests.support.fake_script import Script
from tests.support.fake_server import Bench, FakeInstance


class FakeTreatment(Treatment):
    """Holds unless the script says otherwise."""

    name = "fake"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:
        return {}

    async def apply(self, instance: RunningServer) -> None:
        self._script.events.append("apply")

    async def evidence(self, instance: RunningServer) -> Evidence:
        self._script.events.append("evidence")
        if self._script.evidence is not None:
            return self._script.evidence(self._script.current)
        return Evidence(treatment="fake", holds=True, text="it holds")

    async def undo(self) -> None:
        self._script.events.append("undo")


class FakeEnvironment(StudyEnvironment):
    """Behaves like execution.environments.private_environment.PrivateEnvironment; only its undo journal is real."""

    def __init__(self, paths: HostPaths, experiment: Experiment, undo: UndoJournal, script: Script) -> None:
        self.script = script
        host = LocalHost("fake", None, undo)
        self.bench = Bench(script, host)
        drivers: dict[str, Driver] = {step.driver: FakeDriver(self.bench) for step in experiment.steps}
        runs, sockets = (paths.data / name for name in ("runs", "sockets"))
        versions = {"server": "10.11.19-MariaDB"}
        super().__init__(paths, experiment, host, undo, drivers, runs, sockets, versions, restores_data=True)

    def instance(
        self, folder: Path, log: Path, number: int = 1, cpu_slot: CpuSlot = WHOLE_HOST, arm: str | None = None
    ) -> FakeInstance:
        self.bench.sampled = []
        self.bench.count = number
        log.write_text("fake server\n")
        made = FakeInstance(self.bench, folder, log, number, cpu_slot)
        if arm is not None:
            made.arm = arm
            made.copy = 2 if f"{arm}.2" in str(log) else 1
        self.bench.instances[number] = made
        return made

    def treatments(self, arm: ArmSpec) -> list[Treatment]:
        return [FakeTreatment(self.script)] if arm.treatments else []

    def probe(self, instances: Sequence[RunningServer], *, speed_meter: bool = False) -> FakeProbe:
        return FakeProbe(self.bench)

    def profiler(self) -> FakeProfiler | None:
        return None if self.script.stacks is None else FakeProfiler(self.bench)

    def wait_counter(self) -> StartCounting | None:
        if self.script.waits is None:
            return None
        return lambda servers: FakeCounting(self.bench, [self.bench.instances[one.number] for one in servers])

    def kernel_counter(self) -> FakeTracer | None:
        return None if self.script.kernel is None else FakeTracer(self.bench)

    async def template(self, arm: ArmSpec, say: Callable[[str], None]) -> Template | None:
        failure = self.script.unprepared.get(arm.name)
        return None if failure is None else Template(self.paths.data / "template", 0, failure)

    async def prewarm(self, instance: RunningServer) -> None:
        self.script.events.append("prewarm")

    async def restore(self, template: Template | None, instance: RunningServer) -> None:
        if template is not None and template.failure:
            raise ServerError(template.failure)
        self.script.events.append("restore")

    def close(self) -> list[str]:
        self.script.events.append("close")
        return super().close()


def opener(script: Script) -> Any:
    """What study.run_study takes in place of open_private_environment."""

    async def open_fake(paths: HostPaths, experiment: Experiment, study: str, path: Path, say: Any) -> FakeEnvironment:
        undo = UndoJournal.begin(paths.undo, study, path)
        folder = paths.data / "runs"
        undo.will_change("folder", path=str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        return FakeEnvironment(paths, experiment, undo, script)

    return open_fake


@dataclass
class Watched:
    """A watcher that remembers."""

    script: Script
    said: list[str] = field(default_factory=list)
    ended: list[RunRecord] = field(default_factory=list)
    precisions: list[Precision | None] = field(default_factory=list)

    def kept_in(self, folder: Path) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:
        self.script.current = planned
        self.script.events.append(f"run {planned.folder}")
        self.script.on_run(planned)

    def load(self, step: Step, progress: Progress) -> None:
        return None

    def run_ended(self, record: RunRecord) -> None:
        self.ended.append(record)

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:
        self.script.events.append(f"block {block}/{of}")

    def slice_begins(self, kind: SliceKind, step: Step) -> None:
        return None

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        return None

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        self.ended += result.runs
        self.precisions.append(precision)
