"""What a capacity search found, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record


class CapacityRecord(Record):
    """The capacity of one arm at one step of a search: the load at which half of the slices meet the objective."""

    step: str
    arm: str
    metric: str
    limit_us: float
    of: Literal["rate", "connections"] = "rate"
    capacity: float
    """Transactions per second, or connections; the geometric mean over blocks."""
    tps: float | None = None
    """Transactions per second at that number of connections; None where the rate was searched, or no slice had it."""
    ci_low: float | None = None
    ci_high: float | None = None
    """t interval over blocks, at the confidence level of the study or its interim analysis, of this arm alone; None for
    one block.
    """
    blocks: int
    slices: int
    sigma: float
    """Standard deviation between slices of the log of the load that the server can carry, all arms together."""
    of_block: dict[int, float] = Field(default_factory=dict)
    """{block: capacity}; the control's is the mean of its two copies."""
    unbracketed: int = 0
    """Blocks in which all slices met the objective, or none: their capacity is unknown, and they do not count."""
    missed_by: dict[str, int] = Field(default_factory=dict)
    """{latency, throughput, errors, unfinished: slices that missed the objective first by this}."""
