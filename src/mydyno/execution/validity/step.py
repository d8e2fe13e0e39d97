"""The validity of a step: steadiness and validity checks, per instance and for the whole step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mydyno.execution.environments.load_clients import busy_pct
from mydyno.execution.validity.rules import (
    HOST_RULES,
    INSTANCE_RULES,
    OF_THE_ARM,
    OF_THE_HOST,
    STEP_RULES,
    StepFacts,
    step_reasons,
)
from mydyno.hosts.limits import usable_cpus
from mydyno.model.definition.experiment import Experiment, Step, ValiditySpec
from mydyno.model.stored.reasons import NOTHING_ENDED, Reason
from mydyno.model.stored.records import DriverResult, SliceRecord, StepRecord, WindowSteadiness
from mydyno.results.values.doubts import doubts_of, missed
from mydyno.results.values.steadiness import judge_step
from mydyno.store.samples import Sample
from mydyno.workloads.reconcile import disagreements

MOST_START_SPREAD_S = 1.0
"""Drivers that began further apart than one sample did not load at the same time."""
MOST_UNFINISHED, MOST_DROPPED = 0.01, 0.05
"""Shares of a load at a rate above which the arm failed: those at which dynoload calls a run invalid."""
UNFINISHED = "it did not keep up: over 1 % of the transactions had not ended when the load was over"
DROPPED = "it did not keep up: over 5 % of the transactions were given up as late"
OF_RULE = {"unfinished": UNFINISHED, "dropped": DROPPED}
"""Words for OF_THE_ARM; without numbers, so that blocks with the same failure are counted together."""

WORTH_KNOWING = 0.01
"""From this share on, writes that changed no row and reads that found nothing are a warning."""


def judged(experiment: Experiment, step: Step, record: StepRecord, samples: Sequence[Sample]) -> StepRecord:
    """The record with its steadiness and the validity checks that failed for this step."""

    record = _with_busy_clients(record, step, samples)

    def facts(driver: DriverResult, counters: dict[str, float], steady: WindowSteadiness) -> StepFacts:
        return StepFacts(
            bounds=experiment.validity,
            driver=driver,
            whole_s=step.warmup_s + step.measure_s,
            cpus=usable_cpus().amount,
            throttled=record.throttled,
            disagreements=disagreements(
                step.workload, driver.whole, counters, shared=experiment.server.dsn is not None
            ),
            step=step,
            steadiness=steady.steadiness,
            steady_reasons=steady.reasons,
        )

    def steadiness(instance: int, started_unix_ns: int) -> WindowSteadiness:
        return judge_step(samples, started_unix_ns, step, experiment.verdict.margin, instance)

    parts, windows = [], {}
    for part in record.instances:
        steady = steadiness(part.instance, part.started_unix_ns)
        windows[part.instance] = steady
        closed = step_reasons(facts(part.driver, part.server_counters, steady), INSTANCE_RULES)
        own = tuple(reason.model_copy(update={"instance": part.instance}) for reason in closed)
        parts.append(part.model_copy(update={"steady": steady, "reasons": own}))
    steady = _least_steady(windows) if parts else steadiness(1, record.started_unix_ns)
    reasons = [reason for part in parts for reason in part.reasons]
    reasons += step_reasons(facts(record.driver, record.server_counters, steady), HOST_RULES if parts else STEP_RULES)
    if parts and record.start_spread_s > MOST_START_SPREAD_S:
        text = f"the drivers began {record.start_spread_s:.1f} s apart"
        reasons.append(Reason(check="start_spread", text=text))
    failed = failure_of(record.driver, experiment.validity)
    return record.model_copy(
        update={
            "steady": steady,
            "valid": not reasons and not failed,
            "reasons": tuple(reasons),
            "warnings": step_warnings(step, record.driver),
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


def failure_of(driver: DriverResult, validity: ValiditySpec) -> str:
    """Why the arm failed at a step although its load ran to the end; empty if it did not."""
    if driver.transactions == 0:
        return NOTHING_ENDED
    if driver.errors or driver.reconnects:
        return f"{driver.errors} errors and {driver.reconnects} lost connections"
    share = driver.ignored_errors / driver.transactions
    if share > validity.ignored_errors_per_transaction:
        bound = validity.ignored_errors_per_transaction
        return f"{driver.ignored_errors} ignored errors, {share:.3g} per transaction (bound {bound:g})"
    found = {finding.rule for finding in driver.findings if finding.level == "invalid"}
    return next((OF_RULE[rule] for rule in OF_THE_ARM if rule in found), "")


def failure_at_rate(slices: Sequence[SliceRecord]) -> str:
    """Why the arm did not carry the rate of a step's slices, by the rules of `failure_of`; empty if it did."""
    planned = sum(one.planned for one in slices)
    if sum(one.unfinished for one in slices) > MOST_UNFINISHED * planned:
        return UNFINISHED
    return DROPPED if sum(one.dropped for one in slices) > MOST_DROPPED * planned else ""


def step_warnings(step: Step, driver: DriverResult) -> tuple[str, ...]:
    """What a reader should know of a step that counts: what the host did to the driver, and what was not found."""
    changed, unchanged = driver.whole.get("write", 0), driver.whole.get("unchanged", 0)
    share = unchanged / max(1, changed + unchanged)
    absent = f"{share:.0%} of the writes changed no row: they met none, or the value was there already"
    not_found, words = missed(step, driver.whole)
    return (
        *_host_warnings(driver),
        *([absent] if share >= WORTH_KNOWING else []),
        *([words] if not_found >= WORTH_KNOWING else []),
        *(one.text for one in doubts_of(driver)),
    )


def _host_warnings(driver: DriverResult) -> tuple[str, ...]:
    """What the host did to the driver. It counts: to leave such steps out would select among the host's states.

    cpu_wait is never worse than suspect.
    """
    return tuple(
        finding.text
        for finding in driver.findings
        if finding.rule in OF_THE_HOST and (finding.level == "invalid" or finding.rule == "cpu_wait")
    )


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
