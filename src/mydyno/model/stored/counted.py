"""What is counted or profiled in slices of its own, apart from the measured ones, and what differs. Frozen; no I/O.

Waits: what the servers' threads waited for, per transaction. Times are those of performance_schema, of the load's own
threads alone. The kernel view: latencies and events of the kernel for the servers' threads, counted by bpftrace,
washout included. CPU profiles: where the servers spend their CPU time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty
from mydyno.model.stored.reasons import Alarm
from mydyno.model.stored.records import ProfileMethod


class CountedTotals(Record):
    """What a file of counts begins with: those of the servers of one run at one step, in all slices together."""

    format: int = 1
    step: str
    slices: int
    transactions: int
    """From go to hold, washout included, as what is counted."""
    loaded_s: float
    """Length of these slices with their washout; times connections, the time that the load had."""


class CountedContrast(Record):
    """What was counted of an arm and of its control at one step."""

    step: str
    arm: str
    control: str
    blocks: int
    """Blocks in which both arm and control were counted."""
    control_us: float
    arm_us: float
    """What a transaction takes of a connection's time in these slices: connections × time / transactions."""


class SlicesApart(Record):
    """The slices of a study in which something is counted or profiled. They enter no effect."""

    slices: int = 0
    throughput_ratio: float | None = None
    """Transactions per second of these slices, divided by those of the measured slices before and after them."""
    throughput_low: float | None = None
    throughput_high: float | None = None
    """Its 95 % interval over blocks; None with fewer than two."""
    alarm: Alarm = None
    """Why no difference is claimed."""
    missing: tuple[str, ...] = Field(())
    """Why runs have nothing counted, each reason once."""


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


KERNEL_FORMAT = 1
SYSTEM_CALL = "system_call/"
"""Beginning of the measure of a system call; its name follows."""


@dataclass(frozen=True)
class Measure:
    """One thing that is measured."""

    label: str
    program: str
    """hosts/tracing/kernel_programs/PROGRAM.bt."""
    is_time: bool = True
    """False: it is counted alone."""
    is_waited_for: bool = False
    """Whether it is time of the threads that serve connections, so that transactions take longer by it."""


MEASURES = {
    "run_queue": Measure("run queue", "run_queue", is_waited_for=True),
    "run_queue_background": Measure("run queue, background", "run_queue"),
    "futex": Measure("futex waits", "futex", is_waited_for=True),
    "file_sync": Measure("fsync and fdatasync", "file_sync", is_waited_for=True),
    "block_read": Measure("block reads", "block_io", is_waited_for=True),
    "block_write": Measure("block writes", "block_io", is_waited_for=True),
    "block_flush": Measure("cache flushes of disks", "block_io", is_waited_for=True),
    "retransmits_from_server": Measure("TCP retransmits of the server", "retransmits", is_time=False),
    "retransmits_to_server": Measure("TCP retransmits of the load", "retransmits", is_time=False),
    "system_calls": Measure("system calls", "system_calls", is_time=False),
}
"""Name → what it is, in the order of tables. What each program measures is stated at its beginning."""


class Bucket(Record):
    """Events of a range of durations."""

    low_us: float
    high_us: float
    count: int


class KernelEvent(Record):
    """How often something occurred, and for how long altogether."""

    measure: str
    """A key of MEASURES, or SYSTEM_CALL and a name."""
    count: int
    time_us: float | None = None
    """None: it has no duration."""
    histogram: tuple[Bucket, ...] = ()


class KernelTotals(CountedTotals):
    """kernel/STEP.json: what was counted for the servers of one run at one step, in all of these slices together."""

    format: int = KERNEL_FORMAT
    tracer: str
    """Program and version."""
    absent: dict[str, str] = Field(default_factory=dict)
    """{program of MEASURES: why this kernel cannot run it}. Its measures are not among the events."""
    events: tuple[KernelEvent, ...] = ()


