"""The design "blocks": one run after another, each with fresh servers of one arm.

A run: restore the data, start fresh servers, prove the treatments, run the steps, stop, save. Whatever goes wrong
inside a run ends as an invalid run with its reason; what would spoil every run is raised.

A step: each instance's driver runs its load, between two readings of the servers' counters. All drivers are started
together and connect before they load. How far apart their loads began is measured and kept; where that is more than a
second, the step does not count.

The random stream of a step: the same in all arms of a block, a different one in each step, block and retry. Arms of a
block must receive the same operations, or the streams are a difference between them. A later step of the same run must
receive different ones: replaying a stream rewrites existing values, so updates change no rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Protocol

from mydyno import clock
from mydyno.drivers.base import ChildCpu, DriverOutcome, Progress, StepContext, merged
from mydyno.errors import DriverError, HostError, ServerError, StudyError, UserError
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.environments.probe import Sampler
from mydyno.execution.validity import RunFacts, judged, no_valid_step, others_killed, run_reasons
from mydyno.failpoints import failpoint
from mydyno.files.atomic import remove_tree, write_text
from mydyno.hosts.limits import quota_periods, throttled_since
from mydyno.hosts.local import all_or_none
from mydyno.hosts.quiet import MemoryCounters, killed_processes
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import Plan, PlannedBlock, PlannedRun
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import DriverResult, Evidence, InstanceStep, RunRecord, ServerRecord, StepRecord
from mydyno.servers.running.base import LOAD_USER, CpuSlot, RunningServer
from mydyno.servers.templates import Template
from mydyno.store.samples import Sample, write_samples
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.base import Treatment
from mydyno.workloads.oltp import OLTP_WORKLOADS
from mydyno.workloads.reconcile import growth

ReportProgress = Callable[[Step, Progress], None]


@dataclass(frozen=True)
class StepOutcome:
    """A step as it went: not yet judged."""

    record: StepRecord
    samples: tuple[Sample, ...]


async def run_step(
    environment: StudyEnvironment,
    instances: Sequence[RunningServer],
    probe: Sampler,
    step: Step,
    folder: Path,
    report: ReportProgress,
) -> StepOutcome:
    """Run the step against all instances at once. Raises StudyError; then no driver runs any more."""
    before = [await instance.counters() for instance in instances]
    probe.send(f"mark {step.id}")
    before_cpu, before_quota = ChildCpu.so_far(), quota_periods(environment.paths.root)
    progress = _SummedProgress(step, len(instances), report)
    outcomes = await all_or_none(
        [
            _drive(environment, instance, probe, step, folder, progress.reporter(instance.number))
            for instance in instances
        ]
    )
    cpu = ChildCpu.so_far().since(before_cpu)
    throttled = throttled_since(before_quota, environment.paths.root)
    counters = []
    for instance, then in zip(instances, before, strict=True):
        try:
            counters.append(growth(then, await instance.counters()))
        except StudyError as error:
            raise await _with_the_servers_end(error, instance, step) from error
    samples = tuple(s for i, o in zip(instances, outcomes, strict=True) for s in o.samples(i.number))
    if len(instances) == 1:
        record = _record(step, outcomes[0].started_unix_ns, outcomes[0], counters[0], throttled)
        return StepOutcome(record, samples)
    begun = [outcome.started_unix_ns for outcome in outcomes]
    together = merged(outcomes, *_cpu_s(cpu, outcomes))
    every = {name for counted in counters for name in counted}
    record = _record(
        step,
        max(begun),
        replace(outcomes[0], result=together),
        {name: sum(counted.get(name, 0.0) for counted in counters) for name in sorted(every)},
        throttled,
    ).model_copy(
        update={
            "start_spread_s": (max(begun) - min(begun)) / 1e9,
            "instances": tuple(
                InstanceStep(
                    instance=instance.number,
                    started_unix_ns=outcome.started_unix_ns,
                    driver=_of_instance(outcome.result),
                    server_counters=counted,
                )
                for instance, outcome, counted in zip(instances, outcomes, counters, strict=True)
            ),
        }
    )
    return StepOutcome(record, samples)


def _cpu_s(children: ChildCpu, outcomes: Sequence[DriverOutcome]) -> tuple[float | None, float | None]:
    """CPU time of all drivers in user mode and in the kernel: that of the clients where the load comes from there."""
    if not outcomes[0].result.clients:
        return children.user_s, children.system_s
    clients = [client for outcome in outcomes for client in outcome.result.clients]
    return sum(client.cpu_user_s for client in clients), sum(client.cpu_system_s for client in clients)


def _of_instance(driver: DriverResult) -> DriverResult:
    """The kernel counts the CPU time of children together: it is known for all drivers of this host, not for each."""
    return driver if driver.clients else driver.model_copy(update={"cpu_user_s": None, "cpu_system_s": None})


def _record(
    step: Step, started_unix_ns: int, outcome: DriverOutcome, counters: dict[str, float], throttled: dict[str, float]
) -> StepRecord:
    return StepRecord.like(
        step,
        started_unix_ns=started_unix_ns,
        driver=outcome.result,
        server_counters=counters,
        throttled=throttled,
    )


async def _drive(
    environment: StudyEnvironment,
    instance: RunningServer,
    probe: Sampler,
    step: Step,
    folder: Path,
    on_progress: Callable[[Progress], None],
) -> DriverOutcome:
    """One instance's driver to its end."""
    number = instance.number
    private = environment.sockets if number == 1 else environment.sockets / f"driver-{number}"
    private.mkdir(mode=0o700, exist_ok=True)
    clients = environment.clients
    agents = clients.agents if clients is not None else ()
    try:
        context = StepContext(
            instance.address(LOAD_USER),
            environment.experiment.data,
            step,
            private,
            folder / ("driver.log" if number == 1 else f"driver-{number}.log"),
            agents=agents,
            # With agents the program on this host only coordinates, and its CPU time is not the load's.
            on_start=lambda pid: None if agents else probe.send(f"driver {number} {pid}"),
            on_progress=on_progress,
        )
        return await environment.drivers[step.driver].run(context)
    except StudyError as error:
        if clients is not None:
            clients.check()
        raise await _with_the_servers_end(error, instance, step) from error
    finally:
        probe.send(f"driver {number} -")


