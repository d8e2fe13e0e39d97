"""What the analyses find, as summary.json has it: candidates for causes, capacity, scalability, screened variables,
factors, kinds of transactions, statements of a capture, thresholds, published figures. Frozen; no I/O.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import OfContrast, Record, is_empty
from mydyno.model.stored.reasons import Alarm, ArmFailure, Fact
from mydyno.model.stored.records import Digest

CandidateKind = Literal["cost", "wait", "stage", "kernel", "function"]
"""Where it was found: a counter divided by transactions, a class of waits or an event, a stage of statements, a time in
the kernel, or a function in the CPU profile."""


class CandidateRecord(OfContrast):
    """Something that accompanied an effect: a candidate for its cause, never a cause."""

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


class FactorLevels(Record):
    """One factor: a setting in which the arms differ."""

    name: str
    levels: tuple[str, ...]
    base: str
    """The control's level, which the others are compared with."""
    values: tuple[float, ...] = ()
    """The levels of a quantitative factor as numbers above 0, from what the treatments set; empty for others."""
    unit: Literal["", "bit/s", "bytes"] = ""
    unreached: tuple[str, ...] = ()
    """Levels that this host did not reach in every run: they bound no change of sign."""


class FactorEffect(Record):
    """What a level of a factor does against the factor's base level, as a ratio.

    "main": the mean over all combinations of the other factors. "at": the mean over those with one level of another
    factor. "interaction": the ratio of the effect at that level to the one at the other factor's base level.
    """

    kind: Literal["main", "at", "interaction"]
    metric: str
    step: str
    factor: str
    level: str
    other: str = ""
    at: str = ""
    """The level of `other`; empty for a main effect."""
    n: int
    """Blocks that have all of its arms."""
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous over all of these effects of the study."""
    decided: bool = False
    """Whether the interval excludes 1, the effect exceeds the difference of the control's copies, and they agree."""


class FactorCrossing(Record):
    """Where the effect of a level changes its sign between two measured levels of a quantitative factor."""

    metric: str
    step: str
    factor: str
    level: str
    other: str
    """The quantitative factor."""
    high_level: str
    """The higher of its two levels, by their values, at which the effect is decided and has opposite signs."""
    value: float
    """Interpolated over the logarithm of the level, in its unit."""
    ci_low: float
    ci_high: float
    """Fieller's interval at the level of the simultaneous intervals: of the noise, not of the interpolation."""


class FactorsRecord(Record):
    """The factors whose full product the arms are, and what they do to the metrics with verdicts."""

    factors: tuple[FactorLevels, ...]
    effects: tuple[FactorEffect, ...] = ()
    crossings: tuple[FactorCrossing, ...] = ()

    def factor(self, name: str) -> FactorLevels:
        """The factor of this name. Raises StopIteration."""
        return next(one for one in self.factors if one.name == name)


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


StatementVerdict = Literal["slower", "faster", "equivalent", "open", "fails", "other_rows", "not_compared"]


class StatementInterval(Record):
    """Arm divided by control, with an interval that holds for all statements, arms and both metrics together."""

    control_us: float
    arm_us: float
    ratio: float
    ci_low: float | None = None
    ci_high: float | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether the interval excludes no change."""
        return self.ci_low is not None and self.ci_high is not None and (self.ci_low > 1.0 or self.ci_high < 1.0)


class StatementRecord(Record):
    """One digest: an arm against the control."""

    digest: str
    label: str
    """The digest, shortened so that it is recognised."""
    text: str
    example: str
    count: int
    """Statements of the capture with this digest."""
    writes: bool = False
    verdict: StatementVerdict
    why: str = ""
    """What differs, or why it was not compared."""
    notes: tuple[str, ...] = Field((), exclude_if=is_empty)
    """Other warnings and types of columns than the control's."""
    service: StatementInterval | None = None
    """Response time of the statement alone on its server."""
    cpu: StatementInterval | None = None
    """CPU time of the server's thread; None where it is unknown."""
    control_share: float | None = None
    """Of the control's time for all compared statements of the capture."""
    added_s: float | None = None
    """What the capture takes longer by this statement, s; negative: less."""
    plan_changed: bool = False
    plans: tuple[tuple[str, ...], tuple[str, ...]] = Field(((), ()), exclude_if=lambda plans: not any(plans))
    """One line for each table: of the control, of the arm; where the plan changed or the statement did."""
    executed: tuple[str, str] = Field(("", ""), exclude_if=lambda texts: not any(texts))
    """What EXPLAIN ANALYZE states of one execution (MariaDB: ANALYZE FORMAT=JSON) with the control and with the arm, of
    those that are slower; empty where the server has none."""
    counters: dict[str, tuple[int, int]] = Field(default_factory=dict, exclude_if=is_empty)
    """Counters of the session that differ, for one execution: of the control, of the arm."""
    rows_examined: tuple[int, int] | None = None
    """Rows that one execution reads: of the control, of the arm."""


