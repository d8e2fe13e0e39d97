"""A fake host, server and driver: the whole program runs without any of them, with exact numbers and in no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.drivers.base import DriverOutcome, Progress, Reading, StepContext
from mydyno.drivers.held import HoldingDriver, SliceOrder
from mydyno.errors import DriverError, ServerError
from mydyno.execution.interleaved import BlockResult
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, DataSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.plan import PlannedRun
from mydyno.model.records import DriverResult, Evidence, RunRecord, ServerRecord, SliceRecord
from mydyno.results.projection import Precision
from mydyno.servers.client_path import ClientPath
from mydyno.servers.running.base import WHOLE_HOST, CpuSlot, RunningServer
from mydyno.servers.sql import Address
from mydyno.servers.templates import Template
from mydyno.store.samples import Sample
from mydyno.treatments.base import Treatment

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
    measured_share: Callable[[str, int, SliceOrder], float] = lambda _arm, _copy, _order: 1.0
    """What share of a slice's measured part took place; 0: the connections were lost in the washout."""
    start_error: Callable[[str, int], str | None] = lambda _arm, _copy: None
    """(arm, copy) → why its server does not start in an interleaved study."""
    host_speed: Callable[[], float] = lambda: 1.0
    """Speed of the fake host in the current slice: rates are multiplied by it, CPU times divided."""
    driver_cost: Callable[[str], float] = lambda _arm: 10e-6
    """CPU seconds of the load program for a query of this arm."""
    steal: Callable[[], float] = lambda: 0.0


class FakeInstance(RunningServer):
    """A server without a process; what it counts is the script's."""

    def __init__(self, environment: FakeEnvironment, folder: Path, log: Path, number: int, cpu_slot: CpuSlot) -> None:
        super().__init__(environment.host, folder, log, number=number, cpu_slot=cpu_slot)
        self.environment = environment
        self.arm, self.copy = "", 1

    @property
    def pid(self) -> int:
        return 4711

    def address(self, user: str = "dyno", database: str = "") -> Address:
        return Address(user=user, password="secret-word", socket=f"/nowhere/{self.number}", database=database)

    def ensure_client_path(self) -> ClientPath:
        raise AssertionError("fake arms have no treatment of the load's path")

    def probe_target(self) -> str:
        return f"{self.number}:{self.pid}"

    async def counters(self) -> dict[str, float]:
        reads = self.environment.reads.get(self.number, 0.0)
        reads *= self.environment.script.counted_share(self.number)
        return {"Questions": reads, "Com_select": self.environment.script.counted(int(reads))}

    async def start(self) -> None:
        self.environment.script.events.append("start")
        words = self.environment.script.start_error(self.arm, self.copy)
        if words:
            raise ServerError(words)

    async def stop(self) -> str | None:
        self.environment.script.events.append("stop")
        return None

    async def record(self) -> ServerRecord:
        variables = {"innodb_buffer_pool_size": "1073741824", "innodb_flush_log_at_trx_commit": "1"}
        return ServerRecord(
            instance=self.number,
            place=self.cpu_slot.number,
            version="10.11.19-MariaDB",
            variables=variables,
            pid=self.pid,
        )


class FakeHeld:
    """A load program on hold whose slices are the script's; it takes no time."""

    command = ("fake",)

    def __init__(self, environment: FakeEnvironment, instance: FakeInstance, step: Step) -> None:
        self._bench = environment
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
            "length_s": order.measure_s * script.measured_share(*lane, order), "queries": queries,
            "counts": counts, "whole_counts": counts,
            "response": {"count": queries // 16, "mean_us": 1e6 / max(qps, 1e-9)}, "traffic": {},
            "cpu": {"user_us": queries * cost_us, "system_us": 0.0},
            "server_cpu_us": 4 * order.measure_s * 1e6 / 4,
            "host_cpu": {"user_s": order.measure_s, "system_s": 0.0, "idle_s": order.measure_s - steal_s,
                         "iowait_s": 0.0, "irq_s": 0.0, "steal_s": steal_s},
            "server_counters": {"Com_select": float(queries)},
        }  # fmt: skip

    async def end(self) -> None:
        self._bench.script.events.append(f"end {self._instance.arm}")


class FakeTreatment(Treatment):
    """Holds unless the script says otherwise."""

    name = "fake"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def get(self, cache: Path, host: LocalHost) -> dict[str, str]:
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


