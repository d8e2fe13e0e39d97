"""The records of an interleaved block's runs, made from slices and proofs. Pure but for the histograms' decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mydyno import clock
from mydyno.drivers.base import merged_types
from mydyno.drivers.held import worst_level
from mydyno.execution.validity import (
    SLICES_RULES,
    RunFacts,
    StepFacts,
    failure_at_rate,
    failure_of,
    no_valid_step,
    others_killed,
    run_reasons,
    saturated,
    step_reasons,
    step_warnings,
)
from mydyno.hosts.limits import usable_cpus
from mydyno.hosts.quiet import MemoryCounters
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import COUNTS, ClientLoad, DriverResult, RunRecord, SliceRecord, StepRecord
from mydyno.results.values.interleaved import latency_of
from mydyno.store.samples import Sample

if TYPE_CHECKING:
    from mydyno.execution.interleaved.lane import Lane


def step_record(
    lane: Lane,
    step: Step,
    slices: Sequence[SliceRecord],
    counted: dict[str, float],
    clients: tuple[ClientLoad, ...],
    began_unix_ns: int,
    throttled: dict[str, float],
) -> StepRecord:
    """One lane's step, after its load was disconnected: the sum of its slices; `throttled` is of all lanes' slices.

    `counted`: growth of the servers' counters over the connections; `clients`: the hosts that the load came from.
    A lane that was never loaded (treatment not proved) has not failed.
    """
    validity = lane.environment.experiment.validity
    good = [one for one in slices if not one.failed]
    driver = _driver(lane, step, good, clients)
    failed = lane.failed_steps.get(step.id, lane.failed) or next((one.failed for one in slices if one.failed), "")
    if slices and not failed:
        failed = failure_of(driver, validity) or failure_at_rate(good)
    disagreements = list(dict.fromkeys(words for one in good for words in one.disagreements))
    facts = StepFacts(
        validity, driver, driver.duration_s, usable_cpus().amount, throttled, tuple(disagreements[:2]), step
    )  # fmt: skip
    reasons = step_reasons(facts, SLICES_RULES)
    return StepRecord.like(
        step,
        connection_memory_bytes=lane.connection_memory.get(step.id),
        rss_after_bytes=lane.rss_bytes(),
        started_unix_ns=began_unix_ns,
        warmup_s=0.0,
        measure_s=max(1e-3, (clock.unix_ns() - began_unix_ns) / 1e9),
        driver=driver,
        server_counters=counted,
        valid=not reasons and not failed,
        reasons=tuple(reasons),
        failed=failed,
        throttled=throttled,
        warnings=step_warnings(step, driver),
    )


def _driver(lane: Lane, step: Step, slices: Sequence[SliceRecord], clients: tuple[ClientLoad, ...]) -> DriverResult:
    traffic: Counter[str] = Counter()
    for one in slices:
        traffic.update(one.traffic)
    latency, findings = latency_of(slices), (*lane.findings, *saturated(slices))
    busiest = [one.rates["busiest_worker_pct"] for one in slices if "busiest_worker_pct" in one.rates]
    return DriverResult(
        driver=step.driver,
        version="",
        command=lane.load_command,
        transactions=round(sum(one.done_transactions for one in slices)),
        queries=round(sum(one.done_queries for one in slices)),
        **{name: sum(getattr(one, name) for one in slices) for name in COUNTS[2:]},
        duration_s=sum(one.length_s for one in slices) or 1e-9,
        latency_us=latency,
        cpu_user_s=sum(one.driver_cpu_s or 0.0 for one in slices),
        cpu_system_s=0.0,
        whole=lane.whole,
        key_values=_key_values(slices, latency),
        transaction_types=merged_types([one.transaction_types for one in slices]),
        digests=lane.digests,
        traffic=dict(traffic),
        tls={"whole_load": lane.handshakes} if lane.handshakes else {},
        busiest_thread_cpu_pct=max(busiest, default=None),
        clients=clients,
        health=worst_level(findings),
        findings=findings,
    )


def _key_values(slices: Sequence[SliceRecord], latency: dict[str, float]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for one in slices:
        total.update(one.key_values)
    if not total:
        return {}
    return {**total, **{f"{name}_us": latency[name] for name in ("min", "max", "mean") if name in latency}}


def step_samples(record: SliceRecord, number: int) -> list[Sample]:
    """A slice's rates as samples at its end, for the charts over time."""
    at_ns = record.started_unix_ns + round(record.length_s * 1e9)
    rates = {"qps": record.done_queries / record.length_s, "tps": record.done_transactions / record.length_s}
    return [Sample(at_ns, f"driver:{number}", name, value) for name, value in rates.items()]


def run_record(
    lane: Lane,
    steps: Sequence[StepRecord],
    words: Sequence[str],
    memory: MemoryCounters,
    unsampled: dict[str, str],
) -> RunRecord:
    """run.json of one lane. Memory counters are of the whole block: swapping makes all of its lanes invalid."""
    reasons = [*lane.reasons]
    if memory.swapped_bytes is not None:
        reasons += run_reasons(RunFacts(lane.environment.experiment.validity, (), memory.swapped_bytes))
    if not lane.failed:
        reasons = reasons or no_valid_step(steps)
    return RunRecord.like(
        lane.planned,
        folder=lane.planned.folder,
        started_unix_ns=lane.started_unix_ns,
        ended_unix_ns=clock.unix_ns(),
        valid=not reasons and not lane.failed,
        reasons=tuple(reasons or ([Reason(check="failed", text=lane.failed)] if lane.failed else [])),
        failed=lane.failed,
        warnings=tuple(dict.fromkeys((*lane.warnings, *words, *others_killed(memory.out_of_memory_kills)))),
        unsampled=unsampled,
        evidence=tuple(lane.evidence),
        servers=tuple(lane.servers),
        steps=tuple(steps),
        cpu_profiles=lane.cpu_profiles,
        waits=lane.waits,
        kernel=lane.kernel,
    )


def windows_of(slices: Sequence[SliceRecord]) -> list[tuple[int, int]]:
    """(begin, end) of the measured parts in Unix nanoseconds, of slices with any load."""
    return [(one.started_unix_ns, one.started_unix_ns + round(one.length_s * 1e9)) for one in slices if one.queries]
