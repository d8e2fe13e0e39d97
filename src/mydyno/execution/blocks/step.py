"""One step of a run: each instance's driver runs its load, between two readings of the servers' counters.

All drivers are started together and connect before they load. How far apart their loads began is measured and kept;
where that is more than a second, the step does not count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mydyno.drivers.base import ChildCpu, DriverOutcome, Progress, StepContext, merged
from mydyno.errors import ServerError, StudyError
from mydyno.execution.concurrency import all_or_none
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.environments.probe import Sampler
from mydyno.failpoints import failpoint
from mydyno.hosts.limits import quota_periods, throttled_since
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import DriverResult, InstanceStep, StepRecord
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.store.samples import Sample
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
    step: Step,
    started_unix_ns: int,
    outcome: DriverOutcome,
    counters: dict[str, float],
    throttled: dict[str, float],
) -> StepRecord:
    return StepRecord(
        id=step.id,
        workload=step.workload,
        connections=step.connections,
        started_unix_ns=started_unix_ns,
        warmup_s=step.warmup_s,
        measure_s=step.measure_s,
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
