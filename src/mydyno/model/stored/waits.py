"""What is stored of waits: what the servers' threads waited for, per transaction, and what differs. Frozen; no I/O.

Times are those of performance_schema, of the load's own threads alone, in slices of their own.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty
from mydyno.model.stored.slices_apart import CountedContrast, CountedTotals, SlicesApart

WAITS_FORMAT = 1
ROW_LOCKS = "wait/lock/innodb/row"
"""The name that row lock waits get here: no instrument covers them; Innodb_row_lock_time does."""

CLIENT = "client and network"
"""The class of the time in which a connection has no statement under way: the server waits for the next one. No
instrument covers it; it is the connection's time less that of its statements."""

WaitKind = Literal["wait", "stage", "statement"]
SessionKind = Literal["active", "state", "wait"]
"""What is recorded of a session: that it is active, its state, or the wait event that it is in."""
AmountKind = Literal["active", "state", "wait", "metric"]
WAIT_CLASSES = {
    "wait/lock/innodb/": "row locks",
    "wait/lock/": "table and metadata locks",
    "wait/synch/mutex/": "mutexes",
    "wait/synch/rwlock/": "read-write locks",
    "wait/synch/sxlock/": "read-write locks",
    "wait/synch/prlock/": "read-write locks",
    "wait/synch/cond/": "condition variables",
    "wait/io/file/": "file I/O",
    "wait/io/socket/": "network",
}
"""Beginning of an event's name → its class; the first that fits. None of the events of these classes contains another's
time, apart from metadata locks, which contain a condition variable's."""


def wait_class(name: str) -> str:
    """The class of a wait event; "" for one that is not a wait (a stage, a statement) or is in none of them."""
    return next((of for begin, of in WAIT_CLASSES.items() if name.startswith(begin)), "")


class EventTotal(Record):
    """How often an event occurred, and for how long altogether."""

    name: str
    """An instrument's name; of a statement its digest text."""
    count: int
    time_us: float


class LockTotal(Record):
    """The instances of one mutex or read-write lock, of all threads of the server."""

    name: str
    instances: int
    """Instances on which any thread waited, in the slice with most of them."""
    time_us: float
    hottest_us: float
    """Waiting time at the instance with the longest one, summed over the slices."""


class SessionTotal(Record):
    """How often something was seen: once for each sample of each session."""

    kind: SessionKind
    name: str = ""
    """A state; of kind wait an event, empty for an active session in none; of kind active empty."""
    count: int


class MetricTotal(Record):
    """The growth of a counter of information_schema.innodb_metrics."""

    name: str
    count: float


class WaitTotals(CountedTotals):
    """waits/STEP.json: what the servers of one run waited for at one step, in all slices with instruments together."""

    format: int = WAITS_FORMAT
    waits: tuple[EventTotal, ...] = ()
    stages: tuple[EventTotal, ...] = ()
    statements: tuple[EventTotal, ...] = ()
    locks: tuple[LockTotal, ...] = Field((), exclude_if=is_empty)
    samples: int = 0
    """Moments at which the load's sessions were sampled, washout excluded."""
    sessions: tuple[SessionTotal, ...] = Field((), exclude_if=is_empty)
    metrics: tuple[MetricTotal, ...] = Field((), exclude_if=is_empty)
    lost: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """Performance_schema_…_lost since the server's start, as far as it is not 0."""


class LockInstances(Record):
    """The instances of a mutex or read-write lock: whether one of them is hot."""

    instances: int
    """Instances on which any thread waited."""
    hottest: float
    """Share of their time that was of one instance."""


LONGEST_NAME = 90


class WaitRecord(Record):
    """One event, or all events of a class; times and counts are per transaction."""

    kind: WaitKind
    name: str
    """Name of the event; for a class, the name of the class."""
    of_class: str = ""
    """The class of a wait event; empty for a class itself, a stage or a statement."""
    control_us: float
    arm_us: float
    control_count: float
    arm_count: float
    low_us: float | None = None
    high_us: float | None = None
    """Interval of arm_us − control_us, simultaneous over all events, classes, arms and steps of the study."""
    beyond_noise: bool = False
    """The interval excludes 0, and the control's two copies do not differ in any event."""
    control_lock: LockInstances | None = Field(None, exclude_if=is_empty)
    arm_lock: LockInstances | None = Field(None, exclude_if=is_empty)

    @property
    def is_class(self) -> bool:
        """Whether it is the sum of a class."""
        return self.kind == "wait" and not self.of_class

    @property
    def label(self) -> str:
        """The name without what a table's column or the sentence states; a long statement is cut."""
        name = self.name.removeprefix("stage/").removeprefix("sql/") if self.kind == "stage" else self.name
        return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"

    @property
    def change_us(self) -> float:
        """Arm less control."""
        return self.arm_us - self.control_us


class AmountRecord(Record):
    """A mean number of active sessions, or a counter of InnoDB per transaction."""

    kind: AmountKind
    name: str = ""
    """A state, a class of waits (empty: in no wait event), a counter; of all active sessions empty."""
    control: float
    arm: float
    low: float | None = None
    high: float | None = None
    """Interval of arm − control, simultaneous with those of the events."""
    beyond_noise: bool = False


class WaitsContrast(CountedContrast):
    """The waits of an arm and of its control at one step."""

    events: tuple[WaitRecord, ...] = ()
    """Events beyond noise first, the largest difference first; then the rest, the largest first."""
    sessions: tuple[AmountRecord, ...] = Field((), exclude_if=is_empty)
    """All active ones; then their states and the classes of their waits, the largest first."""
    metrics: tuple[AmountRecord, ...] = Field((), exclude_if=is_empty)
    """Only counters that differ beyond noise, the largest relative difference first."""
    metrics_compared: int = 0


class WaitsRecord(SlicesApart):
    """The waits of a study. They are counted in slices of their own, which enter no effect."""

    contrasts: tuple[WaitsContrast, ...] = ()
    samples: int = 0
    """Moments at which sessions were sampled."""
    lost: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """Objects that performance_schema could not count because it had no room for them, the most of any run."""
