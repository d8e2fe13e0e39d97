"""Which host group executes which block.

Nothing of it is kept: what is to do is rebuilt from the plan and the journal. A group that is lost takes no more blocks
until it is added again, and its block goes to another one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from mydyno.errors import StudyError

MOST_WAITING_S = 900.0
"""Without any live group, for those that may return."""
LOOKS_EVERY_S = 0.5
"""For groups that are back."""
Work = Callable[[str, int], Awaitable[Any]]
"""(group, block) → result. Raises GroupLostError where another group must take the block."""


class GroupLostError(Exception):
    """A group takes no more blocks: connection lost, host full, version wrong, too many failures."""


class Cluster:
    """An async context manager around the groups' tasks: none is left when it ends."""

    def __init__(
        self,
        groups: Collection[str],
        work: Work,
        returning: Callable[[], Collection[str]] = tuple,
        say: Callable[[str], None] = lambda _: None,
        study: Path = Path(),
        *,
        most_waiting_s: float | None = None,
    ) -> None:
        """`returning`: the lost groups that may be back, by add(). `say`: receives that they are waited for.

        `study`: the study's folder, for messages. `most_waiting_s` None: MOST_WAITING_S.
        """
        self._work = work
        self._returning = returning
        self._say = say
        self._study = study
        self._most_waiting_s = MOST_WAITING_S if most_waiting_s is None else most_waiting_s
        self._lonely_since_s: float | None = None
        """Since when no group is live."""
        self._live = dict.fromkeys(groups)
        self._flying: dict[asyncio.Task[Any], tuple[str, int]] = {}

    @property
    def live(self) -> list[str]:
        """Groups that take blocks."""
        return list(self._live)

    def add(self, name: str) -> None:
        """Let a group take blocks: a lost one that is back."""
        self._live[name] = None

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)
        self._flying.clear()

    async def map(self, blocks: Iterable[int]) -> AsyncIterator[tuple[int, Any]]:
        """(block, result) as they end. Raises StudyError when no group is left, and what the work raises.

        While no group is live, those that may return are waited for, for a limited time.
        """
        waiting = deque(blocks)
        while waiting or self._flying:
            busy = {group for group, _ in self._flying.values()}
            for group in [name for name in self._live if name not in busy][: len(waiting)]:
                block = waiting.popleft()
                self._flying[asyncio.ensure_future(self._work(group, block))] = (group, block)
            self._check_live()
            if self._flying:
                await asyncio.wait(self._flying, timeout=LOOKS_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(LOOKS_EVERY_S)
            for task in [task for task in self._flying if task.done()]:
                group, block = self._flying.pop(task)
                try:
                    result = task.result()
                except GroupLostError:
                    self._live.pop(group, None)
                    waiting.appendleft(block)
                else:
                    yield block, result

    def _check_live(self) -> None:
        """Raises StudyError if there is no live group, and none that is still to be waited for."""
        if self._live:
            self._lonely_since_s = None
            return
        returning = self._returning()
        if self._lonely_since_s is None and returning:
            names = ", ".join(sorted(returning))
            self._say(f"no host group is left: waiting up to {self._most_waiting_s / 60:.0f} min for {names}")
        now_s = time.monotonic()
        self._lonely_since_s = self._lonely_since_s or now_s
        if not returning or now_s - self._lonely_since_s >= self._most_waiting_s:
            raise StudyError(
                "every host group is lost; finished blocks are kept",
                f"when the hosts are back, run: mydyno resume {self._study}",
            )
