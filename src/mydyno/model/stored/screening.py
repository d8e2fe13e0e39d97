"""What a screening study found, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record


class ScreenedFactor(Record):
    """One variable: its main effect, the change of the metric from its first to its last value."""

    name: str
    first: str
    last: str
    ratio: float
    """Geometric mean over the runs with the last value, divided by that over the runs with the first one."""
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous over all variables of the step."""
    p: float | None = None
    """Adjusted for all variables of the step; None with one block."""
    active: bool
    """Whether the interval excludes 1."""
    aliases: tuple[str, ...] = ()
    """Interactions "A × B" that are aliased with this effect."""
    partial_aliases: int = 0
    """Interactions of two other variables of which a part is in this effect."""
    largest_part: float = 0.0
    """The largest of these parts: 0.33 is a third of the interaction."""


class ScreenRecord(Record):
    """The main effects on one metric at one step."""

    metric: str
    step: str
    runs: int
    """Runs of the design."""
    blocks: int
    """Blocks in which every run has a value; the others cannot be used."""
    lost_blocks: int = 0
    method: Literal["blocks", "lenth"]
    """What the noise is estimated from: differences between blocks, or (with one block) the small effects."""
    standard_error: float
    """Standard error of a main effect, on the scale of the log."""
    factors: tuple[ScreenedFactor, ...] = Field(min_length=1)
    """The variables, in the order of the experiment."""
    copies_differ: bool = False
    """Whether the two copies of the control differ: then no variable is called active."""
    follow_up: tuple[str, ...] = ()
    """The variables of the follow-up experiment, the largest effect first; empty: none is active."""
