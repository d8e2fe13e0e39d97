"""How long each kind of transaction takes, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from mydyno.model.frozen_record import Record
from mydyno.model.stored.obstacles import Alarm


class OperationEffect(Record):
    """One type of TPC-C's transactions, or one name of a user's file: an arm against its control at one step.

    Times are mean service times: from the first statement to the last answer.
    """

    name: str
    step: str
    arm: str
    control: str
    control_us: float
    arm_us: float
    control_count: float
    """How often per transaction that ended."""
    arm_count: float
    ratio: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous over all names, arms and steps of the study."""
    beyond_noise: bool = False
    """The interval excludes 1, a look is due, and the control's two copies do not differ."""


class OperationsRecord(Record):
    """All of them."""

    effects: tuple[OperationEffect, ...]
    alarm: Alarm = None
    """Why no difference is claimed."""
