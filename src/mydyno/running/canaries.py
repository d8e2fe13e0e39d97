"""Canaries before each block: a host that is not itself is given time before anything is measured on it.

The decision rests on the canary alone, never on a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import isnan

from mydyno.hosts.canary import READINGS
from mydyno.model.records import CANARY_EVENT
from mydyno.running.bench import Bench, Say
from mydyno.stats.canary import canary_outliers
from mydyno.store.study_folder import StudyFolder

ATTEMPTS = 3
PAUSE_S = 10.0
LEAST_SHARE = 0.05
"""A reading nearer to the median than this is never out of line: three MADs of a few quiet readings are nothing."""
LEAST_READINGS = 4


async def before_block(bench: Bench, folder: StudyFolder, block: int, say: Say, pause_s: float = PAUSE_S) -> None:
    """Read canaries until they are in line with the session's earlier ones, ATTEMPTS times at most; each is kept."""
    for attempt in range(1, ATTEMPTS + 1):
        readings = await bench.canary()
        earlier = [event["readings"] for event in folder.journal.read() if event["event"] == CANARY_EVENT]
        off = out_of_line(earlier, readings)
        kept = {name: None if isnan(value) else value for name, value in readings.items()}
        folder.journal.append(CANARY_EVENT, block=block, attempt=attempt, readings=kept, off=off)
        if not off:
            return
        words = "; ".join(off)
        if attempt == ATTEMPTS:
            say(f"block {block} begins on a host that is not itself: {words}")
            return
        say(f"waiting {pause_s:.0f} s, for the host is not itself: {words}")
        await asyncio.sleep(pause_s)


def out_of_line(earlier: Sequence[dict[str, float | None]], now: dict[str, float]) -> list[str]:
    """What is slower or faster than usual, in words: beyond 3 MADs of the session's median (statistics, section 2)."""
    found = []
    for name, value in now.items():
        before = [reading for one in earlier if (reading := one.get(name)) is not None]
        if isnan(value):
            found.append(f"no reading of {READINGS[name]}")
            continue
        if len(before) + 1 < LEAST_READINGS or len(before) not in canary_outliers([*before, value]):
            continue
        usual = sorted(before)[len(before) // 2]
        if abs(value - usual) > LEAST_SHARE * usual:
            found.append(f"{READINGS[name]}, {value / usual - 1:+.0%} against the median of {len(before)} readings")
    return found
