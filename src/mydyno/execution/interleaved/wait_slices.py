"""The slices of a block in which the servers' waits are counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from mydyno.execution.counters.kernel_counter import StartCounting
from mydyno.execution.interleaved.counted_slices import CountedSlices, Counts
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.waits import (
    EventTotal,
    LockTotal,
    MetricTotal,
    SessionKind,
    SessionTotal,
    WaitKind,
    WaitTotals,
)
from mydyno.servers.lock_instances import LockUse
from mydyno.servers.performance_schema import Counts as EventCounts
from mydyno.servers.wait_counting import Counted


@dataclass
class _Waits:
    """What was counted of one lane at one step."""

    events: EventCounts = field(default_factory=dict)
    locks: dict[str, LockUse] = field(default_factory=dict)
    metrics: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    samples: int = 0
    sessions: Counter[tuple[SessionKind, str]] = field(default_factory=Counter)
    lost: dict[str, int] = field(default_factory=dict)


class WaitSlices(CountedSlices[_Waits, Counted]):
    """All such slices of one block. Without a counter none is due."""

    kind = "waits"

    def __init__(self, counter: StartCounting | None, remote_load: bool) -> None:
        super().__init__(counter, remote_load, nothing=_Waits, added=_added)

    def totals(self, step: str, counts: Counts[_Waits]) -> WaitTotals:
        """The waits of a step: the longest first."""
        waits = counts.found
        return WaitTotals(
            **counts.common(step),
            waits=_events(waits.events, "wait"),
            stages=_events(waits.events, "stage"),
            statements=_events(waits.events, "statement"),
            locks=tuple(
                LockTotal(
                    name=name,
                    instances=use.instances,
                    time_us=round(use.time_us, 3),
                    hottest_us=round(use.hottest_us, 3),
                )
                for name, use in sorted(waits.locks.items(), key=lambda one: (-one[1].time_us, one[0]))
            ),
            samples=waits.samples,
            sessions=tuple(
                SessionTotal(kind=kind, name=name, count=count)
                for (kind, name), count in sorted(waits.sessions.items(), key=lambda one: (-one[1], one[0]))
            ),
            metrics=tuple(MetricTotal(name=name, count=count) for name, count in sorted(waits.metrics.items())),
            lost=waits.lost,
        )


def _added(waits: _Waits, counted: Counted, record: SliceRecord) -> _Waits:
    """The waits with what was counted in this slice. Sessions count in its measured part alone."""
    for event, (count, time_us) in counted.events.items():
        before = waits.events.get(event, (0, 0.0))
        waits.events[event] = (before[0] + count, before[1] + time_us)
    for name, use in counted.locks.items():
        waits.locks[name] = use if name not in waits.locks else waits.locks[name].with_other(use)
    for metric, growth in counted.metrics.items():
        waits.metrics[metric] += growth
    begin_s = record.started_unix_ns / 1e9
    for sample in counted.samples:
        if begin_s <= sample.unix_s <= begin_s + record.length_s:
            waits.samples += 1
            waits.sessions.update(sample.activity)
    waits.lost |= counted.lost
    return waits


def _events(counts: EventCounts, kind: WaitKind) -> tuple[EventTotal, ...]:
    found = [
        EventTotal(name=name, count=count, time_us=round(time_us, 3))
        for (of, name), (count, time_us) in counts.items()
        if of == kind
    ]
    return tuple(sorted(found, key=lambda one: (-one.time_us, one.name)))
