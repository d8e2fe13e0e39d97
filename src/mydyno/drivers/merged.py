"""The results of several simultaneous load programs, one per instance, as one result. Pure functions.

Counts add up. Percentiles cannot be averaged: they come from the histograms merged, and if a driver has none they are
absent. The driver's health is the worst of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import add

from mydyno.drivers.base import DriverOutcome
from mydyno.model.stored.records import ClientLoad, DriverResult
from mydyno.stats.percentiles import PERCENTILES

HIGHEST_NS = 3_600_000_000_000
RESPONSE_TAG = ".response,"
_MERGED: Mapping[str, Callable[[float, float], float]] = {
    "errors": add, "rows": add, "least_rows": min, "most_rows": max,
}  # fmt: skip
_WORST = ("valid", "suspect", "invalid")


def merged(outcomes: Sequence[DriverOutcome], cpu_user_s: float | None, cpu_system_s: float | None) -> DriverResult:
    """One result of at least one outcome; the CPU time is that of all drivers together."""
    results = [outcome.result for outcome in outcomes]
    first = results[0]
    whole: Counter[str] = Counter()
    for result in results:
        whole.update(result.whole)
    return DriverResult(
        driver=first.driver,
        version=first.version,
        command=first.command,
        transactions=sum(result.transactions for result in results),
        queries=sum(result.queries for result in results),
        queries_read=_sum([result.queries_read for result in results]),
        queries_write=_sum([result.queries_write for result in results]),
        queries_other=_sum([result.queries_other for result in results]),
        errors=sum(result.errors for result in results),
        ignored_errors=sum(result.ignored_errors for result in results),
        reconnects=sum(result.reconnects for result in results),
        duration_s=max(result.duration_s for result in results),
        latency_us=_latency_us(outcomes),
        service_us=_service_us(results),
        cpu_user_s=cpu_user_s,
        cpu_system_s=cpu_system_s,
        whole=dict(whole),
        transaction_types=merged_types([result.transaction_types for result in results]),
        digests=first.digests,
        clients=_clients(results),
        health=max((result.health for result in results), key=_WORST.index),
        health_reasons=tuple(
            f"driver {number}: {reason}" for number, r in enumerate(results, 1) for reason in r.health_reasons
        ),
        findings=tuple(
            finding.model_copy(update={"text": f"driver {number}: {finding.text}"})
            for number, result in enumerate(results, 1)
            for finding in result.findings
        ),
    )


def merged_types(parts: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """DriverResult.transaction_types of several loads or slices together."""
    total: dict[str, dict[str, float]] = {}
    for part in parts:
        for name, one in part.items():
            known = total.setdefault(name, {"count": 0.0, "mean_us": 0.0})
            known["count"] += one["count"]
            known["mean_us"] += (one["mean_us"] - known["mean_us"]) * one["count"] / max(1.0, known["count"])
            for key, together in _MERGED.items():
                if key in one:
                    known[key] = together(known[key], one[key]) if key in known else one[key]
    return total


def _clients(results: Sequence[DriverResult]) -> tuple[ClientLoad, ...]:
    """Each client host once: what its agents of all drivers used together."""
    found: dict[str, ClientLoad] = {}
    for client in (client for result in results for client in result.clients):
        known = found.get(client.name)
        found[client.name] = client if known is None else client.with_other(known)
    return tuple(found.values())


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _service_us(results: Sequence[DriverResult]) -> float | None:
    """Mean weighted by transactions; None where one of the drivers has none."""
    total = sum(result.transactions for result in results)
    if not total or any(result.service_us is None for result in results):
        return None
    return sum((result.service_us or 0.0) * result.transactions for result in results) / total


def _latency_us(outcomes: Sequence[DriverOutcome]) -> dict[str, float]:
    """Mean weighted by transactions, least and greatest of all, percentiles of the merged histograms."""
    latencies = [(outcome.result.latency_us, outcome.result.transactions) for outcome in outcomes]
    found: dict[str, float] = {}
    total = sum(count for _, count in latencies)
    if total and all("mean" in latency for latency, _ in latencies):
        found["mean"] = sum(latency["mean"] * count for latency, count in latencies) / total
    for name, choose in (("min", min), ("max", max)):
        if all(name in latency for latency, _ in latencies):
            found[name] = choose(latency[name] for latency, _ in latencies)
    return found | _percentiles(outcomes)


def _percentiles(outcomes: Sequence[DriverOutcome]) -> dict[str, float]:
    from hdrh.histogram import HdrHistogram

    together = HdrHistogram(1000, HIGHEST_NS, 3)
    for outcome in outcomes:
        lines = [line for line in outcome.latency_log if RESPONSE_TAG in line]
        if lines:
            for line in lines:
                together.decode_and_add(line.rpartition(",")[2])
        elif outcome.result.latency_histogram_us:
            for bound_us, count in outcome.result.latency_histogram_us:
                together.record_value(min(max(round(bound_us * 1000), 1000), HIGHEST_NS), count)
        else:
            return {}
    if not together.get_total_count():
        return {}
    return {name: together.get_value_at_percentile(share) / 1000 for name, share in PERCENTILES.items()}
