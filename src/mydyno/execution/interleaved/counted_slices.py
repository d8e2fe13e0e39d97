"""Slices of a block in which something is counted on the loaded servers: extra slices apart from the measured ones.

They follow the same cycles as profiled slices (profiled_slices.py), each lane once in random order, but are never the
same slices: one kind of counting would be in the figures of the other. Counts that fail are missing, with the reason,
and the block continues.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, StudyError
from mydyno.execution.counters.kernel_counter import Counting, KernelCounter
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.slices import Around, slice_record
from mydyno.hosts.tracing.bpftrace_output import added
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import PROFILE_EVERY
from mydyno.model.stored.kernel import KernelEvent, KernelTotals
from mydyno.model.stored.records import CountFacts, SliceRecord
from mydyno.model.stored.slices_apart import CountedTotals
from mydyno.servers.running.base import RunningServer
from mydyno.store.slices import CountedKind, totals_file, write_totals

FAILURES = (HostError, StudyError, OSError)

C = TypeVar("C")
"""What is kept of all slices of a lane at a step."""
F = TypeVar("F")
"""What was counted in one slice."""


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

    @property
    def loaded_s(self) -> float:
        """Length of the slices with their washout."""
        return round(sum(one.length_s + (one.washout_s or 0.0) for one in self.slices), 6)

    def common(self, step: str) -> dict[str, Any]:
        """The fields that all kinds of totals have."""
        return {
            "step": step,
            "slices": len(self.slices),
            "transactions": self.transactions,
            "loaded_s": self.loaded_s,
        }

    def reasons(self) -> str:
        """Why slices are missing; empty: none is."""
        if not self.slices and not self.missing:
            return "no slice was counted"
        return "; ".join(dict.fromkeys(self.missing))


class CountedSlices(ABC, Generic[C, F]):
    """All such slices of one block. Without something that counts none is due."""

    kind: CountedKind

    def __init__(
        self,
        counter: Callable[[Sequence[RunningServer]], Counting[F]] | None,
        remote_load: bool,
        nothing: Callable[[], C],
        added: Callable[[C, F, SliceRecord], C],
    ) -> None:
        self.records: list[SliceRecord] = []
        self._counter = counter
        self._remote_load = remote_load
        self._nothing = nothing
        self._added = added
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
            found: F | None = None
            try:
                parts = await lane.slice(step, order)
            finally:
                try:
                    found = await counting.end()
                except FAILURES as error:
                    counts.missing.append(str(error))
            if not parts or found is None:
                continue
            planned, around = lane.planned, Around(remote_load=self._remote_load)
            record = slice_record(
                step, planned.block, cycle, position, planned.arm, planned.copy_number, parts, around
            ).model_copy(update={"washout_s": order.washout_s, "profiled": True})  # fmt: skip
            counts.slices.append(record)
            self.records.append(record)
            counts.found = self._added(counts.found, found, record)

    def save(self, lane: Lane) -> tuple[CountFacts, ...]:
        """Write what was counted of a lane, a file for each step, describe it, and forget it."""
        counted = self._counts.pop(lane.planned.folder, {})
        return tuple(self._saved(step, counts, lane.folder) for step, counts in counted.items())

    def _saved(self, step: str, counts: Counts[C], folder: Path) -> CountFacts:
        file = totals_file(self.kind, step) if counts.slices else ""
        if file:
            write_totals(folder / file, self.totals(step, counts))
        return CountFacts(
            step=step,
            file=file,
            slices=len(counts.slices),
            transactions=counts.transactions,
            missing=counts.reasons(),
        )

    @abstractmethod
    def totals(self, step: str, counts: Counts[C]) -> CountedTotals:
        """What the file of a step holds."""


Events = tuple[KernelEvent, ...]


class KernelSlices(CountedSlices[Events, Events]):
    """All such slices of one block. Without a counter none is due."""

    kind = "kernel"

    def __init__(self, counter: KernelCounter | None, remote_load: bool) -> None:
        super().__init__(None if counter is None else counter.start, remote_load, nothing=tuple, added=_added)
        self._kernel = counter

    def totals(self, step: str, counts: Counts[Events]) -> KernelTotals:
        """The events of a step, and what traced them."""
        assert self._kernel is not None
        return KernelTotals(
            **counts.common(step),
            tracer=self._kernel.version,
            absent=dict(self._kernel.absent),
            events=counts.found,
        )


def _added(before: Events, more: Events, _slice: SliceRecord) -> Events:
    return added(before, more)