class FakeProbe:
    """Samples nothing but the server's memory, a second apart."""

    def __init__(self, environment: FakeEnvironment) -> None:
        self._bench = environment

    async def start(self, interval_ms: int = 1000) -> None:
        self._bench.script.events.append("probe")

    async def speed(self) -> tuple[int, int] | None:
        return None

    def send(self, command: str) -> None:
        return None

    async def stop(self) -> list[str]:
        return []

    def newest(self) -> dict[str, dict[str, float]]:
        return {}

    def so_far(self) -> list[Sample]:
        return self.samples()[0]

    def samples(self) -> tuple[list[Sample], list[str]]:
        found = [
            Sample(sample.unix_ns, sample.scope.replace("driver", "instance"), "server_rss_bytes", 100e6)
            for sample in self._bench.sampled
            if sample.metric == "qps"
        ]
        return found, []


class FakeDriver(HoldingDriver):
    """A load program whose every second is the script's."""

    name = "fake"

    def __init__(self, environment: FakeEnvironment) -> None:
        self._bench = environment

    @property
    def version(self) -> str:
        return "1"

    async def get(self, paths: HostPaths, host: LocalHost) -> None:
        return None

    def check(self, step: Step) -> list[str]:
        return []

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path) -> None:
        return None

    async def hold(self, context: StepContext, server_pid: int | None) -> FakeHeld:
        number = int(str(context.address.socket).rpartition("/")[2])
        return FakeHeld(self._bench, self._bench.instances[number], context.step)

    async def run(self, context: StepContext) -> DriverOutcome:
        script, step = self._bench.script, context.step
        number = int(str(context.address.socket).rpartition("/")[2])
        script.events.append(f"load {step.id}" + (f" on {number}" if self._bench.count > 1 else ""))
        context.log.write_text("fake driver\n")
        context.on_start(4712)
        words = script.driver_error(script.current, step)
        if words:
            raise DriverError(words)
        began = self._bench.clock_ns + round(script.late_s(number) * 1e9)
        readings = []
        seconds = int(step.warmup_s + step.measure_s)
        share = script.instance_share(number)
        rates = [share * script.qps(script.current, step, second) for second in range(1, seconds + 1)]
        for second, qps in enumerate(rates, 1):
            at = began + second * 1_000_000_000
            readings += [Reading(at, "qps", qps), Reading(at, "tps", qps / 16)]
            context.on_progress(Progress(second, qps, qps / 16))
        await asyncio.sleep(0)
        if number == self._bench.count:
            self._bench.clock_ns += (seconds + 2) * 1_000_000_000
        self._bench.reads[number] = self._bench.reads.get(number, 0.0) + sum(rates)
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
        outcome = DriverOutcome(result, tuple(readings), began)
        self._bench.sampled += outcome.samples(number)
        return outcome


class FakeEnvironment:
    """Behaves like execution.private_environment.PrivateEnvironment; only its undo journal is real."""

    restores_data = True
    clients = None

    def __init__(self, paths: HostPaths, experiment: Experiment, undo: UndoJournal, script: Script) -> None:
        self.paths = paths
        self.experiment = experiment
        self.undo = undo
        self.script = script
        self.host = LocalHost("fake", None, undo)
        self.scratch = paths.data / "runs"
        self.sockets = paths.data / "sockets"
        self.versions = {"server": "10.11.19-MariaDB"}
        self.drivers = {step.driver: FakeDriver(self) for step in experiment.steps}
        self.clock_ns = max(STARTED_UNIX_NS, time.time_ns())
        self.reads: dict[int, float] = {}
        self.count = 1
        self.sampled: list[Sample] = []
        self.instances: dict[int, FakeInstance] = {}

    def instance(
        self, folder: Path, log: Path, number: int = 1, cpu_slot: CpuSlot = WHOLE_HOST, arm: str | None = None
    ) -> FakeInstance:
        self.sampled = []
        self.count = number
        log.write_text("fake server\n")
        made = FakeInstance(self, folder, log, number, cpu_slot)
        if arm is not None:
            made.arm = arm
            made.copy = 2 if f"{arm}.2" in str(log) else 1
        self.instances[number] = made
        return made

    def treatments(self, arm: ArmSpec) -> list[FakeTreatment]:
        return [FakeTreatment(self.script)] if arm.treatments else []

    def probe(self, instances: Sequence[RunningServer], *, speed_meter: bool = False) -> FakeProbe:
        return FakeProbe(self)

    async def canary(self) -> dict[str, float]:
        return self.script.canary()

    async def rehearse(self, say: Callable[[str], None]) -> list[Evidence]:
        return []

    async def template(self, arm: ArmSpec, say: Callable[[str], None]) -> Template | None:
        return None

    async def prewarm(self, instance: RunningServer) -> None:
        self.script.events.append("prewarm")

    async def restore(self, template: Template | None, instance: RunningServer) -> None:
        self.script.events.append("restore")

    def close(self) -> list[str]:
        self.script.events.append("close")
        return self.undo.undo_all()


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
