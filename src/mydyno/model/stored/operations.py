"""How long each kind of transaction takes, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty
from mydyno.model.stored.obstacles import Alarm
from mydyno.model.stored.records import Digest


class OperationChange(Record):
    """How another number of a name differs, as a ratio of the arm's to the control's."""

    ratio: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    beyond_noise: bool = False
    """As of OperationEffect."""


class OperationEffect(Record):
    """One type of TPC-C's transactions, one name of a user's file, or one digest of a capture: an arm against its
    control at one step.

    Times are mean service times, from the first statement to the last answer; of several runs their geometric mean, as
    ratios are.
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
    control_errors: float = Field(0.0, exclude_if=is_empty)
    """Share of its attempts that failed; they have no time."""
    arm_errors: float = Field(0.0, exclude_if=is_empty)
    control_rows: float | None = None
    """Of a statement: rows that one returned, or else changed; the mean."""
    arm_rows: float | None = None
    rows_exact: bool = False
    """Rows never varied within an arm: a difference between the arms does not depend on which were executed."""
    ratio: float | None
    """Of the times; its interval is simultaneous over all numbers of all names, arms and steps of the study."""
    ci_low: float | None = None
    ci_high: float | None = None
    beyond_noise: bool = False
    """The interval excludes 1, an interim analysis is due, and the control's two copies do not differ."""
    count: OperationChange | None = None
    """Of how often per transaction; this and the others: None where the number is the same in all runs of an arm."""
    success: OperationChange | None = None
    """Of the share of attempts that did not fail."""
    rows: OperationChange | None = None


class OperationsRecord(Record):
    """All of them."""

    effects: tuple[OperationEffect, ...]
    digests: dict[str, tuple[Digest, ...]] = Field(default_factory=dict, exclude_if=is_empty)
    """By step: what the names of a capture's digests stand for."""
    alarm: Alarm = None
    """Why no difference is claimed."""