async def _with_the_servers_end(error: StudyError, instance: RunningServer, step: Step) -> StudyError:
    """The error; if it was caused by a server that died, with the end of the server's log."""
    if instance.process is None:
        return error
    with contextlib.suppress(TimeoutError):
        await instance.process.wait(1.0)  # connections break a moment before the exit code is known
    exit_code = instance.process.exit_code
    if exit_code is None:
        return error
    return ServerError(
        f"the server ended with exit code {exit_code} during {step.id}; {error.message}{instance.log_tail()}"
    )


class _SummedProgress:
    """The progress of several drivers as one: the sum of their rates, reported when the first one reports its own."""

    def __init__(self, step: Step, count: int, report: ReportProgress) -> None:
        self._step = step
        self._report = report
        self._latest = {number: Progress(0.0, 0.0, 0.0) for number in range(1, count + 1)}

    def reporter(self, number: int) -> Callable[[Progress], None]:
        """What instance `number`'s driver calls."""

        def take(progress: Progress) -> None:
            self._latest[number] = progress
            if number == 1:
                failpoint("load")
                rates = self._latest.values()
                qps, tps = sum(one.qps for one in rates), sum(one.tps for one in rates)
                # Percentiles of several drivers cannot be added.
                alone = len(rates) == 1
                latency_us, errors = (progress.latency_us, progress.errors_per_s) if alone else ({}, None)
                self._report(self._step, Progress(progress.t_s, qps, tps, latency_us, errors))

        return take


LARGEST_SEED = 2**31 - 1
OPTION = "rand_seed"


class RunWatcher(Protocol):
    """Receives the progress of a run."""

    def load(self, step: Step, progress: Progress) -> None:
        """A second of load has passed."""

    def sampling(self, sampler: Sampler | None) -> None:
        """The sampler of the run's servers has been started, or (None) stopped."""


class BlockWatcher(RunWatcher, Protocol):
    """Receives the progress of a block's runs."""

    def say(self, text: str) -> None:
        """A line for the user."""

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:
        """A run begins; numbers count from 1 over the whole study."""

    def run_ended(self, record: RunRecord) -> None:
        """A run is finished and saved."""


