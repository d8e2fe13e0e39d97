"""What summary.json has of CPU profiles: where the servers spend their CPU time, and what differs. Frozen; no I/O."""

from __future__ import annotations

from pydantic import Field

from mydyno.model.frozen_record import Record
from mydyno.model.stored.records import ProfileMethod
from mydyno.model.stored.slices_apart import SlicesApart


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


class ProfileContrast(Record):
    """The profiles of an arm and of its control at one step."""

    step: str
    arm: str
    control: str
    blocks: int
    """Blocks with a profile of both arm and control."""
    control_us: float
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
