"""What a step is worth: steadiness and gates, per instance and for the whole of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mydyno.model.experiment import Experiment, GateSpec, Step
from mydyno.model.records import DriverResult, InstanceStep, StepRecord
from mydyno.results.steadiness import judge_step
from mydyno.store.samples import Sample
from mydyno.verdicts.gates import HOST_GATES, INSTANCE_GATES, STEP_GATES, StepFacts, step_reasons
from mydyno.workloads.reconcile import disagreements

MOST_START_SPREAD_S = 1.0
"""Drivers that began further apart than one sample did not load at the same time."""


def judged(experiment: Experiment, step: Step, record: StepRecord, samples: Sequence[Sample]) -> StepRecord:
    """The record with its steadiness and the gates that closed for this step."""

    def facts(driver: DriverResult, counters: dict[str, float], steady: dict[str, Any]) -> StepFacts:
        return StepFacts(
            bounds=experiment.gates,
            driver=driver,
            whole_s=step.warmup_s + step.measure_s,
            cpus=len(os.sched_getaffinity(0)),
            disagreements=disagreements(step.workload, driver.whole, counters),
            steadiness=steady["steadiness"],
            steady_reasons=steady["reasons"],
        )

    def steadiness(instance: int, started_unix_ns: int) -> dict[str, Any]:
        return judge_step(samples, started_unix_ns, step, experiment.verdict.margin, instance)

    if not record.instances:
        steady = steadiness(1, record.started_unix_ns)
        reasons = step_reasons(facts(record.driver, record.server_counters, steady), STEP_GATES)
        failed = failure_of(record.driver, experiment.gates)
        return record.model_copy(
            update={"steady": steady, "valid": not reasons and not failed, "reasons": tuple(reasons), "failed": failed}
        )
    parts = []
    for part in record.instances:
        steady = steadiness(part.instance, part.started_unix_ns)
        closed = step_reasons(facts(part.driver, part.server_counters, steady), INSTANCE_GATES)
        parts.append(part.model_copy(update={"steady": steady, "reasons": tuple(closed)}))
    steady = _together(parts)
    reasons = [_of_instance(reason, part.instance) for part in parts for reason in part.reasons]
    reasons += step_reasons(facts(record.driver, record.server_counters, steady), HOST_GATES)
    if record.start_spread_s > MOST_START_SPREAD_S:
        reasons.append(f"no common start: the drivers began {record.start_spread_s:.1f} s apart")
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


def failure_of(driver: DriverResult, gates: GateSpec) -> str:
    """Why the arm failed at a step although its load ran to the end; empty where it did not."""
    if driver.transactions == 0:
        return "no transaction ended"
    if driver.errors or driver.reconnects:
        return f"{driver.errors} errors and {driver.reconnects} lost connections"
    share = driver.ignored_errors / driver.transactions
    if share > gates.ignored_errors_per_transaction:
        bound = gates.ignored_errors_per_transaction
        return f"{driver.ignored_errors} ignored errors, {share:.3g} per transaction (bound {bound:g})"
    return ""


def _of_instance(reason: str, instance: int) -> str:
    """A gate's reason with the instance behind its head, by which sentences count reasons."""
    head, colon, rest = reason.partition(":")
    return f"{head}: instance {instance}:{rest}" if colon else f"{head} (instance {instance})"


def _together(parts: Sequence[InstanceStep]) -> dict[str, Any]:
    """The steadiness of a step: as unsteady as its least steady instance, with the latest trustworthy cut."""
    order = ("steady", "undecided", "not steady")
    worst = max(parts, key=lambda part: order.index(part.steady["steadiness"]))
    trusted = [part.steady for part in parts if part.steady["mser5_trustworthy"]]
    cut = max(trusted or [parts[0].steady], key=lambda steady: steady["mser5_cut_s"])
    reasons = [f"instance {part.instance}: {reason}" for part in parts for reason in part.steady["reasons"]]
    names = ("mser5_cut_s", "mser5_beyond_half", "mser5_trustworthy", "samples")
    return {**worst.steady, **{name: cut[name] for name in names}, "reasons": reasons}
