"""Canaries before each block: a host whose speed is outside its usual range is given time to recover.

The decision rests on the canary alone, never on a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import isnan

from mydyno.execution.environments.environment import Say, StudyEnvironment
from mydyno.hosts.canary import READINGS
from mydyno.model.stored.summary import CANARY_EVENT, CanaryDeviation
from mydyno.stats.canary import canary_outliers
from mydyno.store.study_folder import StudyFolder

ATTEMPTS = 3
PAUSE_S = 10.0
LEAST_SHARE = 0.05
"""A reading nearer to the median than this is never an outlier: three MADs of a few quiet readings are very little."""
LEAST_READINGS = 4


async def before_block(
    environment: StudyEnvironment, folder: StudyFolder, block: int, say: Say, pause_s: float = PAUSE_S
) -> None:
    """Read canaries until they agree with the session's earlier ones, at most ATTEMPTS times; each is kept."""
    for attempt in range(1, ATTEMPTS + 1):
        readings = await environment.canary()
        earlier = [event["readings"] for event in folder.journal.read() if event["event"] == CANARY_EVENT]
        off = out_of_line(earlier, readings)
        kept = {name: None if isnan(value) else value for name, value in readings.items()}
        folder.journal.append(
            CANARY_EVENT, block=block, attempt=attempt, readings=kept, off=[one.model_dump() for one in off]
        )
        if not off:
            return
        words = "; ".join(one.text for one in off)
        if attempt == ATTEMPTS:
            say(f"block {block} begins although the host's speed is outside its usual range: {words}")
            return
        say(f"waiting {pause_s:.0f} s because the host's speed is outside its usual range: {words}")
        await asyncio.sleep(pause_s)


def out_of_line(earlier: Sequence[dict[str, float | None]], now: dict[str, float]) -> list[CanaryDeviation]:
    """What is slower or faster than usual: beyond 3 MADs of the session's median (statistics, section 2)."""
    found = []
    for name, value in now.items():
        before = [reading for one in earlier if (reading := one.get(name)) is not None]
        if isnan(value):
            found.append(CanaryDeviation(reading=name, text=f"no reading of {READINGS[name].text}"))
            continue
        if len(before) + 1 < LEAST_READINGS or len(before) not in canary_outliers([*before, value]):
            continue
        usual = sorted(before)[len(before) // 2]
        if abs(value - usual) > LEAST_SHARE * usual:
            change = f"{value / usual - 1:+.0%} against the median of {len(before)} readings"
            found.append(CanaryDeviation(reading=name, text=f"{READINGS[name].text}, {change}"))
    return found