async def make_runs(
    environment: StudyEnvironment,
    folder: StudyFolder,
    plan: Plan,
    block: PlannedBlock,
    templates: Mapping[str, Template | None],
    watcher: BlockWatcher,
) -> AsyncIterator[RunRecord]:
    """Make the runs that the block lacks, in the plan's order, and give each of them when it is saved."""
    missing = [run for run in folder.missing_runs(plan) if run.block == block.block]
    steps = {step.id: step for step in environment.experiment.resolved_steps}
    order = [steps[step_id] for step_id in block.step_order]
    for planned in missing:
        watcher.run_begins(plan.runs.index(planned) + 1, len(plan.runs), planned)
        folder.journal.append("run_began", folder=planned.folder)
        aside = folder.begin_run(planned.folder)
        record = await make_run(environment, planned, order, templates[planned.arm], aside, watcher)
        folder.commit_run(record)
        watcher.run_ended(record)
        yield record


async def make_run(
    environment: StudyEnvironment,
    planned: PlannedRun,
    steps: Sequence[Step],
    template: Template | None,
    folder: Path,
    watcher: RunWatcher,
) -> RunRecord:
    """Make one run into `folder` (aside, not yet in its place) and return its record."""
    return await _Run(environment, planned, steps, folder, watcher).make(template)


