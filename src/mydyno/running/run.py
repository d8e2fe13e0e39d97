"""One run: restore the data, start a fresh server, prove the treatments, ask the steps, stop, save.

Whatever goes wrong inside a run ends as an invalid run with its reason; what would spoil every run is raised.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.drivers.base import DriverOutcome, Progress
from mydyno.errors import DriverError, ServerError
from mydyno.hosts.vmstat import MemoryCounters
from mydyno.model.experiment import Step
from mydyno.model.plan import PlannedRun
from mydyno.model.records import Evidence, RunRecord, ServerRecord, StepRecord
from mydyno.results.steadiness import judge_step
from mydyno.running.bench import Bench
from mydyno.running.latency_log import write_latency_log
from mydyno.running.probe import Probe
from mydyno.servers.instance import LOAD_USER, Instance
from mydyno.servers.templates import Template
from mydyno.store.files import write_text
from mydyno.store.samples import Sample, write_samples
from mydyno.treatments.base import Treatment
from mydyno.treatments.catalogue import treatments_of
from mydyno.verdicts.gates import RunFacts, StepFacts, run_reasons, step_reasons
from mydyno.workloads.reconcile import disagreements, growth

Tell = Callable[[Step, Progress], None]


@dataclass
class _Recorder:
    """What a run collects while it lasts."""

    started_unix_ns: int = field(default_factory=time.time_ns)
    memory: MemoryCounters = field(default_factory=MemoryCounters.read)
    evidence: list[Evidence] = field(default_factory=list)
    servers: list[ServerRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    latency_logs: dict[str, Sequence[str]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def make_run(
    bench: Bench, planned: PlannedRun, steps: Sequence[Step], template: Template, folder: Path, tell: Tell
) -> RunRecord:
    """Make one run into `folder` (aside, not yet in its place) and give its record."""
    recorder = _Recorder()
    instance = bench.instance(bench.scratch / "run", folder / "server.log")
    treatments = treatments_of(bench.experiment.arm(planned.arm))
    for treatment in treatments:
        await treatment.get(bench.settings.cache, bench.host)
    instance.settings.environment["MYDYNO_PADDING"] = "x" * planned.environment_padding_bytes
    await bench.restore(template, instance)
    try:
        await _serve_and_load(bench, instance, treatments, steps, folder, tell, recorder)
    except (ServerError, DriverError) as error:
        recorder.reasons.append(error.message)
    finally:
        warning = await instance.stop()
        if warning:
            recorder.warnings.append(warning)
        for treatment in reversed(treatments):
            await treatment.undo()
        _keep_configuration(instance, folder)
        shutil.rmtree(instance.folder, ignore_errors=True)
    return _finished(bench, planned, steps, folder, recorder)


async def _serve_and_load(
    bench: Bench,
    instance: Instance,
    treatments: Sequence[Treatment],
    steps: Sequence[Step],
    folder: Path,
    tell: Tell,
    recorder: _Recorder,
) -> None:
    for treatment in treatments:
        await treatment.apply(instance)
    await instance.start()
    recorder.servers.append(await instance.record())
    for treatment in treatments:
        recorder.evidence.append(await treatment.evidence(instance))
    if not all(evidence.holds for evidence in recorder.evidence):
        return  # a load on an unproved treatment would only cost time
    await bench.prewarm(instance)
    probe = bench.probe(instance)
    await probe.start()
    try:
        for step in steps:
            record, outcome = await _ask(bench, instance, probe, step, folder, tell)
            recorder.steps.append(record)
            recorder.samples += outcome.samples
            recorder.latency_logs[step.id] = outcome.latency_log
    finally:
        recorder.warnings += await probe.stop()
        sampled, complaints = probe.samples()
        recorder.samples += sampled
        recorder.warnings += complaints


async def _ask(
    bench: Bench, instance: Instance, probe: Probe, step: Step, folder: Path, tell: Tell
) -> tuple[StepRecord, DriverOutcome]:
    """One step: the driver's load between two readings of the server's counters."""
    async with instance.control() as control:
        before = await control.status()
    probe.tell(f"mark {step.id}")
    try:
        outcome = await bench.drivers[step.driver].run(
            instance.address(LOAD_USER),
            bench.experiment.data,
            step,
            bench.sockets,
            folder / "driver.log",
            on_start=lambda pid: probe.tell(f"driver 1 {pid}"),
            on_progress=lambda progress: tell(step, progress),
        )
    except DriverError as error:
        exit_code = instance.process.exit_code if instance.process else None
        if exit_code is not None:
            raise ServerError(
                f"the server ended with exit code {exit_code} during {step.id}; {error.message}{instance.log_tail()}"
            ) from error
        raise
    finally:
        probe.tell("driver 1 -")
    async with instance.control() as control:
        after = await control.status()
    record = StepRecord(
        id=step.id,
        workload=step.workload,
        connections=step.connections,
        started_unix_ns=outcome.started_unix_ns,
        warmup_s=step.warmup_s,
        measure_s=step.measure_s,
        driver=outcome.result,
        server_counters=growth(before, after),
    )
    return record, outcome


def _finished(bench: Bench, planned: PlannedRun, steps: Sequence[Step], folder: Path, recorder: _Recorder) -> RunRecord:
    """Apply the gates, write the run's files, and give its record."""
    bounds = bench.experiment.gates
    memory = MemoryCounters.read().since(recorder.memory)
    gate_reasons = run_reasons(RunFacts(bounds, recorder.evidence, memory.swapped_bytes, memory.out_of_memory_kills))
    by_id = {step.id: step for step in steps}
    judged = [_judged(bench, by_id[record.id], record, recorder.samples) for record in recorder.steps]
    reasons = [*gate_reasons, *recorder.reasons]
    if not reasons and judged and not any(record.valid for record in judged):
        reasons.append("no step is valid: " + "; ".join(dict.fromkeys(r for record in judged for r in record.reasons)))
    write_samples(folder / "samples.parquet", recorder.samples, recorder.started_unix_ns, judged)
    write_latency_log(folder / "latency.hlog", recorder.started_unix_ns, judged, recorder.latency_logs)
    drivers = [{"step": record.id, **record.driver.model_dump(mode="json")} for record in judged]
    write_text(folder / "driver.json", json.dumps({"format": 1, "steps": drivers}, indent=1))
    return RunRecord(
        block=planned.block,
        position=planned.position,
        arm=planned.arm,
        copy=planned.copy_number,
        folder=planned.folder,
        started_unix_ns=recorder.started_unix_ns,
        ended_unix_ns=time.time_ns(),
        valid=not reasons,
        reasons=tuple(reasons),
        warnings=tuple(dict.fromkeys(recorder.warnings)),
        evidence=tuple(recorder.evidence),
        servers=tuple(recorder.servers),
        steps=tuple(judged),
    )


