"""What bpftrace prints with -f json, as events. Maps that programs use for themselves are left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mydyno.hosts.tracing.system_calls import system_call_name
from mydyno.model.stored.kernel import MEASURES, SYSTEM_CALL, Bucket, KernelEvent

NS_PER_US = 1000.0
HISTOGRAM = "_ns"
"""End of the name of a measure's histogram."""


def kernel_events(lines: Iterable[str], absent: Iterable[str] = ()) -> tuple[KernelEvent, ...]:
    """The events of one run of bpftrace, those that never occurred with count 0.

    `absent` are the programs that did not run. A line that is no JSON is a message. Raises ValueError for a line of
    another form.
    """
    maps: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        if record["type"] in ("map", "stats", "hist"):
            maps |= {name.removeprefix("@"): value for name, value in record["data"].items()}
    without = set(absent)
    found = [
        _event(name, maps)
        for name, measure in MEASURES.items()
        if measure.program not in without and name != "system_calls"
    ]
    if MEASURES["system_calls"].program not in without:
        calls: Mapping[str, int] = maps.get("system_calls") or {}
        found.append(KernelEvent(measure="system_calls", count=sum(map(int, calls.values()))))
        found += [
            KernelEvent(measure=SYSTEM_CALL + system_call_name(int(number)), count=int(count))
            for number, count in sorted(calls.items(), key=lambda one: -int(one[1]))
        ]
    return tuple(found)


def _event(name: str, maps: Mapping[str, Any]) -> KernelEvent:
    value: Any = maps.get(name) or 0
    if not MEASURES[name].is_time:
        return KernelEvent(measure=name, count=int(value))
    if not value:
        return KernelEvent(measure=name, count=0, time_us=0.0)
    buckets = tuple(
        Bucket(
            low_us=one.get("min", 0) / NS_PER_US,
            high_us=(one["max"] + 1) / NS_PER_US if "max" in one else 2 * one["min"] / NS_PER_US,
            count=one["count"],
        )
        for one in maps.get(name + HISTOGRAM) or ()
        if one["count"]
    )
    return KernelEvent(
        measure=name, count=int(value["count"]), time_us=round(value["total"] / NS_PER_US, 3), histogram=buckets
    )


def added(before: tuple[KernelEvent, ...], more: tuple[KernelEvent, ...]) -> tuple[KernelEvent, ...]:
    """Two runs of bpftrace together."""
    found = {one.measure: one for one in before}
    for one in more:
        known = found.get(one.measure)
        found[one.measure] = one if known is None else _sum(known, one)
    return tuple(found.values())


def _sum(one: KernelEvent, other: KernelEvent) -> KernelEvent:
    counts: dict[tuple[float, float], int] = {}
    for bucket in (*one.histogram, *other.histogram):
        of = (bucket.low_us, bucket.high_us)
        counts[of] = counts.get(of, 0) + bucket.count
    return KernelEvent(
        measure=one.measure,
        count=one.count + other.count,
        time_us=None if one.time_us is None else round(one.time_us + (other.time_us or 0.0), 3),
        histogram=tuple(Bucket(low_us=low, high_us=high, count=count) for (low, high), count in sorted(counts.items())),
    )
