"""What precedes a cycle: waiting for a quieter host, and the order of its slices. After a slice: waiting for a server
to finish its deferred work.

No decision here sees a result: it rests on the CPU time of processes that are not part of the study, and of servers
that are not loaded. The time spent waiting is counted.

The order is balanced over the cycles of a block, and random: a Williams square (Australian Journal of Scientific
Research A 2 (1949)). In as many cycles as there are lanes, each one is at each position once, and follows each other
lane once; with an odd number of lanes in twice as many cycles. Waiting precedes a cycle, so that interference rises
with the position: chance alone would leave some arms later than others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
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


def balanced_order(lanes: int, cycle: int, name: str) -> list[int]:
    """The lanes 0 to `lanes` - 1 in the order of a cycle (from 1). `name` seeds which lane is which, and the cycles."""
    rows = _square(lanes)
    square, row = divmod(cycle - 1, len(rows))
    random = Random(f"{name}-{square}")
    labels, order = random.sample(range(lanes), lanes), random.sample(range(len(rows)), len(rows))
    return [labels[place] for place in rows[order[row]]]


def _square(lanes: int) -> list[list[int]]:
    """The rows; of an odd number of lanes with their mirror images."""
    first = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(lanes)]
    rows = [[(place + shift) % lanes for place in first] for shift in range(lanes)]
    return rows + [row[::-1] for row in rows] * (lanes % 2 and lanes > 1)
