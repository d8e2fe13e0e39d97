"""Waiting for a quieter host: decided by steal and by other programs, bounded, and counted."""

from __future__ import annotations

import time
from functools import partial
from itertools import count

import pytest

from mydyno.execution.interleaved import cycle
from mydyno.execution.interleaved.cycle import QuietWait

OWN_WORK = partial(next, count(1e9, 1e9))
"""CPU seconds of the servers: whatever this host's CPUs do meanwhile counts as theirs."""


async def test_a_cycle_waits_after_one_with_far_more_steal_than_usual() -> None:
    waiting = QuietWait(5.0)
    for share in (0.02, 0.03, 0.02):
        waiting.note_steal([share, share])
        await waiting.before_cycle(0.0, OWN_WORK)
    assert waiting.waited_s == 0
    waiting.note_steal([0.4, 0.5])
    await waiting.before_cycle(0.0, OWN_WORK)
    assert 0 < waiting.waited_s <= cycle.STEAL_PAUSE_S


async def test_sleeps_count_with_the_time_that_they_really_took() -> None:
    now = [100.0]

    async def late(wanted_s: float) -> None:
        now[0] += 4 * wanted_s  # the host is busy

    waiting = QuietWait(60.0, now=lambda: now[0], sleep=late)
    working = iter([0.0, 0.1, 0.2, 0.2])
    await waiting.after_slice(lambda: next(working))  # 0.1 s of CPU time in 0.12 s, twice
    assert waiting.waited_s == pytest.approx(0.24)
    now[0] += 3600.0
    for share in (0.02, 0.9):
        waiting.note_steal([share])
    await waiting.before_cycle(0.0, OWN_WORK)
    assert waiting.waited_s == pytest.approx(0.24 + 4 * cycle.STEAL_PAUSE_S)


async def test_with_no_wait_allowed_none_is_made() -> None:
    waiting = QuietWait(0.0)
    for share in (0.02, 0.5):
        waiting.note_steal([share])
    await waiting.before_cycle(0.0, lambda: 0.0)
    await waiting.after_slice(time.monotonic)  # a server that never stops working
    assert waiting.waited_s == 0


async def test_a_server_that_goes_on_working_after_its_slice_is_waited_for() -> None:
    waiting = QuietWait(5.0)
    busy = iter([0.0, 0.03, 0.06, 0.06, 0.06])
    await waiting.after_slice(lambda: next(busy))
    assert 0.05 < waiting.waited_s < 0.2