def _judged(bench: Bench, step: Step, record: StepRecord, samples: Sequence[Sample]) -> StepRecord:
    """The record with its steadiness and the gates that closed for this step."""
    steady = judge_step(samples, record.started_unix_ns, step, bench.experiment.verdict.margin)
    window_ns = (
        record.started_unix_ns + step.warmup_s * 1e9,
        record.started_unix_ns + (step.warmup_s + step.measure_s) * 1e9,
    )
    steal = [s.value for s in samples if s.metric == "cpu_steal_pct" and window_ns[0] < s.unix_ns <= window_ns[1]]
    facts = StepFacts(
        bounds=bench.experiment.gates,
        driver=record.driver,
        whole_s=step.warmup_s + step.measure_s,
        cpus=len(os.sched_getaffinity(0)),
        steal_pct=sum(steal) / len(steal) if steal else None,
        disagreements=disagreements(record.driver.whole, record.server_counters),
        steadiness=steady["steadiness"],
        steady_reasons=steady["reasons"],
    )
    reasons = step_reasons(facts)
    return record.model_copy(update={"steady": steady, "valid": not reasons, "reasons": tuple(reasons)})


def _keep_configuration(instance: Instance, folder: Path) -> None:
    configuration = instance.folder / "my.cnf"
    if configuration.exists():
        write_text(folder / "my.cnf", configuration.read_text())
