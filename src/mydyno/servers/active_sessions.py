"""What the load's sessions are doing, sampled: their state, and the wait event that they are in.

One query each SAMPLE_S on a connection of its own, of performance_schema.threads and events_waits_current: neither
takes a lock of the server, unlike the process list. Sessions in the command Sleep wait for the client: not active.
A session that is active without a wait event runs, waits for a CPU, or waits for what has no instrument.

Wrong when the host is so busy that samples come late: they are as many fewer, and their times are kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from mydyno import clock
from mydyno.model.stored.waits import SessionKind
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.sql import Control

SAMPLE_S = 0.1
CURRENT_WAITS = "events_waits_current"
"""The consumer that keeps the wait event of each thread."""
_QUERY = (
    "SELECT THREAD_ID, PROCESSLIST_STATE, NULL, 0 FROM performance_schema.threads "
    "WHERE PROCESSLIST_USER = %s AND PROCESSLIST_COMMAND <> 'Sleep' UNION ALL "
    "SELECT THREAD_ID, NULL, EVENT_NAME, EVENT_ID FROM performance_schema.events_waits_current "
    "WHERE END_EVENT_ID IS NULL"
)

Activity = Mapping[tuple[SessionKind, str], int]
"""How many sessions are active ("active", ""), in a state ("state", name) or in a wait event ("wait", name)."""


@dataclass(frozen=True)
class SessionSample:
    """The load's sessions at one moment, of all servers of a run."""

    unix_s: float
    activity: Activity


def activity_of(rows: Sequence[tuple[Any, ...]]) -> Activity:
    """From the rows of one query: a session in nested wait events counts in the innermost."""
    states = {thread: str(state or "") for thread, state, event, _ in rows if event is None}
    waits: dict[Any, tuple[int, str]] = {}
    for thread, _, event, number in rows:
        if event is not None and thread in states:
            waits[thread] = max(waits.get(thread, (-1, "")), (int(number), str(event)))
    found: Counter[tuple[SessionKind, str]] = Counter()
    for thread, state in states.items():
        found["active", ""] += 1
        found["state", state] += 1
        found["wait", waits.get(thread, (0, ""))[1]] += 1
    return found


class SessionSampler:
    """Samples a few servers from start() to stop()."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._servers = servers
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._samples: list[SessionSample] = []

    async def start(self) -> None:
        """Connect and sample from now on. Raises ServerError."""
        try:
            controls = [await self._stack.enter_async_context(server.control()) for server in self._servers]
        except BaseException:
            await self._stack.aclose()
            raise
        self._task = asyncio.create_task(self._sample(controls))

    async def stop(self) -> tuple[SessionSample, ...]:
        """All samples. Raises ServerError if sampling failed. Safe to call again."""
        task, self._task = self._task, None
        try:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        finally:
            await self._stack.aclose()
        return tuple(self._samples)

    async def _sample(self, controls: Sequence[Control]) -> None:
        due = time.monotonic()
        while True:
            found: Counter[tuple[SessionKind, str]] = Counter()
            for control in controls:
                found.update(activity_of(await control.rows(_QUERY, LOAD_USER)))
            self._samples.append(SessionSample(clock.unix_ns() / 1e9, found))
            due = max(due + SAMPLE_S, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
