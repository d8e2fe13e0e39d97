"""A fake host, server and driver: the whole program runs without any of them, with exact numbers and in no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mydyno.drivers.base import DriverOutcome, Progress
from mydyno.drivers.held import SliceOrder
from mydyno.errors import DriverError, ServerError
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, DataSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.plan import PlannedRun
from mydyno.model.records import DriverResult, Evidence, RunRecord, ServerRecord, SliceRecord
from mydyno.results.projection import Precision
from mydyno.running.interleaved import BlockResult
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
    changes["design"] = {"kind": "blocks", **changes.get("design", {})}
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
    slice_qps: Callable[[str, int, Step, SliceOrder], float] = lambda _arm, _copy, _step, _order: 1000.0
    """(arm, copy, step, slice) → queries per second in that slice of an interleaved study."""
    slice_error: Callable[[str, int, Step, SliceOrder], str | None] = lambda _arm, _copy, _step, _order: None
    start_error: Callable[[str, int], str | None] = lambda _arm, _copy: None
    """(arm, copy) → why its server does not start in an interleaved study."""
    host_speed: Callable[[], float] = lambda: 1.0
    """Speed of the fake host in the current slice: rates are multiplied by it, CPU times divided."""
    driver_cost: Callable[[str], float] = lambda _arm: 10e-6
    """CPU seconds of the load program for a query of this arm."""
    steal: Callable[[], float] = lambda: 0.0


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
        self.arm, self.copy = "", 1

    def control(self) -> _FakeControl:
        return _FakeControl(self.bench, self.number)

    def address(self, user: str = "dyno", database: str = "") -> Address:
        return Address(user=user, password="secret-word", socket=f"/nowhere/{self.number}", database=database)

    async def counters(self) -> dict[str, float]:
        return await self.control().status()

    async def start(self) -> None:
        self.bench.script.events.append("start")
        words = self.bench.script.start_error(self.arm, self.copy)
        if words:
            raise ServerError(words)

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


class FakeHeld:
    """A load program on hold whose slices are the script's; it takes no time."""

    command = ("fake",)

    def __init__(self, bench: FakeBench, instance: FakeInstance, step: Step) -> None:
        self._bench = bench
        self._instance = instance
        self._step = step

    async def slice(self, order: SliceOrder) -> dict[str, Any]:
        script, instance = self._bench.script, self._instance
        lane = (instance.arm, instance.copy)
        script.events.append(f"slice {order.id} {instance.arm}" + ("′" if instance.copy == 2 else ""))
        await asyncio.sleep(0)
        words = script.slice_error(*lane, self._step, order)
        if words:
            raise DriverError(words)
        speed = script.host_speed()
        qps = script.slice_qps(*lane, self._step, order) * speed
        queries = round(qps * order.measure_s)
        self._bench.clock_ns += round((order.measure_s + order.washout_s) * 1e9)
        self._bench.reads[instance.number] = self._bench.reads.get(instance.number, 0.0) + queries
        counts = {"transactions": queries // 16, "reads": queries, "writes": 0, "other": 0, "errors": 0,
                  "ignored_errors": 0, "reconnects": 0}  # fmt: skip
        cost_us = 1e6 * script.driver_cost(instance.arm) / speed
        steal_s = script.steal() * 2 * order.measure_s
        return {
            "record": "slice", "id": order.id, "stream": order.stream, "measure_unix_s": self._bench.clock_ns / 1e9,
            "length_s": order.measure_s, "counts": counts, "whole_counts": counts, "queries": queries,
            "response": {"count": queries // 16, "mean_us": 1e6 / max(qps, 1e-9)}, "traffic": {},
            "cpu": {"user_us": queries * cost_us, "system_us": 0.0},
            "server_cpu_us": 4 * order.measure_s * 1e6 / 4,
            "host_cpu": {"user_s": order.measure_s, "system_s": 0.0, "idle_s": order.measure_s - steal_s,
                         "iowait_s": 0.0, "irq_s": 0.0, "steal_s": steal_s},
            "server_counters": {"Com_select": float(queries)},
        }  # fmt: skip

    async def end(self) -> None:
        self._bench.script.events.append(f"end {self._instance.arm}")


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

    async def start(self, interval_ms: int = 1000) -> None:
        self._bench.script.events.append("probe")

    async def speed(self) -> tuple[int, int] | None:
        return None

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

    async def hold(
        self, address: Address, data: DataSpec, step: Step, folder: Path, log: Path, server_pid: int | None
    ) -> FakeHeld:
        number = int(str(address.socket).rpartition("/")[2])
        return FakeHeld(self._bench, self._bench.instances[number], step)

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
        self.instances: dict[int, FakeInstance] = {}

    def instance(
        self, folder: Path, log: Path, number: int = 1, place: Place = ALONE, arm: str | None = None
    ) -> FakeInstance:
        self.sampled = []
        self.count = number
        log.write_text("fake server\n")
        made = FakeInstance(self, folder, number, place)
        if arm is not None:
            made.arm = arm
            made.copy = 2 if f"{arm}.2" in str(log) else 1
        self.instances[number] = made
        return made

    def probe(self, instances: Sequence[FakeInstance], speed_meter: bool = False) -> FakeProbe:
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
    precisions: list[Precision | None] = field(default_factory=list)

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

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        return None

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        self.ended += result.runs
        self.precisions.append(precision)
