"""One run: restore the data, start fresh servers, prove the treatments, ask the steps, stop, save.

Whatever goes wrong inside a run ends as an invalid run with its reason; what would spoil every run is raised.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import DriverError, HostError, ServerError, StudyError, UserError
from mydyno.hosts.vmstat import MemoryCounters
from mydyno.model.experiment import Step
from mydyno.model.plan import PlannedRun
from mydyno.model.records import Evidence, RunRecord, ServerRecord, StepRecord
from mydyno.running.bench import Bench
from mydyno.running.judging import judged
from mydyno.running.latency_log import write_latency_log
from mydyno.running.random_streams import with_stream
from mydyno.running.step import Tell, ask
from mydyno.running.together import all_or_none
from mydyno.servers.instance import Instance, Place
from mydyno.servers.templates import Template
from mydyno.store.files import write_text
from mydyno.store.samples import Sample, write_samples
from mydyno.treatments.base import Accounted, ProvesEnd, ProvesLoad, Treatment
from mydyno.treatments.catalogue import treatments_of
from mydyno.verdicts.gates import RunFacts, run_reasons


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
    failed: str = ""
    """Why the arm itself failed."""
    warnings: list[str] = field(default_factory=list)


async def make_run(
    bench: Bench, planned: PlannedRun, steps: Sequence[Step], template: Template, folder: Path, tell: Tell
) -> RunRecord:
    """Make one run into `folder` (aside, not yet in its place) and give its record."""
    recorder = _Recorder()
    instances = _instances(bench, planned, folder)
    arm = bench.experiment.arm(planned.arm)
    treatments = {instance.number: treatments_of(arm) for instance in instances}
    try:
        for own in treatments.values():
            await _get(bench, own)
        for instance in instances:
            instance.settings.environment["MYDYNO_PADDING"] = "x" * planned.environment_padding_bytes
            await bench.restore(template, instance)
        await _serve_and_load(bench, planned, instances, treatments, steps, folder, tell, recorder)
    except StudyError as error:
        recorder.reasons.append(error.message)
        if isinstance(error, ServerError | DriverError):
            recorder.failed = error.message
    finally:
        for warning in await asyncio.gather(*(instance.stop() for instance in instances)):
            if warning:
                recorder.warnings.append(warning)
        for treatment in reversed([one for own in treatments.values() for one in own]):
            await treatment.undo()
        for instance in instances:
            _keep_configuration(instance, folder)
            shutil.rmtree(instance.folder, ignore_errors=True)
    return _finished(bench, planned, steps, folder, recorder)


def _instances(bench: Bench, planned: PlannedRun, folder: Path) -> list[Instance]:
    """The run's servers, each with a folder, a log and a place of its own; the first one's names carry no number."""
    made = []
    for number, place in enumerate(planned.places, 1):
        suffix = "" if number == 1 else f"-{number}"
        where = Place(place, planned.places)
        log = folder / f"server{suffix}.log"
        made.append(bench.instance(bench.scratch / f"run{suffix}", log, number, where, planned.arm))
    return made


async def _get(bench: Bench, treatments: Sequence[Treatment]) -> None:
    """What the study got when it began may have gone since: then this run is lost, and others may still be made."""
    for treatment in treatments:
        try:
            await treatment.get(bench.settings.cache, bench.host)
        except (HostError, UserError) as error:
            raise StudyError(f"{treatment.name} is not to be had any more: {error.message}", error.hint) from error


async def _serve_and_load(
    bench: Bench,
    planned: PlannedRun,
    instances: Sequence[Instance],
    treatments: Mapping[int, Sequence[Treatment]],
    steps: Sequence[Step],
    folder: Path,
    tell: Tell,
    recorder: _Recorder,
) -> None:
    for instance in instances:
        for treatment in treatments[instance.number]:
            await treatment.apply(instance)
    await all_or_none([instance.start() for instance in instances])
    for instance in instances:
        recorder.servers.append(await instance.record())
        for treatment in treatments[instance.number]:
            recorder.evidence.append(await treatment.evidence(instance))
    if not all(evidence.holds for evidence in recorder.evidence):
        return  # a load on an unproved treatment would only cost time
    await all_or_none([bench.prewarm(instance) for instance in instances])
    probe = bench.probe(instances)
    await probe.start()
    try:
        for step in steps:
            asked = await ask(bench, instances, probe, _streaming(bench, planned, step), folder, tell)
            recorder.samples += asked.samples
            recorder.steps.append(asked.record)
            recorder.latency_logs[step.id] = asked.latency_log
        for instance in instances:
            recorder.evidence += [
                await t.account(instance) for t in treatments[instance.number] if isinstance(t, Accounted)
            ]
    finally:
        recorder.warnings += await probe.stop()
        sampled, complaints = probe.samples()
        recorder.samples += sampled
        recorder.warnings += complaints
    for treatment in treatments[1]:
        if isinstance(treatment, ProvesLoad):  # forecast refuses these where a run has several instances
            recorder.evidence += [treatment.load_evidence(record, recorder.samples) for record in recorder.steps]
    for instance in instances:
        ends = [await t.end_evidence(instance) for t in treatments[instance.number] if isinstance(t, ProvesEnd)]
        recorder.evidence += [evidence for evidence in ends if evidence is not None]


def _streaming(bench: Bench, planned: PlannedRun, step: Step) -> Step:
    return with_stream(step, bench.experiment.design.seed, planned.block, 1, bench.restores_data)


def _finished(bench: Bench, planned: PlannedRun, steps: Sequence[Step], folder: Path, recorder: _Recorder) -> RunRecord:
    """Apply the gates, write the run's files, and give its record."""
    bounds = bench.experiment.gates
    memory = MemoryCounters.read().since(recorder.memory)
    gate_reasons = run_reasons(RunFacts(bounds, recorder.evidence, memory.swapped_bytes, memory.out_of_memory_kills))
    by_id = {step.id: step for step in steps}
    steps_judged = [judged(bench.experiment, by_id[r.id], r, recorder.samples) for r in recorder.steps]
    reasons = [*gate_reasons, *recorder.reasons]
    if not reasons and steps_judged and not any(record.valid for record in steps_judged):
        reasons.append(
            "no step is valid: " + "; ".join(dict.fromkeys(r for record in steps_judged for r in record.reasons))
        )
    write_samples(folder / "samples.parquet", recorder.samples, recorder.started_unix_ns, steps_judged)
    write_latency_log(folder / "latency.hlog", recorder.started_unix_ns, steps_judged, recorder.latency_logs)
    drivers = [{"step": record.id, **record.driver.model_dump(mode="json")} for record in steps_judged]
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
        failed=recorder.failed or ("out of memory" if memory.out_of_memory_kills else ""),
        warnings=tuple(dict.fromkeys(recorder.warnings)),
        evidence=tuple(recorder.evidence),
        servers=tuple(recorder.servers),
        steps=tuple(steps_judged),
    )


def _keep_configuration(instance: Instance, folder: Path) -> None:
    configuration = instance.folder / "my.cnf"
    if configuration.exists():
        name = "my.cnf" if instance.number == 1 else f"my-{instance.number}.cnf"
        write_text(folder / name, configuration.read_text())
