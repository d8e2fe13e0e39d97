"""Which group executes which block, and which attempt counts: the journal is the truth, this is a view of it.

A block that was lost is leased again, on whichever group is free. Only the attempt issued last may be committed: a copy
that arrives late from a group that was thought lost is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from mydyno.errors import StudyError
from mydyno.files.journal import Journal

LEASED_EVENT, LOST_EVENT, COMMITTED_EVENT = "block_leased", "block_lost", "block_committed"
MOST_ATTEMPTS = 3
"""A block lost so often ends the study: what loses it is not the host."""


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
