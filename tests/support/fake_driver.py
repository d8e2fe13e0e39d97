"""A load program without a process: its seconds and its slices are the script's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mydyno import clock
from mydyno.drivers.base import DriverOutcome, Progress, Reading, StepContext
from mydyno.drivers.held import HoldingDriver, SliceOrder
from mydyno.errors import DriverError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult
from mydyno.servers.sql import Address
from tests.support.fake_server import Bench, FakeInstance


class FakeHeld:
    """A load program on hold whose slices are the script's; it takes no time."""

    command = ("fake",)

    def __init__(self, bench: Bench, instance: FakeInstance, step: Step) -> None:
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
        level = order.rate if order.connections is None else order.connections
        carried = level is not None and level <= script.capacity(*lane, order)
        qps = script.slice_qps(*lane, self._step, order) * speed
        queries = round(qps * order.measure_s)
        self._bench.clock_ns += round((order.measure_s + order.washout_s) * 1e9)
        self._bench.reads[instance.number] = self._bench.reads.get(instance.number, 0.0) + queries
        counts = {"transactions": queries // 16, "reads": queries, "writes": 0, "other": 0, "errors": 0,
                  "ignored_errors": script.ignored_errors(*lane, order), "reconnects": 0}  # fmt: skip
        cost_us = 1e6 * script.driver_cost(instance.arm) / speed
        steal_s = script.steal() * 2 * order.measure_s
        return {
            "record": "slice", "id": order.id, "stream": order.stream,
            "measure_monotonic_s": (self._bench.clock_ns - clock.of_monotonic(0)) / 1e9,
            "length_s": order.measure_s * script.measured_share(*lane, order), "queries": queries,
            "counts": counts, "whole_counts": counts,
            "response": {"count": queries // 16, "mean_us": script.slice_response_us(self._step, qps),
                         "p99_us": 1e3 if carried else 1e6},
            "traffic": {},
            "end": {"planned": round((order.rate or self._step.rate or 0.0) * order.measure_s), "ended_after_stop": 0,
                    "unfinished": 0, "not_started": script.unfinished(*lane, order)},
            "cpu": {"user_us": queries * cost_us, "system_us": 0.0,
                    "busiest_worker_us": 1e6 * order.measure_s * script.busiest_share(instance.arm)},
            "server_cpu_us": 4 * order.measure_s * 1e6 / 4,
            "host_cpu": {"user_s": order.measure_s, "system_s": 0.0, "idle_s": order.measure_s - steal_s,
                         "iowait_s": 0.0, "irq_s": 0.0, "steal_s": steal_s},
            "executed": script.executed(instance.arm, queries),
            "server_counters": {"Com_select": float(queries)},
            **script.replayed(instance.arm),
            "findings": [one.model_dump() | {"level": one.level.upper()} for one in
                         script.findings(script.current or instance, self._step)],
        }  # fmt: skip

    def interrupt(self) -> None:
        self._bench.script.events.append(f"interrupt {self._instance.arm}")

    async def end(self) -> None:
        self._bench.script.events.append(f"end {self._instance.arm}")


class FakeDriver(HoldingDriver):
    """A load program whose every second is the script's."""

    name = "fake"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @property
    def version(self) -> str:
        return "1"

    async def get(self, paths: HostPaths, host: LocalHost) -> None:
        return None

    def check(self, step: Step) -> list[str]:
        return []

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        return None

    async def hold(self, context: StepContext, server_pid: int | None) -> FakeHeld:  # type: ignore[override]
        number = int(str(context.address.socket).rpartition("/")[2])
        instance = self._bench.instances[number]
        if words := self._bench.script.hold_error(instance.arm, instance.copy):
            raise DriverError(words)
        return FakeHeld(self._bench, instance, context.step)

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
        findings = script.findings(script.current, step)
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
            health=max((one.level for one in findings), default="valid", key=("valid", "suspect", "invalid").index),
            health_reasons=tuple(one.text for one in findings),
            findings=findings,
        )
        outcome = DriverOutcome(result, tuple(readings), began)
        self._bench.sampled += outcome.samples(number)
        return outcome
