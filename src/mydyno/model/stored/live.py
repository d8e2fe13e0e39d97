"""live.jsonl: what a study does now, one JSON object a line. Frozen types; no I/O.

While a study runs it appends a `second` every second, and the other records when something happens. Nothing in them
compares arms: before an interim analysis only precision is shown. The file format is described in
docs/reference/study-folder.md.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from mydyno.model.definition.experiment import DesignKind
from mydyno.model.frozen_record import Record
from mydyno.model.stored.reasons import Reason

LIVE_FORMAT = 1
LiveState = Literal[
    "preparing",
    "starting",
    "warm-up",
    "step",
    "slice",
    "profile",
    "waits",
    "kernel",
    "alone",
    "analysing",
    "hosts",
    "waiting",
    "lost",
]
"""step: the measured load of the design blocks; slice: the interleaved design; alone: the control with all other
servers stopped; hosts: host groups execute the blocks. waiting, lost: only for a host group, which waits for
its next block, or is lost."""
EndState = Literal["complete", "partial", "failed", "interrupted"]
"""The state of the summary, or interrupted: Ctrl-C or SIGTERM."""


class LiveOpened(Record):
    """First line of each `run` or `resume`: which process writes the file."""

    record: Literal["opened"] = "opened"
    format: int = LIVE_FORMAT
    unix_ns: int
    study: str
    resumed: bool = False
    pid: int
    start_ticks: int
    """Start time of the process, in clock ticks since boot: with the pid it names one process (proc_pid_stat(5))."""
    boot_id: str
    pid_namespace: str
    """A pid is known only in its own boot and pid namespace."""
    hostname: str
    design: DesignKind


class LiveSecond(Record):
    """The state of a study, or of one of its host groups, at one time. What is unknown, or does not exist in that
    state, is absent."""

    record: Literal["second"] = "second"
    unix_ns: int
    group: str = ""
    """The host group that this is the state of; empty: the study itself."""
    state: LiveState
    block: int | None = None
    blocks: int | None = None
    """Blocks that the study aims for."""
    made: int | None = None
    """Blocks that are finished, of a study over host groups."""
    run: int | None = None
    runs: int | None = None
    """Design blocks: the run's number, and how many the plan has."""
    arm: str | None = None
    copy_number: int | None = Field(None, alias="copy")
    step: str | None = None
    cycle: int | None = None
    left_s: float | None = None
    """Expected time to the end of the study."""
    qps: float | None = None
    tps: float | None = None
    latency_us: dict[str, float] = Field(default_factory=dict)
    """p50, p95, p99, as far as the load program reports them."""
    errors_per_s: float | None = None
    cpu_busy_pct: float | None = None
    """User and system, in percent of all CPUs."""
    cpu_steal_pct: float | None = None
    server: dict[str, float] = Field(default_factory=dict)
    """Metrics of dynoprobe of the servers under load; with several servers the sum, of percentages the mean."""


class LiveRun(Record):
    """A run has ended."""

    record: Literal["run"] = "run"
    unix_ns: int
    block: int
    arm: str
    copy_number: int = Field(1, alias="copy")
    folder: str
    valid: bool
    reasons: tuple[Reason, ...] = ()
    """Why the run is invalid; empty for a valid run."""
    failed: str = ""
    """Why the arm itself failed, as a whole or at a step."""
    group: str = ""
    """The host group that executed it."""


class LivePrecision(Record):
    """The precision to be expected at `blocks` blocks: from the pilot (made 0), then after each block."""

    record: Literal["precision"] = "precision"
    unix_ns: int
    blocks: int
    made: int
    half_widths: dict[str, float]
    """Metric → half-width of the interval, as a fraction."""


class LiveNote(Record):
    """A message of the study."""

    record: Literal["note"] = "note"
    unix_ns: int
    text: str


class LiveEnded(Record):
    """The last line of a `run` or `resume` that was not killed."""

    record: Literal["ended"] = "ended"
    unix_ns: int
    state: EndState
    text: str = ""
    """Why it ended before its plan was done; empty if it was not."""
    answer: tuple[str, ...] = ()
    """The study's answer, where it has one."""


LiveRecord = LiveOpened | LiveSecond | LiveRun | LivePrecision | LiveNote | LiveEnded
_RECORDS: TypeAdapter[LiveRecord] = TypeAdapter(Annotated[LiveRecord, Field(discriminator="record")])


def live_line(record: LiveRecord) -> str:
    """The record as a line, without what is unknown or empty."""
    first: dict[str, object] = {"record": record.record}
    if isinstance(record, LiveOpened):
        first["format"] = record.format
    given = record.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    return json.dumps(first | given, ensure_ascii=False, separators=(",", ":")) + "\n"


def parse_live(line: bytes | str) -> LiveRecord | None:
    """The record of a line; None for a line cut short, and for a record or a format of a newer mydyno."""
    try:
        record = _RECORDS.validate_json(line)
    except ValidationError:
        return None
    return None if isinstance(record, LiveOpened) and record.format > LIVE_FORMAT else record
