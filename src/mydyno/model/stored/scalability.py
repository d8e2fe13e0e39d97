"""How an arm's throughput grows with the connections, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty


class Estimate(Record):
    """A number with its interval, at the confidence level of the study or its interim analysis; None where blocks allow
    none.
    """

    value: float
    ci_low: float | None = None
    ci_high: float | None = None


class ResponsePoint(Record):
    """A point of the curve of mean response times that follows from the law, with the interval of this point."""

    connections: float
    mean_us: float
    ci_low_us: float | None = None
    ci_high_us: float | None = None


class ScalabilityRecord(Record):
    """The Universal Scalability Law of one arm over the steps of one workload that differ in connections alone.

    X(N) = serial × N / (1 + contention (N - 1) + coherency N (N - 1)).
    """

    workload: str
    steps: tuple[str, ...]
    arm: str
    metric: str
    """The throughput's metric."""
    blocks: int
    levels: tuple[int, ...]
    """Connections, ascending."""
    throughput: tuple[float, ...]
    """Geometric mean over blocks at each level, per second."""
    latency_us: tuple[float | None, ...] = ()
    """Geometric mean over blocks of the 99th percentile at each level; None where a block has none."""
    serial: Estimate
    contention: Estimate
    coherency: Estimate
    peak: Estimate | None = Field(None)
    """Connections of the highest throughput; None: throughput levels off, and has no peak."""
    lack_of_fit_p: float | None = None
    largest_deviation: float
    """The greatest |measured / fitted - 1| of a level."""
    fits: bool
    """Whether the levels may be read as this law: no lack of fit at 5 %, or no level further off than 5 %."""
    response: tuple[ResponsePoint, ...] = Field((), exclude_if=is_empty)
    """Transactions under way / throughput by the law, ascending. Empty if that is not the mean response time: think
    times, scripts of the user's own, a rate, TpmC; and in studies of earlier versions."""
    measured_response_us: tuple[float | None, ...] = Field((), exclude_if=is_empty)
    """With `response`: geometric mean over blocks of the mean latency at each level; None where a block has none."""
