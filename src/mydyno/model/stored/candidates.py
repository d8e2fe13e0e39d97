"""What is stored of candidates: what changed together with an effect, and far enough for it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from mydyno.model.frozen_record import Record

CandidateKind = Literal["cost", "wait", "stage", "kernel", "function"]
"""Where it was found: a counter divided by transactions, a class of waits or an event, a stage of statements, a time in
the kernel, or a function in the CPU profile."""


class CandidateRecord(Record):
    """Something that accompanied an effect: a candidate for its cause, never a cause."""

    metric: str
    step: str
    arm: str
    control: str
    kind: CandidateKind
    name: str
    """A key of COSTS; the name of a WaitRecord, of a measure of the kernel, or of a FrameRecord's function."""
    module: str = ""
    """For a function, the program or library that contains it; empty otherwise."""
    explains: float
    """Share of the change of time per operation that this change accounts for, or can at most; 1 is all of it."""
    measured: bool
    """Whether `explains` is from time that was measured; otherwise from the longest time that one event usually takes.
    """
