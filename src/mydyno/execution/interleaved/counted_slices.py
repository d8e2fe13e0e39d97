"""Slices of a block in which something is counted on the loaded servers: extra slices apart from the measured ones.

After the first cycle of each step, and after every eighth one from there on, each lane has one more slice of each kind
(CPU profile, waits, events of the kernel), in random order. Its neighbours in time are measured slices of the lane, so
that the cost of a profile can be measured too. Kinds are never the same slices: one would be in the figures of the
other. Counts that fail are missing, with the reason, and the block continues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, StudyError
from mydyno.execution.counters.programs import Counting, KernelCounter, Profiler, StartCounting
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.slices import Around, slice_record
from mydyno.hosts.tracing.bpftrace import added
from mydyno.hosts.tracing.perf import Folded
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import PROFILE_EVERY
from mydyno.model.stored.counted import (
    CountedTotals,
    EventTotal,
    KernelEvent,
    KernelTotals,
    LockTotal,
    MetricTotal,
    SessionKind,
    SessionTotal,
    WaitKind,
    WaitTotals,
)
from mydyno.model.stored.records import CountFacts, CpuProfile, SliceRecord
from mydyno.servers.running.base import RunningServer
from mydyno.servers.wait_counting import Counted, LockUse
from mydyno.servers.wait_counting import Counts as EventCounts
from mydyno.store.samples import (
    KERNEL_FILE,
    PROFILED_FILE,
    WAITS_FILE,
    is_waiting,
    stacks_file,
    totals_file,
    write_stacks,
    write_totals,
)

FAILURES = (HostError, StudyError, OSError)

C = TypeVar("C")
"""What is kept of all slices of a lane at a step."""
F = TypeVar("F")
"""What was counted in one slice."""
S = TypeVar("S")
"""What is stored of a lane at a step."""
Events = tuple[KernelEvent, ...]


@dataclass
class Counts(Generic[C]):
    """What was counted of one lane at one step."""

    found: C
    slices: list[SliceRecord] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def transactions(self) -> int:
        """From go to hold, washout included, as what is counted."""
        return sum(one.whole.get("transactions", 0) for one in self.slices)

    def common(self, step: str) -> dict[str, Any]:
        """The fields that all kinds of totals have."""
        loaded_s = round(sum(one.length_s + (one.washout_s or 0.0) for one in self.slices), 6)
        return {"step": step, "slices": len(self.slices), "transactions": self.transactions, "loaded_s": loaded_s}

    def reasons(self, nothing: str) -> str:
        """Why slices are missing; empty: none is. `nothing`: where there is no count, and no other reason."""
        return "; ".join(dict.fromkeys(self.missing)) or nothing


class SlicesApart(ABC, Generic[C, F, S]):
    """All slices of one kind of one block. Without something that counts none is due."""

    kind: Literal["profile", "waits", "kernel"]
    name: str
    """Name in their orders, and in the seed of the random stream that shuffles the lanes."""
    file: str
    first_stream: int
    """The random streams of their loads are numbered from here: beyond those of every cycle."""

    def __init__(self, counter: Callable[[Sequence[RunningServer]], Counting[F]] | None, remote_load: bool) -> None:
        self.records: list[SliceRecord] = []
        self._counter = counter
        self._remote_load = remote_load
        self._counts: dict[str, dict[str, Counts[C]]] = {}

    def due(self, cycle: int) -> bool:
        """Whether a cycle of such slices follows this cycle."""
        return self._counter is not None and cycle % PROFILE_EVERY == 1

    async def cycle(
        self, step: Step, cycle: int, lanes: Sequence[Lane], order: SliceOrder, begins: Callable[[Lane], None]
    ) -> None:
        """One slice of each lane in this order."""
        assert self._counter is not None
        for position, lane in enumerate(lanes, 1):
            if not lane.runs_step(step):
                continue
            own = self._counts.setdefault(lane.planned.folder, {})
            counts = own.setdefault(step.id, Counts(self._nothing()))
            begins(lane)
            counting = self._counter(lane.instances)
            try:
                await counting.begin()
            except FAILURES as error:
                counts.missing.append(str(error))
                continue
            try:
                parts = await lane.slice(step, order)
            except BaseException:
                await counting.abandon()
                raise
            try:
                found = await counting.end()
            except FAILURES as error:
                counts.missing.append(str(error))
                continue
            if not parts:
                continue
            planned, around = lane.planned, Around(remote_load=self._remote_load)
            record = slice_record(
                step, planned.block, cycle, position, planned.arm, planned.copy_number, parts, around
            ).model_copy(update={"washout_s": order.washout_s, "profiled": True})  # fmt: skip
            counts.slices.append(record)
            self.records.append(record)
            self._add(counts, found)

    def save(self, lane: Lane) -> tuple[S, ...]:
        """Write what was counted of a lane, a file for each step, describe it, and forget it."""
        counted = self._counts.pop(lane.planned.folder, {})
        return tuple(self._saved(step, counts, lane.folder) for step, counts in counted.items())

    @abstractmethod
    def _nothing(self) -> C:
        """Before the first slice."""

    @abstractmethod
    def _add(self, counts: Counts[C], found: F) -> None:
        """Add what was counted in the last of its slices."""

    @abstractmethod
    def _saved(self, step: str, counts: Counts[C], folder: Path) -> S:
        """Write the file of a step, and describe it."""


class ProfiledSlices(SlicesApart[Folded, Folded, CpuProfile]):
    """The profiled slices of one block."""

    kind, name, file, first_stream = "profile", "profiled", PROFILED_FILE, 2_000_000

    def __init__(self, profiler: Profiler | None, remote_load: bool) -> None:
        super().__init__(None if profiler is None else profiler.start, remote_load)
        self._profiler = profiler

    def _nothing(self) -> Folded:
        return Folded()

    def _add(self, counts: Counts[Folded], found: Folded) -> None:
        counts.found.add(found)

    def _saved(self, step: str, counts: Counts[Folded], folder: Path) -> CpuProfile:
        assert self._profiler is not None
        folded = counts.found
        file = stacks_file(step) if folded.samples else ""
        if file:
            write_stacks(folder / file, folded.stacks)
        return CpuProfile(
            step=step,
            file=file,
            slices=len(counts.slices),
            transactions=round(sum(one.done_transactions for one in counts.slices)),
            server_cpu_s=sum(one.server_cpu_s or 0.0 for one in counts.slices),
            samples=folded.samples,
            waiting_samples=sum(count for stack, count in folded.stacks.items() if is_waiting(stack)),
            lost_samples=folded.lost,
            cut_off_samples=folded.cut_off,
            frames=folded.frames,
            unknown_frames=folded.unknown_frames,
            event=self._profiler.event,
            frequency_hz=self._profiler.frequency_hz,
            profiler=self._profiler.version,
            method=self._profiler.method,
            missing=counts.reasons("" if file else "no sample was taken"),
        )


class CountedSlices(SlicesApart[C, F, CountFacts]):
    """Slices whose counts are totals."""

    kind: Literal["waits", "kernel"]

    def _saved(self, step: str, counts: Counts[C], folder: Path) -> CountFacts:
        file = totals_file(self.kind, step) if counts.slices else ""
        if file:
            write_totals(folder / file, self._totals(step, counts))
        return CountFacts(
            step=step,
            file=file,
            slices=len(counts.slices),
            transactions=counts.transactions,
            missing=counts.reasons("" if file else "no slice was counted"),
        )

    @abstractmethod
    def _totals(self, step: str, counts: Counts[C]) -> CountedTotals:
        """What the file of a step holds."""


class KernelSlices(CountedSlices[Events, Events]):
    """The slices of one block in which the kernel's events are counted."""

    kind, name, file, first_stream = "kernel", "kernel", KERNEL_FILE, 4_000_000

    def __init__(self, counter: KernelCounter | None, remote_load: bool) -> None:
        super().__init__(None if counter is None else counter.start, remote_load)
        self._kernel = counter

    def _nothing(self) -> Events:
        return ()

    def _add(self, counts: Counts[Events], found: Events) -> None:
        counts.found = added(counts.found, found)

    def _totals(self, step: str, counts: Counts[Events]) -> KernelTotals:
        assert self._kernel is not None
        absent = dict(self._kernel.absent)
        return KernelTotals(**counts.common(step), tracer=self._kernel.version, absent=absent, events=counts.found)