class StatementsOfArm(Record):
    """All statements of one arm; those that cost most come first."""

    arm: str
    control: str
    statements: tuple[StatementRecord, ...]
    blocks: int = 0
    """Those with this arm and both copies of the control."""

    def having(self, *verdicts: StatementVerdict) -> list[StatementRecord]:
        """Those with one of these verdicts."""
        return [one for one in self.statements if one.verdict in verdicts]


class StatementsRecord(Record):
    """The comparison of a capture's statements."""

    arms: tuple[StatementsOfArm, ...]
    blocks: int
    margin: float
    executions: int
    """Of all statements on each server."""
    left_out: dict[str, tuple[int, int]] = Field(default_factory=dict, exclude_if=is_empty)
    """{why statements were not compared: (digests, statements of the capture)}."""
    unlike_controls: int = Field(0, exclude_if=is_empty)
    """Statements for which the control's two copies differ: nothing is claimed of them."""


Outcome = Literal["passed", "worse", "failed", "undecided"]
"""The result of a comparison with its limit; of a whole gate it is never failed."""
NoAnswer = Literal[
    "", "failure", "alarm", "no look", "no block", "lost", "no copy", "few blocks", "open", "lasts", "unmeasured"
]


class GateComparison(OfContrast):
    """One arm against its control at one step, and whether it is within its limit.

    Ratio and bounds are None where nothing may be examined, or there is nothing to examine.
    """

    limit: float
    """Arm divided by control that is just allowed."""
    outcome: Outcome
    n: int
    """Blocks."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """One-sided bounds of the ratio at the error rate, each alone: a limit below 1 is kept if `low` is above it."""
    arm_value: float | None = None
    """Geometric mean of the arm's values."""
    blocks_needed: int | None = None
    """About how many blocks in all decide it if the ratio is what it seems; None: not known, or decided."""
    why: NoAnswer = Field("", exclude_if=is_empty)
    """Why it has no answer, of which failure, alarm and lost are the facts."""
    failure: ArmFailure | None = Field(None, exclude_if=is_empty)
    alarm: Alarm = None
    lost: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """{reason: blocks that do not count}."""
    reason: str = Field("", exclude_if=is_empty)
    """Why it is undecided, or what failed, in words."""
    plain: float | None = Field(None, exclude_if=is_empty)
    """The ratio without the adjustment for the host's speed; None: nothing is adjusted."""


class GateRecord(Record):
    """What a study's thresholds decide: worse if any comparison is worse or failed, passed if all are."""

    outcome: Outcome
    comparisons: tuple[GateComparison, ...]
    obstacle: str = Field("", exclude_if=is_empty)
    """Why nothing, or not everything, may be examined: the study is interrupted, before its first look, not valid."""
    next_step: str = Field("", exclude_if=is_empty)
    """How long a decision takes, with the command for it; empty: decided, or not known."""
    needed_s: float | None = Field(None, exclude_if=is_empty)
    """Time of the further blocks, or of a new study, that a decision takes; None: not known, or too long to wait."""
    late: bool = Field(False, exclude_if=is_empty)
    """Whether thresholds were set that the study did not declare before its first run."""

    def having(self, outcome: Outcome) -> list[GateComparison]:
        """The comparisons with this outcome."""
        return [one for one in self.comparisons if one.outcome == outcome]


class PublishedEntry(Record):
    """One figure of a published study beside this study's effect."""

    study: str
    metric: str
    step: str
    arm: str
    control: str
    published_ratio: float
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    agreement: Literal["agrees", "partly", "disagrees", "cannot tell"]
    facts: tuple[Fact, ...] = ()
    """What the agreement rests on."""
    notes: tuple[Fact, ...] = ()
    """Where the figure was published, and of what it is."""
