"""What waits, the kernel view and CPU profiles have in common: slices of their own, apart from the measured ones.

Frozen; no I/O.
"""

from __future__ import annotations

from pydantic import Field

from mydyno.model.frozen_record import Record
from mydyno.model.stored.obstacles import Alarm


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
