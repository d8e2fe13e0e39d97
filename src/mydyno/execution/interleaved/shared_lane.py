"""A lane whose server others load too: other lanes, and (an external one) its own users, whom a guard protects.

The guard of a server that others use: what it reads there while a slice loads it, and when it ends the slice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil

from mydyno.drivers.held import SliceOrder
from mydyno.errors import DriverError, HostError, ServerError, StudyError
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.slices import PartOfSlice
from mydyno.hosts.local import all_or_none
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import GuardSpec
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Control, server_code
from mydyno.workloads.reconcile import growth

MOST_ENDED = 3
"""Times in a row that the guard ends a slice before the arm has failed at that load level."""
STREAM_STEP = 7919
"""Between the streams of two lanes of a cycle: on the same data each does other operations."""
READINGS = 4
"""Of the counters, to know what one adds to them."""
LOOK_S = 0.025
WINDOW = 400
"""Looks over which the percentile of the statement is taken: the last ten seconds."""
STATUS_EVERY = 4
"""Looks from one reading of the server's status to the next: it costs the server more than the statement."""
CALM_S = 2.0
"""The server must have been within its limits for so long before it is loaded again."""
LONGEST_CALM_S = 120.0
SYNTAX = 1064
"""The server's code for a statement that it does not know."""
REPLICA = ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
LAG = ("Seconds_Behind_Source", "Seconds_Behind_Master")


@dataclass
class SharedLane(Lane):
    """One arm's part of a block whose server other lanes load too: its counters are those of its own slices."""

    number: int = 1
    """From 1, in the order of the block."""
    of_reading: dict[str, float] = field(default_factory=dict)
    """What one reading adds to the server's counters; empty: not measured yet."""
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
            await self.measure_reading(server)
            before = await server.counters()
            parts = await super().slice(step, order)
            grown = growth(before, await server.counters()) if parts else {}
        except ServerError as error:
            await self.step_failed(step, error)
            return []
        self.count(grown)
        return parts

    async def measure_reading(self, server: RunningServer) -> None:
        """What one reading of the counters adds to them: the least of some, since others may use the server."""
        if self.of_reading:
            return
        read = [await server.counters() for _ in range(READINGS)]
        pairs = [growth(first, second) for first, second in pairwise(read)]
        self.of_reading.update({name: min(pair[name] for pair in pairs if name in pair) for name in pairs[0]})

    def count(self, grown: Mapping[str, float]) -> None:
        """Add what the server counted, without what one reading of the counters adds to them."""
        for name, value in grown.items():
            self.counted[name] = self.counted.get(name, 0.0) + max(0.0, value - self.of_reading.get(name, 0.0))

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


class Guard:
    """Looks at one server, in a session of its own."""

    def __init__(
        self,
        spec: GuardSpec,
        server: RunningServer,
        look_s: float = LOOK_S,
        calm_s: float = CALM_S,
        longest_s: float = LONGEST_CALM_S,
    ) -> None:
        self._spec, self._server = spec, server
        self._look_s, self._calm_s, self._longest_s = look_s, calm_s, longest_s
        self._took_s: deque[float] = deque(maxlen=WINDOW)
        self._looks = 0
        self._status = ""
        """What the last reading of the status exceeded."""
        self._control: Control | None = None

    async def exceeded(self, ended: asyncio.Event) -> str:
        """Look until a limit is exceeded, and which; empty where the slice ended before. A server that does not answer
        exceeds every limit. To be awaited to its end: a statement that was given up would be answered to the next one.
        """
        while not ended.is_set():
            try:
                if words := await self.look():
                    return words
            except ServerError as error:
                await self.end()
                return error.message
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._look_s)
        return ""

    async def calm(self) -> bool:
        """Wait until nothing was exceeded for some time; whether that came to pass."""
        self._took_s.clear()
        began_s = calm_since_s = time.monotonic()
        while time.monotonic() - began_s < self._longest_s:
            if await self.look():
                calm_since_s = time.monotonic()
            elif time.monotonic() - calm_since_s >= self._calm_s:
                return True
            await asyncio.sleep(self._look_s)
        return False

    async def look(self) -> str:
        """What is exceeded now; empty: nothing. Raises ServerError."""
        control = self._control = self._control or await self._server.control().__aenter__()
        spec = self._spec
        began_s = time.monotonic()
        await control.rows(spec.statement)
        self._took_s.append(time.monotonic() - began_s)
        worst_s = sorted(self._took_s)[ceil(0.99 * len(self._took_s)) - 1]
        if spec.p99 is not None and worst_s > spec.p99:
            return f"p99 of the guard's statement is {1000 * worst_s:.3g} ms, more than {1000 * spec.p99:g} ms"
        if self._looks % STATUS_EVERY == 0:
            self._status = await self._read_status(control)
        self._looks += 1
        return self._status

    async def _read_status(self, control: Control) -> str:
        spec = self._spec
        if spec.threads_running is not None:
            ((_, running),) = await control.rows("SHOW GLOBAL STATUS LIKE 'Threads_running'")
            if int(running) > spec.threads_running:
                return f"Threads_running is {running}, more than {spec.threads_running}"
        if spec.replica_lag is not None:
            lag_s = await replica_lag_s(control)
            if lag_s is None or lag_s > spec.replica_lag:
                behind = "not replicating" if lag_s is None else f"{lag_s:g} s behind its source"
                return f"the server is {behind}, and at most {spec.replica_lag:g} s are allowed"
        return ""

    async def end(self) -> None:
        """Close the session."""
        if self._control is not None:
            await self._control.__aexit__()
            self._control = None


async def replica_lag_s(control: Control) -> float | None:
    """How far a replica is behind its source; None: it does not replicate. Raises ServerError."""
    for statement in REPLICA:
        try:
            records = await control.records(statement)
        except ServerError as error:
            if server_code(error) != SYNTAX:
                raise
            continue
        lags = [record.get(name) for record in records for name in LAG if name in record]
        known = [float(lag) for lag in lags if lag is not None]
        return max(known) if known and len(known) == len(lags) else None
    return None
