"""The slices of a block in which the kernel's events are counted for the loaded servers."""

from __future__ import annotations

from mydyno.execution.counters.kernel_counter import KernelCounter
from mydyno.execution.interleaved.counted_slices import CountedSlices, Counts
from mydyno.hosts.tracing.bpftrace_output import added
from mydyno.model.stored.kernel import KernelEvent, KernelTotals
from mydyno.model.stored.records import SliceRecord

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
