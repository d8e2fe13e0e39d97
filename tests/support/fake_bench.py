"""A fake host, server and driver: the whole program runs without any of them, with exact numbers and in no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mydyno.drivers.base import DriverOutcome, Progress
from mydyno.errors import DriverError
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, DataSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.plan import PlannedRun
from mydyno.model.records import DriverResult, Evidence, RunRecord, ServerRecord
from mydyno.servers.instance import ALONE, InstanceSettings, Place
from mydyno.servers.sql import Address
from mydyno.store.samples import Sample
from mydyno.treatments.base import TreatmentDefaults

STARTED_UNIX_NS = 1_800_000_000_000_000_000


def experiment(arms: Sequence[str] = ("glibc", "jemalloc"), **changes: Any) -> Experiment:
    """A small valid experiment; arms are only names unless `treatments`, or `said` (instances, control), say more."""
    treatments: Mapping[str, dict[str, Any]] = changes.pop("treatments", {})
    said: Mapping[str, dict[str, Any]] = changes.pop("said", {})
    plain: dict[str, Any] = {
        "name": "fake",
        "question": "Does the fake arm change anything?",
        "server": ServerSpec(name="mariadb-10.11"),
        "data": DataSpec(tables=1, rows=1000),
        "control": arms[0],
        "arms": tuple(ArmSpec(name=name, treatments=treatments.get(name, {}), **said.get(name, {})) for name in arms),
        "steps": (StepSpec(workload="oltp_read_only", connections=(4, 8), warmup=2, measure=20),),
    }
    return Experiment.model_validate({**plain, **changes})


@dataclass
class Script:
    """What the fake world does: every number and every mishap is said here."""

    qps: Callable[[PlannedRun | None, Step, int], float] = lambda _run, _step, _second: 1000.0
    """(the run, the step, the second) → queries in that second."""
    driver_error: Callable[[PlannedRun | None, Step], str | None] = lambda _run, _step: None
    evidence: Callable[[PlannedRun | None], Evidence] | None = None
    on_run: Callable[[PlannedRun], None] = lambda _run: None
    """Called when a run begins; may raise to end the program there."""
    instance_share: Callable[[int], float] = lambda _instance: 1.0
    """What one of several instances gets of the script's qps."""
    late_s: Callable[[int], float] = lambda _instance: 0.0
    """How much later than the first one's an instance's load begins."""
    counted_share: Callable[[int], float] = lambda _instance: 1.0
    """What share of its reads an instance's server counts."""
    counted: Callable[[int], float] = float
    """What the server counts of so many reads."""
    canary: Callable[[], dict[str, float]] = lambda: {"cpu_bytes_per_s": 1e9}
    events: list[str] = field(default_factory=list)
    """Everything that was done, in order."""
    current: PlannedRun | None = None


class _FakeControl:
    def __init__(self, bench: FakeBench, number: int) -> None:
        self._bench = bench
        self._number = number

    async def __aenter__(self) -> _FakeControl:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def status(self) -> dict[str, float]:
        reads = self._bench.reads.get(self._number, 0.0)
        reads *= self._bench.script.counted_share(self._number)
        return {"Questions": reads, "Com_select": self._bench.script.counted(int(reads))}


class FakeInstance:
    """Behaves like servers.instance.Instance, and is none."""

    process = None
    pid = 4711

    def __init__(self, bench: FakeBench, folder: Path, number: int, place: Place) -> None:
        self.bench = bench
        self.folder = folder
        self.number = number
        self.place = place
        self.settings = InstanceSettings()

    def control(self) -> _FakeControl:
        return _FakeControl(self.bench, self.number)

    def address(self, user: str = "dyno", database: str = "") -> Address:
        return Address(user=user, password="secret-word", socket=f"/nowhere/{self.number}", database=database)

    async def counters(self) -> dict[str, float]:
        return await self.control().status()

    async def start(self) -> None:
        self.bench.script.events.append("start")

    async def stop(self) -> str | None:
        self.bench.script.events.append("stop")
        return None

    async def record(self) -> ServerRecord:
        variables = {"innodb_buffer_pool_size": "1073741824", "innodb_flush_log_at_trx_commit": "1"}
        return ServerRecord(
            instance=self.number, place=self.place.number, version="10.11.19-MariaDB", variables=variables, pid=self.pid
        )

    def log_tail(self) -> str:
        return ""


class FakeTreatment(TreatmentDefaults):
    """Holds unless the script says otherwise."""

    name = "fake"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get(self, cache: Path, host: object) -> dict[str, str]:
        return {}

    async def apply(self, instance: FakeInstance) -> None:
        self._script.events.append("apply")

    async def evidence(self, instance: FakeInstance) -> Evidence:
        self._script.events.append("evidence")
        if self._script.evidence is not None:
            return self._script.evidence(self._script.current)
        return Evidence(treatment="fake", holds=True, text="it holds")

    async def undo(self) -> None:
        self._script.events.append("undo")


