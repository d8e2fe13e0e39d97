"""A block's turn on its host: an earlier block of the same study may still be undoing its changes.

A controller that lost its connection, or was killed and resumed, is back within seconds; the block that it left behind
ends with its connection, or when it has been silent for too long, and stops its servers first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

from mydyno.errors import HostError, StudyError
from mydyno.fleet.messages import GRACE_S, SILENCE_S
from mydyno.hosts.lock import CLEANING, lock_holder, study_lock

MOST_WAITING_S = SILENCE_S + GRACE_S
"""An earlier block notices that it was left, and undoes everything."""
MOST_UNKNOWN_S = 10.0
"""The holder does not answer: it may just have released the lock."""
STEP_S = 0.5


@asynccontextmanager
async def own_turn(
    study: str,
    address: str,
    say: Callable[[str], None],
    *,
    most_waiting_s: float = MOST_WAITING_S,
    most_unknown_s: float = MOST_UNKNOWN_S,
) -> AsyncIterator[None]:
    """Hold the host's lock, after an earlier block of this study, or `mydyno clean`, has released it.

    Raises HostError for another study, StudyError if the earlier block does not end.
    """
    began_s = time.monotonic()
    said = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(study_lock(study, address))
                break
            except HostError as error:
                holder, waited_s = lock_holder(address), time.monotonic() - began_s
                if holder is not None and holder.study in {study, CLEANING}:
                    if waited_s >= most_waiting_s:
                        words = f"an earlier process still holds this host after {most_waiting_s:.0f} s: {holder}"
                        raise StudyError(words) from error
                elif (holder is not None and holder.pid) or waited_s >= most_unknown_s:
                    raise
            if not said:
                say("waiting for an earlier block of this study to end")
                said = True
            await asyncio.sleep(STEP_S)
        yield
