"""Waiting for a quieter host before a cycle, and for a server to finish its deferred work after a slice.

No decision here sees a result: it rests on the CPU time of processes that are not part of the study, and of servers
that are not loaded. The time spent waiting is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median

from mydyno.hosts.quiet import HostCpu

LOOK_S = 0.1
MOST_STRANGERS = 0.10
"""Share of the host's CPU time used by other programs, above which a cycle waits."""
MOST_DEFERRED = 0.15
"""CPUs that a server may still use after its slice (purge, flushing) without being waited for."""
LONGEST_DEFERRED_S = 0.5
DEFERRED_LOOK_S = 0.03
STEAL_PAUSE_S = 2.0
"""After a cycle in which the hypervisor took much more than in the cycles before."""
MOST_OF_THE_TIME = 0.10
"""Share of the study's time that may be spent waiting."""


class QuietWait:
    """The waiting of one block."""

    def __init__(
        self,
        longest_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.waited_s = 0.0
        self._longest_s = longest_s
        self._now, self._sleep = now, sleep
        self._begun_s = now()
        self._steal: list[float] = []
        self._steal_pause = False

    def note_steal(self, shares: Sequence[float | None]) -> None:
        """What the hypervisor took in the slices of the last cycle; much more than usual makes the next one wait."""
        known = [share for share in shares if share is not None]
        if not known:
            return
        mean = sum(known) / len(known)
        usual = median(self._steal) if self._steal else mean
        self._steal_pause = mean > 2 * usual + MOST_STRANGERS
        self._steal.append(mean)

    @property
    def _allowed_s(self) -> float:
        spent_s = self._now() - self._begun_s
        return min(self._longest_s, MOST_OF_THE_TIME * spent_s + 1.0 - self.waited_s)

    async def before_cycle(self, servers_cpu_s: float, servers_now: Callable[[], float]) -> None:
        """Wait while other programs use the CPUs, at most `design.quiet_wait`."""
        if self._steal_pause and self._allowed_s > 0:
            self.waited_s += await self._slept_s(min(STEAL_PAUSE_S, self._allowed_s))
            self._steal_pause = False
            servers_cpu_s = servers_now()
        deadline_s = self._now() + max(0.0, self._allowed_s)
        while self._now() < deadline_s:
            before = HostCpu.read()
            slept_s = await self._slept_s(LOOK_S)
            used = HostCpu.read().since(before)
            now_s = servers_now()
            others_s = used.busy_s - max(0.0, now_s - servers_cpu_s)
            servers_cpu_s = now_s
            if used.total_s <= 0 or others_s / used.total_s <= MOST_STRANGERS:
                return
            self.waited_s += slept_s

    async def after_slice(self, server_cpu_s: Callable[[], float]) -> None:
        """Wait while the server that was loaded is still busy, at most half a second; with waiting off, never."""
        if self._longest_s <= 0:
            return
        waited_s = 0.0
        before_s = server_cpu_s()
        while waited_s < LONGEST_DEFERRED_S:
            slept_s = await self._slept_s(DEFERRED_LOOK_S)
            waited_s += slept_s
            now_s = server_cpu_s()
            if (now_s - before_s) / slept_s <= MOST_DEFERRED:
                self.waited_s += waited_s - slept_s
                return
            before_s = now_s
        self.waited_s += waited_s

    async def _slept_s(self, wanted_s: float) -> float:
        """Sleep, and return how long it really took: much more on a busy host."""
        began_s = self._now()
        await self._sleep(wanted_s)
        return self._now() - began_s
