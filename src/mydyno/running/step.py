"""One step of a run: each instance's driver asks its load, between two readings of the servers' counters.

All drivers are started in one go and connect before they load. How far apart their loads began is measured and kept;
where that is more than a second, the step does not count.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mydyno.drivers.base import DriverOutcome, Progress
from mydyno.drivers.merged import merged
from mydyno.errors import ServerError, StudyError
from mydyno.model.experiment import Step
from mydyno.model.records import InstanceStep, StepRecord
from mydyno.running.bench import Bench
from mydyno.running.probe import Probe
from mydyno.running.together import all_or_none
from mydyno.servers.instance import LOAD_USER, Instance
from mydyno.store.samples import Sample
from mydyno.workloads.reconcile import growth

Tell = Callable[[Step, Progress], None]


@dataclass(frozen=True)
class Asked:
    """A step as it went: not yet judged."""

    record: StepRecord
    samples: tuple[Sample, ...]
    latency_log: tuple[str, ...]


async def ask(bench: Bench, instances: Sequence[Instance], probe: Probe, step: Step, folder: Path, tell: Tell) -> Asked:
    """Ask the step of all instances at once. Raises StudyError; then no driver runs any more."""
    before = [await instance.counters() for instance in instances]
    probe.tell(f"mark {step.id}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    progress = _Together(step, len(instances), tell)
    outcomes = await all_or_none(
        [_drive(bench, instance, probe, step, folder, progress.teller(instance.number)) for instance in instances]
    )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    counters = []
    for instance, then in zip(instances, before, strict=True):
        try:
            counters.append(growth(then, await instance.counters()))
        except StudyError as error:
            raise await _with_the_servers_end(error, instance, step) from error
    samples = tuple(sample for outcome in outcomes for sample in outcome.samples)
    if len(instances) == 1:
        record = _record(step, outcomes[0].started_unix_ns, outcomes[0], counters[0])
        return Asked(record, samples, outcomes[0].latency_log)
    begun = [outcome.started_unix_ns for outcome in outcomes]
    together = merged(outcomes, round(now.ru_utime - used.ru_utime, 3), round(now.ru_stime - used.ru_stime, 3))
    every = {name for counted in counters for name in counted}
    record = _record(
        step,
        max(begun),
        replace(outcomes[0], result=together),
        {name: sum(counted.get(name, 0.0) for counted in counters) for name in sorted(every)},
    ).model_copy(
        update={
            "start_spread_s": (max(begun) - min(begun)) / 1e9,
            "instances": tuple(
                InstanceStep(
                    instance=instance.number,
                    started_unix_ns=outcome.started_unix_ns,
                    # The kernel counts the CPU time of children together: it is known for all drivers, not for each.
                    driver=outcome.result.model_copy(update={"cpu_user_s": None, "cpu_system_s": None}),
                    server_counters=counted,
                )
                for instance, outcome, counted in zip(instances, outcomes, counters, strict=True)
            ),
        }
    )
    logs = (_tagged(o.latency_log, step, i.number) for i, o in zip(instances, outcomes, strict=True))
    return Asked(record, samples, tuple(line for log in logs for line in log))


def _record(step: Step, started_unix_ns: int, outcome: DriverOutcome, counters: dict[str, float]) -> StepRecord:
    return StepRecord(
        id=step.id,
        workload=step.workload,
        connections=step.connections,
        started_unix_ns=started_unix_ns,
        warmup_s=step.warmup_s,
        measure_s=step.measure_s,
        driver=outcome.result,
        server_counters=counters,
    )


async def _drive(
    bench: Bench,
    instance: Instance,
    probe: Probe,
    step: Step,
    folder: Path,
    on_progress: Callable[[Progress], None],
) -> DriverOutcome:
    """One instance's driver to its end; its samples carry the instance's number."""
    number = instance.number
    private = bench.sockets if number == 1 else bench.sockets / f"driver-{number}"
    private.mkdir(mode=0o700, exist_ok=True)
    try:
        outcome = await bench.drivers[step.driver].run(
            instance.address(LOAD_USER),
            bench.experiment.data,
            step,
            private,
            folder / ("driver.log" if number == 1 else f"driver-{number}.log"),
            on_start=lambda pid: probe.tell(f"driver {number} {pid}"),
            on_progress=on_progress,
        )
    except StudyError as error:
        raise await _with_the_servers_end(error, instance, step) from error
    finally:
        probe.tell(f"driver {number} -")
    scope = f"driver:{number}"
    return replace(outcome, samples=tuple(replace(s, scope=scope) for s in outcome.samples)) if number > 1 else outcome


async def _with_the_servers_end(error: StudyError, instance: Instance, step: Step) -> StudyError:
    """The error, or where it came from a server that died, that and the server's own last words."""
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


class _Together:
    """The progress of several drivers as one: the sum of their rates, told when the first one tells its own."""

    def __init__(self, step: Step, count: int, tell: Tell) -> None:
        self._step = step
        self._tell = tell
        self._latest = {number: Progress(0.0, 0.0, 0.0) for number in range(1, count + 1)}

    def teller(self, number: int) -> Callable[[Progress], None]:
        """What instance `number`'s driver calls."""

        def take(progress: Progress) -> None:
            self._latest[number] = progress
            if number == 1:
                rates = self._latest.values()
                self._tell(
                    self._step, Progress(progress.t_s, sum(one.qps for one in rates), sum(one.tps for one in rates))
                )

        return take


def _tagged(lines: Sequence[str], step: Step, number: int) -> list[str]:
    """The log's lines with the instance in their tags: Tag=STEP.instance-2.response,…"""
    return [line.replace(f"Tag={step.id}.", f"Tag={step.id}.instance-{number}.", 1) for line in lines]