class FakeProbe:
    """Samples nothing but the server's memory, a second apart."""

    def __init__(self, bench: FakeBench) -> None:
        self._bench = bench

    async def start(self) -> None:
        self._bench.script.events.append("probe")

    def tell(self, line: str) -> None:
        return None

    async def stop(self) -> list[str]:
        return []

    def so_far(self) -> list[Sample]:
        return self.samples()[0]

    def samples(self) -> tuple[list[Sample], list[str]]:
        found = [
            Sample(sample.unix_ns, sample.scope.replace("driver", "instance"), "server_rss_bytes", 100e6)
            for sample in self._bench.sampled
            if sample.metric == "qps"
        ]
        return found, []


class FakeDriver:
    """A load program whose every second is the script's."""

    name = "fake"
    version = "1"

    def __init__(self, bench: FakeBench) -> None:
        self._bench = bench

    async def run(
        self,
        address: Address,
        data: DataSpec,
        step: Step,
        folder: Path,
        log: Path,
        on_start: Callable[[int], None],
        on_progress: Callable[[Progress], None],
    ) -> DriverOutcome:
        script = self._bench.script
        number = int(str(address.socket).rpartition("/")[2])
        script.events.append(f"load {step.id}" + (f" on {number}" if self._bench.count > 1 else ""))
        log.write_text("fake driver\n")
        on_start(4712)
        words = script.driver_error(script.current, step)
        if words:
            raise DriverError(words)
        began = self._bench.clock_ns + round(script.late_s(number) * 1e9)
        samples = []
        seconds = int(step.warmup_s + step.measure_s)
        share = script.instance_share(number)
        rates = [share * script.qps(script.current, step, second) for second in range(1, seconds + 1)]
        for second, qps in enumerate(rates, 1):
            at = began + second * 1_000_000_000
            samples += [Sample(at, "driver:1", "qps", qps), Sample(at, "driver:1", "tps", qps / 16)]
            on_progress(Progress(second, qps, qps / 16))
        await asyncio.sleep(0)
        if number == self._bench.count:
            self._bench.clock_ns += (seconds + 2) * 1_000_000_000
        self._bench.reads[number] = self._bench.reads.get(number, 0.0) + sum(rates)
        self._bench.sampled += [replace(sample, scope=f"driver:{number}") for sample in samples]
        queries = int(sum(rates[int(step.warmup_s) :]))
        result = DriverResult(
            driver=self.name,
            version=self.version,
            command=("fake", step.id),
            transactions=queries // 16,
            queries=queries,
            duration_s=step.measure_s,
            latency_us={"mean": 1e6 / rates[-1], "p99": 1e6 / rates[-1]},
            latency_histogram_us=((1e6 / rates[-1], queries // 16),),
            whole={"read": int(sum(rates)), "write": 0},
            cpu_user_s=1.0,
            cpu_system_s=1.0,
        )
        return DriverOutcome(result, tuple(samples), began)


class FakeBench:
    """Behaves like running.workbench.Workbench; only its undo journal is real."""

    restores_data = True

    def __init__(self, settings: Settings, experiment: Experiment, undo: UndoJournal, script: Script) -> None:
        self.settings = settings
        self.experiment = experiment
        self.undo = undo
        self.script = script
        self.host = None
        self.scratch = settings.data / "runs"
        self.sockets = settings.data / "sockets"
        self.versions = {"server": "10.11.19-MariaDB"}
        self.drivers = {step.driver: FakeDriver(self) for step in experiment.steps}
        self.clock_ns = max(STARTED_UNIX_NS, time.time_ns())
        self.reads: dict[int, float] = {}
        self.count = 1
        self.sampled: list[Sample] = []

    def instance(
        self, folder: Path, log: Path, number: int = 1, place: Place = ALONE, arm: str | None = None
    ) -> FakeInstance:
        self.sampled = []
        self.count = number
        log.write_text("fake server\n")
        return FakeInstance(self, folder, number, place)

    def probe(self, instances: Sequence[FakeInstance]) -> FakeProbe:
        return FakeProbe(self)

    async def canary(self) -> dict[str, float]:
        return self.script.canary()

    async def rehearse(self, say: Callable[[str], None]) -> list[Evidence]:
        return []

    async def template(self, arm: ArmSpec, say: Callable[[str], None]) -> str:
        return "template"

    async def prewarm(self, instance: FakeInstance) -> None:
        self.script.events.append("prewarm")

    async def restore(self, template: str, instance: FakeInstance) -> None:
        self.script.events.append("restore")

    def close(self) -> list[str]:
        self.script.events.append("close")
        return self.undo.undo_all()


def opener(script: Script) -> Any:
    """What study.run_study takes in place of open_workbench."""

    async def open_fake(settings: Settings, experiment: Experiment, study: str, path: Path, say: Any) -> FakeBench:
        undo = UndoJournal.begin(settings.undo, study, path)
        folder = settings.data / "runs"
        undo.will_change("folder", path=str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        return FakeBench(settings, experiment, undo, script)

    return open_fake


@dataclass
class Watched:
    """A watcher that remembers."""

    script: Script
    said: list[str] = field(default_factory=list)
    ended: list[RunRecord] = field(default_factory=list)

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
