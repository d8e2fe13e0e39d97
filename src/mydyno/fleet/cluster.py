"""Which host group executes which block, which attempt counts, and what each does now, in live.jsonl.

The journal is the truth: what is to do is rebuilt from it and the plan. A group that is lost takes no more blocks until
it is added again, and its block is leased again, to whichever group is free. Only the attempt issued last may be
committed: a copy that arrives late from a group that was thought lost is refused.

A group's block sends its state once a second, which is passed on to the study's watcher; the study's own state counts
the blocks that are finished.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Protocol

from mydyno import clock
from mydyno.errors import StudyError
from mydyno.evaluation.facts import Precision
from mydyno.execution.live import AnyWatcher, Live, live_precision, live_run
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.live import LiveSecond, LiveState
from mydyno.store.logs import Journal
from mydyno.store.study_folder import StudyFolder

MOST_WAITING_S = 900.0
"""Without any live group, for those that may return."""
LOOKS_EVERY_S = 0.5
"""For groups that are back."""
Work = Callable[[str, int], Awaitable[Any]]
"""(group, block) → result. Raises GroupLostError where another group must take the block."""
LEASED_EVENT, LOST_EVENT, COMMITTED_EVENT = "block_leased", "block_lost", "block_committed"
MOST_ATTEMPTS = 3
"""A block lost so often ends the study: what loses it is not the host."""


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


class Leases:
    """The blocks of one study."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._attempts: Counter[int] = Counter()
        self._lost_in_this_session: Counter[int] = Counter()
        self._losers: defaultdict[int, list[str]] = defaultdict(list)
        """The groups that lost a block in this session."""
        self._committed: set[int] = set()
        for event in journal.read():
            if event["event"] == LEASED_EVENT:
                self._attempts[event["block"]] = max(self._attempts[event["block"]], event["attempt"])
            elif event["event"] == COMMITTED_EVENT:
                self._committed.add(event["block"])

    def lease(self, block: int, group: str) -> int:
        """The number of the attempt, from 1. Raises StudyError for a block that was lost too often."""
        if self._lost_in_this_session[block] >= MOST_ATTEMPTS:
            raise StudyError(
                f"block {block} was lost {MOST_ATTEMPTS} times ({', '.join(self._losers[block])})",
                f"the journal says why (block_lost); then run: mydyno resume {self._journal.path.parent}",
            )
        self._attempts[block] += 1
        self._journal.append(LEASED_EVENT, block=block, attempt=self._attempts[block], group=group)
        return self._attempts[block]

    def lost(self, block: int, attempt: int, group: str, why: str) -> None:
        """The group does not deliver this attempt."""
        self._lost_in_this_session[block] += 1
        if group not in self._losers[block]:
            self._losers[block].append(group)
        self._journal.append(LOST_EVENT, block=block, attempt=attempt, group=group, why=why)

    def adopt(self, block: int, group: str) -> bool:
        """A block is in its place: journal it, unless it is already; the controller was killed in between then."""
        if block in self._committed:
            return False
        self.committed(block, self._attempts[block], group)
        return True

    def is_current(self, block: int, attempt: int) -> bool:
        """Whether this attempt may be committed."""
        return block not in self._committed and attempt == self._attempts[block]

    def committed(self, block: int, attempt: int, group: str) -> None:
        """The block's folder is in its place."""
        self._committed.add(block)
        self._journal.append(COMMITTED_EVENT, block=block, attempt=attempt, group=group)


class FleetWatcher(AnyWatcher, Protocol):
    """Receives the progress of all groups."""

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """What a group does now, or (lasting) a message of it."""

    def block_leased(self, group: str, block: int, of: int) -> None:
        """A group begins a block."""

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """A block is finished and saved; `made` of `of` are."""

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """A group does not take blocks any more, for good or until it can be reached again."""


class FleetLive(Live[FleetWatcher]):
    """Of a study over host groups."""

    _folder: StudyFolder | None = None
    _of: int | None = None

    def keep_in(self, folder: StudyFolder, plan: Plan, made: int, resumed: bool) -> None:
        """Write to the folder's live.jsonl from now on; `made` blocks are finished."""
        self._folder, self._of = folder, len(plan.blocks)
        self._now.set(blocks=self._of, made=made)
        self._writer.open(folder.path, folder.name, plan, resumed)
        self._watcher.kept_in(folder.path)

    def blocks_begin(self, made: int, of: int, left_s: float | None) -> None:
        """The groups execute blocks from here on."""
        self._of = of
        self._remaining.begins(made, of, left_s)
        self._now.set(state="hosts", blocks=of, made=made)

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """Keep a message of a group."""
        if lasting:
            self._writer.note(f"{group}: {text}")
        self._watcher.group_says(group, text, lasting)

    def group_second(self, group: str, second: LiveSecond) -> None:
        """A line for what the group's block does; the time is this host's."""
        mine = {"group": group, "blocks": self._of, "left_s": None, "unix_ns": clock.unix_ns()}
        self._writer.append(second.model_copy(update=mine))

    def block_leased(self, group: str, block: int, of: int) -> None:
        """The group prepares the block."""
        self._group(group, "starting", block)
        self._watcher.block_leased(group, block, of)

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """Lines for the block's runs and for the precision."""
        self._remaining.ended()
        self._now.set(made=made, blocks=of)
        assert self._folder is not None
        for run in self._folder.runs():
            if run.block == block:
                self._writer.append(live_run(run))
        if precision is not None:
            self._writer.append(live_precision(precision))
        self._group(group, "waiting")
        self._watcher.block_committed(group, block, made, of, precision)

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """Keep why."""
        self._group(group, "lost")
        self._writer.note(f"{group} is lost: {why}")
        self._watcher.group_lost(group, why, for_good)

    def _group(self, group: str, state: LiveState, block: int | None = None) -> None:
        self._writer.append(LiveSecond(unix_ns=clock.unix_ns(), group=group, state=state, block=block, blocks=self._of))
