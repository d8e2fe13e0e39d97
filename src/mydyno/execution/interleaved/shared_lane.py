"""A lane whose server others load too: other lanes, and (an external one) its own users, whom a guard protects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from mydyno.drivers.held import SliceOrder
from mydyno.errors import DriverError, HostError, ServerError, StudyError
from mydyno.execution.concurrency import all_or_none
from mydyno.execution.interleaved.guard import LONGEST_CALM_S, Guard
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.slices import PartOfSlice
from mydyno.model.definition.experiment import Step
from mydyno.workloads.reconcile import growth

MOST_ENDED = 3
"""Times in a row that the guard ends a slice before the arm has failed at that step."""
STREAM_STEP = 7919
"""Between the streams of two lanes of a cycle: on the same data each does other operations."""


@dataclass
class SharedLane(Lane):
    """One arm's part of a block whose server other lanes load too: its counters are those of its own slices."""

    number: int = 1
    """From 1, in the order of the block."""
    counted: dict[str, float] = field(default_factory=dict)
    """Growth of the server's counters over this lane's own slices of the current step."""
    guard: Guard | None = None
    """Where the experiment has one."""

    async def connect(self, step: Step) -> None:
        """Nothing is counted yet."""
        self.counted = {}
        spec = self.environment.experiment.guard
        if spec is not None and self.guard is None and self.instances:
            self.guard = Guard(spec, self.instances[0])
            await self._calm("before any load")
        await super().connect(step)

    async def _calm(self, words: str) -> None:
        assert self.guard is not None
        try:
            if not await self.guard.calm():
                hint = "its own users exceed the limit: choose another time, or another limit"
                raise StudyError(f"guard: {words}, and for {LONGEST_CALM_S:g} s without load", hint)
        except ServerError as error:
            raise HostError(f"guard: {error.message}", "the account must be permitted to execute this") from error

    async def slice(self, step: Step, order: SliceOrder) -> list[PartOfSlice]:
        """A slice, with the server's counters before and after; one that the guard ends is made again."""
        if not self.runs_step(step):
            return []
        own = replace(order, stream=order.stream + STREAM_STEP * self.number)
        words = ""
        for _ in range(MOST_ENDED):
            words, parts = await self._guarded_slice(step, own)
            if not words:
                return parts
            self.warnings.append(f"guard: slice {order.id} was ended: {words}")
        self.failed_steps[step.id] = f"the guard ended its slice {MOST_ENDED} times in a row: {words}"
        return []

    async def _guarded_slice(self, step: Step, order: SliceOrder) -> tuple[str, list[PartOfSlice]]:
        """The slice; or why the guard ended it, and then the server is calm again and the load disconnected."""
        if self.guard is None:
            return "", await self._counted_slice(step, order)
        if not self.loads and (words := await self._reconnect(step)):
            await self._calm(words)
            return words, []
        ended = asyncio.Event()
        loading = asyncio.ensure_future(self._counted_slice(step, order))
        loading.add_done_callback(lambda _: ended.set())
        looking = asyncio.ensure_future(self.guard.exceeded(ended))
        await asyncio.wait({loading, looking}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            for load in self.loads:
                load.interrupt()
        parts, words = await loading, await looking
        if not words:
            return "", parts
        self.failed_steps.pop(step.id, None)
        await all_or_none([load.end() for load in self.loads])  # where the slice had ended by itself
        self.loads = []
        await self._calm(words)
        return words, []

    async def _reconnect(self, step: Step) -> str:
        """Connect the load after a slice that the guard ended; why that failed."""
        try:
            self.loads = [await self._hold(instance, step) for instance in self.instances]
        except (DriverError, ServerError) as error:
            return f"not connected again: {error.message}"
        return ""

    async def _counted_slice(self, step: Step, order: SliceOrder) -> list[PartOfSlice]:
        (server,) = self.instances
        try:
            before = await server.counters()
            parts = await super().slice(step, order)
            grown = growth(before, await server.counters()) if parts else {}
        except ServerError as error:
            await self.step_failed(step, error)
            return []
        for name, value in grown.items():
            self.counted[name] = self.counted.get(name, 0.0) + value
        return parts

    async def stop(self) -> None:
        """End the load and the guard."""
        if self.guard is not None:
            await self.guard.end()
            self.guard = None
        await super().stop()

    async def disconnect(self, step: Step) -> dict[str, float]:
        """End the load program; how the server's counters grew over this lane's own slices."""
        await super().disconnect(step)
        return self.counted