@dataclass
class _Waits:
    """The waits of one lane at one step."""

    events: EventCounts = field(default_factory=dict)
    locks: dict[str, LockUse] = field(default_factory=dict)
    metrics: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    samples: int = 0
    sessions: Counter[tuple[SessionKind, str]] = field(default_factory=Counter)
    lost: dict[str, int] = field(default_factory=dict)


class WaitSlices(CountedSlices[_Waits, Counted]):
    """The slices of one block in which the servers' waits are counted."""

    kind, name, file, first_stream = "waits", "waits", WAITS_FILE, 3_000_000

    def __init__(self, counter: StartCounting | None, remote_load: bool) -> None:
        super().__init__(counter, remote_load)

    def _nothing(self) -> _Waits:
        return _Waits()

    def _add(self, counts: Counts[_Waits], found: Counted) -> None:
        """Sessions count in the measured part of the slice alone."""
        waits, record = counts.found, counts.slices[-1]
        for event, (count, time_us) in found.events.items():
            before = waits.events.get(event, (0, 0.0))
            waits.events[event] = (before[0] + count, before[1] + time_us)
        for name, use in found.locks.items():
            waits.locks[name] = use if name not in waits.locks else waits.locks[name].with_other(use)
        for metric, growth in found.metrics.items():
            waits.metrics[metric] += growth
        begin_s = record.started_unix_ns / 1e9
        for sample in found.samples:
            if begin_s <= sample.unix_s <= begin_s + record.length_s:
                waits.samples += 1
                waits.sessions.update(sample.activity)
        waits.lost |= found.lost

    def _totals(self, step: str, counts: Counts[_Waits]) -> WaitTotals:
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


def _events(counts: EventCounts, kind: WaitKind) -> tuple[EventTotal, ...]:
    found = [
        EventTotal(name=name, count=count, time_us=round(time_us, 3))
        for (of, name), (count, time_us) in counts.items()
        if of == kind
    ]
    return tuple(sorted(found, key=lambda one: (-one.time_us, one.name)))
