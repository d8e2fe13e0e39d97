"""How the time of a mutex or read-write lock is spread over its instances: one hot lock, or many.

An instrument such as wait/synch/mutex/innodb/buf_pool_mutex stands for all mutexes of this kind. Servers count waits by
instance for all threads together, background threads included, so only shares are taken from here; what the load's
threads wait is in the summaries by user. The table is emptied when counting begins. Reading it takes the server a pass
over all its locks, while it is not loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.servers.performance_schema import PS_PER_US
from mydyno.servers.sql import Control

_EMPTY = "TRUNCATE TABLE performance_schema.events_waits_summary_by_instance"
_READ = (
    "SELECT EVENT_NAME, COUNT(*), SUM(SUM_TIMER_WAIT), MAX(SUM_TIMER_WAIT) "
    "FROM performance_schema.events_waits_summary_by_instance WHERE SUM_TIMER_WAIT > 0 AND "
    "(EVENT_NAME LIKE 'wait/synch/mutex/%' OR EVENT_NAME LIKE 'wait/synch/rwlock/%' "
    "OR EVENT_NAME LIKE 'wait/synch/sxlock/%' OR EVENT_NAME LIKE 'wait/synch/prlock/%') GROUP BY EVENT_NAME"
)


@dataclass(frozen=True)
class LockUse:
    """The instances of one instrument on which any thread waited."""

    instances: int
    time_us: float
    hottest_us: float
    """Waiting time at the instance with the longest one."""

    def with_other(self, other: LockUse) -> LockUse:
        """Together with another slice, or another server, in which another instance may have been the hottest."""
        return LockUse(
            max(self.instances, other.instances), self.time_us + other.time_us, self.hottest_us + other.hottest_us
        )


async def forget_instances(control: Control) -> None:
    """Begin counting by instance from 0. Raises ServerError."""
    await control.rows(_EMPTY)


async def read_instances(control: Control) -> dict[str, LockUse]:
    """{instrument: its instances} since forget_instances(). Raises ServerError."""
    return {
        str(name): LockUse(int(instances), float(time) / PS_PER_US, float(hottest) / PS_PER_US)
        for name, instances, time, hottest in await control.rows(_READ)
    }