class KernelRow(Record):
    """One measure of an arm and of its control, per transaction."""

    measure: str
    control_count: float
    arm_count: float
    control_us: float | None = None
    arm_us: float | None = None
    """None: it is counted alone."""
    low_us: float | None = None
    high_us: float | None = None
    """Interval of arm_us − control_us, simultaneous over all measures, arms and steps of the study."""
    low_count: float | None = None
    high_count: float | None = None
    """The same of arm_count − control_count, of what is counted alone."""
    beyond_noise: bool = False
    """The interval excludes 0, and the control's two copies do not differ in any measure."""
    control_percentiles_us: dict[str, float] = Field(default_factory=dict)
    arm_percentiles_us: dict[str, float] = Field(default_factory=dict)
    """p50, p95 and p99 of single events, from histograms whose buckets double; empty without events."""

    @property
    def is_system_call(self) -> bool:
        """Whether it counts one system call."""
        return self.measure.startswith(SYSTEM_CALL)

    @property
    def label(self) -> str:
        """The measure as reports name it; a system call's own name."""
        return f"{self.measure.removeprefix(SYSTEM_CALL)}()" if self.is_system_call else MEASURES[self.measure].label

    @property
    def change_us(self) -> float:
        """Arm less control; 0 of what has no duration."""
        return (self.arm_us or 0.0) - (self.control_us or 0.0)


class KernelContrast(CountedContrast):
    """The kernel's events of an arm and of its control at one step."""

    rows: tuple[KernelRow, ...] = ()
    """Measures in the order of MEASURES, then system calls, the most frequent first."""


class KernelRecord(SlicesApart):
    """The kernel view of a study. It is taken in slices of its own, which enter no effect."""

    contrasts: tuple[KernelContrast, ...] = ()
    tracer: str = ""
    """Program and version."""
    absent: dict[str, str] = Field(default_factory=dict)
    """{program of MEASURES: why a kernel of the study cannot run it}."""


class FrameRecord(Record):
    """One function of the servers, or of the kernel for them; times are CPU time per transaction."""

    module: str
    """The program or library that it is in; kernel."""
    function: str
    control_us: float
    arm_us: float
    """With everything that it calls."""
    control_self_us: float
    arm_self_us: float
    """Without what it calls."""
    low_us: float | None = None
    high_us: float | None = None
    """Interval of arm_us − control_us, simultaneous over all functions of the study that are compared."""
    beyond_noise: bool = False
    """The interval excludes 0, and the control's two copies do not differ in any function."""
    explained: bool = False
    """Functions that it calls have at least four fifths of its difference, and are beyond noise."""

    @property
    def label(self) -> str:
        """The function with the program or library that it is in."""
        return f"{self.function} ({self.module})" if self.module else self.function

    @property
    def change_us(self) -> float:
        """Arm less control."""
        return self.arm_us - self.control_us


class ProfileContrast(CountedContrast):
    """The profiles of an arm and of its control at one step."""

    blocks: int
    """Blocks with a profile of both arm and control."""
    arm_us: float
    """The servers' CPU time per transaction in the profiled slices."""
    frames: tuple[FrameRecord, ...] = ()
    """Differences beyond noise that are not explained first, the largest first; then the rest, the largest first."""

    @property
    def leading(self) -> list[FrameRecord]:
        """The functions beyond noise that are not explained by what they call."""
        return [one for one in self.frames if one.beyond_noise and not one.explained]


class ProfilesRecord(SlicesApart):
    """The CPU profiles of a study. They are made in slices of their own, which enter no effect."""

    contrasts: tuple[ProfileContrast, ...] = ()
    profiler: str = ""
    event: str = ""
    frequency_hz: int = 0
    method: ProfileMethod = "perf"
    samples: int = 0
    waiting: float = 0.0
    """Share of the samples of threads that waited for a disk or a CPU, in no amount; method "proc" only."""
    lost_samples: int = 0
    cut_off: float = 0.0
    """Share of the samples whose stack does not reach the beginning of its thread."""
    unknown: float = 0.0
    """Share of the frames without a name."""
    unknown_modules: dict[str, float] = Field(default_factory=dict)
    """{module: share of its own frames without a name}, those with most such frames first."""
