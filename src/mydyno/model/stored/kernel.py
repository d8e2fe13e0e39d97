"""What is stored of the kernel view: latencies and events of the kernel for the servers' threads. Frozen; no I/O.

They are counted by bpftrace in slices of their own, washout included.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from mydyno.model.frozen_record import Record
from mydyno.model.stored.slices_apart import CountedContrast, CountedTotals, SlicesApart

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