@dataclass
class _Run:
    """One run, and what it collects while it lasts."""

    environment: StudyEnvironment
    planned: PlannedRun
    of_steps: Sequence[Step]
    folder: Path
    watcher: RunWatcher
    instances: list[RunningServer] = field(default_factory=list)
    treatments: dict[int, list[Treatment]] = field(default_factory=dict)
    started_unix_ns: int = field(default_factory=clock.unix_ns)
    wall_offset_ns: int = field(default_factory=clock.wall_offset_ns)
    memory: MemoryCounters = field(default_factory=MemoryCounters.read)
    evidence: list[Evidence] = field(default_factory=list)
    servers: list[ServerRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    failed: str = ""
    """Why the arm itself failed."""
    warnings: list[str] = field(default_factory=list)
    unsampled: dict[str, str] = field(default_factory=dict)

    async def make(self, template: Template | None) -> RunRecord:
        """From the servers' data to the run's record."""
        self._make_instances()
        try:
            await self._get_treatments()
            for instance in self.instances:
                instance.build_number = self.planned.build
                instance.settings.environment["MYDYNO_PADDING"] = "x" * self.planned.environment_padding_bytes
                await self.environment.restore(template, instance)
            await self._serve_and_load()
        except StudyError as error:
            failed = isinstance(error, ServerError | DriverError)
            self.reasons.append(Reason(check="failed" if failed else "unfinished", text=error.message))
            if failed:
                self.failed = error.message
        finally:
            for warning in await asyncio.gather(*(instance.stop() for instance in self.instances)):
                if warning:
                    self.warnings.append(warning)
            for treatment in reversed([one for own in self.treatments.values() for one in own]):
                await treatment.undo()
            for instance in self.instances:
                _keep_configuration(instance, self.folder)
                remove_tree(instance.folder)
        return self._finished()

    def _make_instances(self) -> None:
        """Each with a folder, a log and a CPU slot of its own; the first one's names have no number."""
        arm = self.environment.experiment.arm(self.planned.arm)
        for number, place in enumerate(self.planned.places, 1):
            suffix = "" if number == 1 else f"-{number}"
            slot = CpuSlot(place, self.planned.places)
            scratch, log = self.environment.scratch / f"run{suffix}", self.folder / f"server{suffix}.log"
            self.instances.append(self.environment.instance(scratch, log, number, slot, self.planned.arm))
            self.treatments[number] = self.environment.treatments(arm)

    async def _get_treatments(self) -> None:
        """What the study fetched at its start may have been removed since: only this run fails then."""
        for treatment in [one for own in self.treatments.values() for one in own]:
            try:
                await treatment.get(self.environment.paths, self.environment.host)
            except (HostError, UserError) as error:
                raise StudyError(f"{treatment.name} is no longer available: {error.message}", error.hint) from error

    def _each_treatment(self) -> Iterator[tuple[RunningServer, Treatment]]:
        for instance in self.instances:
            for treatment in self.treatments[instance.number]:
                yield instance, treatment

    async def _serve_and_load(self) -> None:
        for instance, treatment in self._each_treatment():
            await treatment.apply(instance)
        await all_or_none([instance.start() for instance in self.instances])
        for instance in self.instances:
            self.servers.append(await instance.record())
            for treatment in self.treatments[instance.number]:
                self.evidence.append(await treatment.evidence(instance))
        if not all(evidence.holds for evidence in self.evidence):
            return  # a load on an unproved treatment would only cost time
        await all_or_none([self.environment.prewarm(instance) for instance in self.instances])
        probe = self.environment.probe(self.instances)
        await probe.start()
        self.watcher.sampling(probe)
        design, restored = self.environment.experiment.design, self.environment.restores_data
        try:
            for step in self.of_steps:
                own = with_stream(step, design.seed, self.planned.block, 1, restored)
                outcome = await run_step(self.environment, self.instances, probe, own, self.folder, self.watcher.load)
                self.samples += outcome.samples
                self.steps.append(outcome.record)
            for instance, treatment in self._each_treatment():
                self._take(await treatment.account(instance))
        finally:
            self.watcher.sampling(None)
            self.warnings += await probe.stop()
            self.unsampled.update(probe.unsampled())
            sampled, warnings = probe.samples()
            self.samples += sampled
            self.warnings += warnings
        await self._prove_load()

    def _take(self, evidence: Evidence | None) -> None:
        if evidence is not None:
            self.evidence.append(evidence)

    async def _prove_load(self) -> None:
        """The proofs from after the load; those that end the server come last."""
        for treatment in self.treatments[1]:  # forecast refuses several instances where a treatment has such proofs
            for record in self.steps:
                self._take(treatment.load_evidence(record, self.samples))
        for instance, treatment in self._each_treatment():
            self._take(await treatment.end_evidence(instance))

    def _finished(self) -> RunRecord:
        """Make the validity checks, write the run's files, and return its record."""
        bounds = self.environment.experiment.validity
        memory = MemoryCounters.read().since(self.memory)
        begun_s = (self.started_unix_ns - clock.of_monotonic(0)) / 1e9
        killed = killed_processes(begun_s) if memory.out_of_memory_kills else None
        servers_killed = len((killed or set()) & {server.pid for server in self.servers})
        self.warnings += others_killed(memory.out_of_memory_kills, servers_killed)
        of_run = run_reasons(RunFacts(bounds, self.evidence, memory.swapped_bytes, servers_killed))
        by_id = {step.id: step for step in self.of_steps}
        steps_judged = [judged(self.environment.experiment, by_id[r.id], r, self.samples) for r in self.steps]
        reasons = [*of_run, *self.reasons] or no_valid_step(steps_judged)
        write_samples(self.folder / "samples.parquet", self.samples, self.started_unix_ns, steps_judged)
        drivers = [{"step": record.id, **record.driver.model_dump(mode="json")} for record in steps_judged]
        write_text(self.folder / "driver.json", json.dumps({"format": 1, "steps": drivers}, indent=1))
        return RunRecord.like(
            self.planned,
            folder=self.planned.folder,
            started_unix_ns=self.started_unix_ns,
            ended_unix_ns=clock.unix_ns(),
            valid=not reasons,
            reasons=tuple(reasons),
            failed=self.failed,
            warnings=tuple(dict.fromkeys((*self.warnings, *clock.step_words(self.wall_offset_ns)))),
            unsampled=self.unsampled,
            evidence=tuple(self.evidence),
            servers=tuple(self.servers),
            steps=tuple(steps_judged),
        )


def _keep_configuration(instance: RunningServer, folder: Path) -> None:
    configuration = instance.folder / "my.cnf"
    if configuration.exists():
        name = "my.cnf" if instance.number == 1 else f"my-{instance.number}.cnf"
        write_text(folder / name, configuration.read_text())


def with_stream(step: Step, design_seed: int, block: int, attempt: int, restored: bool) -> Step:
    """The step with its seed, from 1 to LARGEST_SEED; as it is where the experiment names one, or nothing is drawn.

    `restored`: each run begins with the same data. Where it does not, an earlier run may have written what the same
    stream would write, so the seed is drawn anew; driver.json keeps it, as any other.
    """
    if (step.workload not in OLTP_WORKLOADS and step.file is None) or step.options.get(OPTION):
        return step
    drawn = Random(f"mydyno-stream-1-{design_seed}-{block}-{step.id}-{attempt}")
    seed = 1 + (drawn.randrange(LARGEST_SEED) if restored else secrets.randbelow(LARGEST_SEED))
    return step.model_copy(update={"options": {**step.options, OPTION: seed}})
