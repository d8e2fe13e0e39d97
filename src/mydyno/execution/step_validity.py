"""The validity of a step: steadiness and gates, per instance and for the whole step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from mydyno.execution.load_clients import busy_pct
from mydyno.model.experiment import Experiment, GateSpec, Step
from mydyno.model.reasons import Reason
from mydyno.model.records import DriverResult, StepRecord, WindowSteadiness
from mydyno.results.steadiness import judge_step
from mydyno.store.samples import Sample
from mydyno.verdicts.gates import HOST_GATES, INSTANCE_GATES, STEP_GATES, StepFacts, step_reasons
from mydyno.workloads.reconcile import disagreements

MOST_START_SPREAD_S = 1.0
"""Drivers that began further apart than one sample did not load at the same time."""


def judged(experiment: Experiment, step: Step, record: StepRecord, samples: Sequence[Sample]) -> StepRecord:
    """The record with its steadiness and the gates that closed for this step."""

    record = _with_busy_clients(record, step, samples)

    def facts(driver: DriverResult, counters: dict[str, float], steady: WindowSteadiness) -> StepFacts:
        return StepFacts(
            bounds=experiment.gates,
            driver=driver,
            whole_s=step.warmup_s + step.measure_s,
            cpus=len(os.sched_getaffinity(0)),
            disagreements=disagreements(step.workload, driver.whole, counters),
            steadiness=steady.steadiness,
            steady_reasons=steady.reasons,
        )

    def steadiness(instance: int, started_unix_ns: int) -> WindowSteadiness:
        return judge_step(samples, started_unix_ns, step, experiment.verdict.margin, instance)

    if not record.instances:
        steady = steadiness(1, record.started_unix_ns)
        reasons = step_reasons(facts(record.driver, record.server_counters, steady), STEP_GATES)
        failed = failure_of(record.driver, experiment.gates)
        return record.model_copy(
            update={"steady": steady, "valid": not reasons and not failed, "reasons": tuple(reasons), "failed": failed}
        )
    parts, windows = [], {}
    for part in record.instances:
        steady = steadiness(part.instance, part.started_unix_ns)
        windows[part.instance] = steady
        closed = step_reasons(facts(part.driver, part.server_counters, steady), INSTANCE_GATES)
        own = tuple(reason.model_copy(update={"instance": part.instance}) for reason in closed)
        parts.append(part.model_copy(update={"steady": steady, "reasons": own}))
    steady = _least_steady(windows)
    reasons = [reason for part in parts for reason in part.reasons]
    reasons += step_reasons(facts(record.driver, record.server_counters, steady), HOST_GATES)
    if record.start_spread_s > MOST_START_SPREAD_S:
        text = f"the drivers began {record.start_spread_s:.1f} s apart"
        reasons.append(Reason(gate="start_spread", text=text))
    failed = failure_of(record.driver, experiment.gates)
    return record.model_copy(
        update={
            "steady": steady,
            "valid": not reasons and not failed,
            "reasons": tuple(reasons),
            "failed": failed,
            "instances": tuple(parts),
        }
    )


def _with_busy_clients(record: StepRecord, step: Step, samples: Sequence[Sample]) -> StepRecord:
    """The record with the CPU use of each client host in the measured window."""
    if not record.driver.clients:
        return record
    begin_ns = record.started_unix_ns + round(step.warmup_s * 1e9)
    end_ns = begin_ns + round(step.measure_s * 1e9)
    busy = busy_pct(samples, [(begin_ns, end_ns)])
    clients = [client.model_copy(update={"busy_pct": busy.get(client.name)}) for client in record.driver.clients]
    return record.model_copy(update={"driver": record.driver.model_copy(update={"clients": tuple(clients)})})


def failure_of(driver: DriverResult, gates: GateSpec) -> str:
    """Why the arm failed at a step although its load ran to the end; empty if it did not."""
    if driver.transactions == 0:
        return "no transaction ended"
    if driver.errors or driver.reconnects:
        return f"{driver.errors} errors and {driver.reconnects} lost connections"
    share = driver.ignored_errors / driver.transactions
    if share > gates.ignored_errors_per_transaction:
        bound = gates.ignored_errors_per_transaction
        return f"{driver.ignored_errors} ignored errors, {share:.3g} per transaction (bound {bound:g})"
    return ""


def _least_steady(windows: Mapping[int, WindowSteadiness]) -> WindowSteadiness:
    """The steadiness of a step: as unsteady as its least steady instance, with the latest trustworthy cut."""
    order = ("steady", "undecided", "not steady")
    worst = max(windows.values(), key=lambda steady: order.index(steady.steadiness))
    trusted = [steady for steady in windows.values() if steady.mser5_trustworthy]
    cut = max(trusted or [next(iter(windows.values()))], key=lambda steady: steady.mser5_cut_s)
    return worst.model_copy(
        update={
            "mser5_cut_s": cut.mser5_cut_s,
            "mser5_beyond_half": cut.mser5_beyond_half,
            "mser5_trustworthy": cut.mser5_trustworthy,
            "samples": cut.samples,
            "reasons": tuple(
                f"instance {instance}: {reason}" for instance, steady in windows.items() for reason in steady.reasons
            ),
        }
    )
