"""What became of each statement of a capture, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty

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
