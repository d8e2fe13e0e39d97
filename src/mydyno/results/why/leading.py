"""What leads in a contrast of waits, of the kernel view, or of CPU profiles: the difference that reports name first."""

from __future__ import annotations

from mydyno.model.stored.kernel import MEASURES, KernelContrast, KernelRow
from mydyno.model.stored.profiles import FrameRecord, ProfileContrast
from mydyno.model.stored.waits import WaitRecord, WaitsContrast


def leading_wait(contrast: WaitsContrast) -> WaitRecord | None:
    """The class of waits with the largest difference beyond noise; without one, the stage; or an event."""
    shown = [one for one in contrast.events if one.beyond_noise]
    classes = [one for one in shown if one.is_class]
    stages = [one for one in shown if one.kind == "stage"]
    events = [one for one in shown if one.of_class]
    return next(iter([*classes, *stages, *events]), None)


def leading_time(contrast: KernelContrast) -> KernelRow | None:
    """The largest difference beyond noise of what transactions wait for; without one, of another time."""
    shown = [one for one in contrast.rows if one.beyond_noise and one.arm_us is not None]
    waited_for = [one for one in shown if MEASURES[one.measure].is_waited_for]
    return max(waited_for or shown, key=lambda one: abs(time_change_us(one)), default=None)


def time_change_us(one: KernelRow) -> float:
    """Arm less control; 0 of what has no duration."""
    return (one.arm_us or 0.0) - (one.control_us or 0.0)


def named_functions(contrast: ProfileContrast) -> list[FrameRecord]:
    """The functions beyond noise that are not explained by what they call; the largest difference first."""
    return [one for one in contrast.frames if one.beyond_noise and not one.explained]
