"""The lines of a study's logs (journal, live, commands) and driver.json: the types that their schemas are of.

Each kind of event has its fields; docs/reference/study-folder.md has their meanings. Readers ignore events and fields
that they do not know. Events of a host that another host executed blocks for have host_group and host_unix_ns too.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel

from mydyno.model.frozen_record import Record
from mydyno.model.stored.live import LiveRecord
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import DriverResult


class _Line(Record):
    model_config = ConfigDict(extra="allow")

    unix_ns: int


class _Event(_Line):
    host_group: str = ""
    host_unix_ns: int = 0


class StudyCreated(_Event):
    """The folder was made."""

    event: Literal["study_created"]
    study: str


class StudyResumed(_Event):
    """`mydyno resume` continues it."""

    event: Literal["study_resumed"]
    mydyno_version: str = ""
    """The version that resumes it; empty in a study of an earlier mydyno."""


class StudyFinished(_Event):
    """The study ended by itself."""

    event: Literal["study_finished"]
    state: Literal["complete", "partial", "failed"]


class TreatmentRehearsed(_Event):
    """A treatment was tried before the first block."""

    event: Literal["treatment_rehearsed"]
    treatment: str
    text: str


class RunBegan(_Event):
    """A run begins."""

    event: Literal["run_began"]
    folder: str


class RunFinished(_Event):
    """A run's folder is in its place."""

    event: Literal["run_finished"]
    folder: str
    valid: bool
    reasons: tuple[Reason | str, ...]
    """Why the run is invalid; sentences in format 1."""


class BlockBegan(_Event):
    """An interleaved block begins."""

    event: Literal["block_began"]
    block: int


class BlockFinished(_Event):
    """An interleaved block's folder is in its place."""

    event: Literal["block_finished"]
    block: int
    failed: tuple[str, ...]
    waited_s: float = 0.0


class Pilot(_Event):
    """The precision to expect, from the first cycles of the first block."""

    event: Literal["pilot"]
    of: int
    half_widths: dict[str, float]


class Precision(_Event):
    """The precision to expect, from the blocks so far."""

    event: Literal["precision"]
    block: int
    of: int
    half_widths: dict[str, float]


class Aim(_Event):
    """Another look is aimed for, as blocks take more or less time than planned."""

    event: Literal["aim"]
    blocks: int
    after: int


class Washout(_Event):
    """The washout of the next blocks was lengthened."""

    event: Literal["washout"]
    block: int
    washout_s: float
    carry_over: dict[str, float]


class BlockLease(_Event):
    """A host group executes a block, or has delivered it."""

    event: Literal["block_leased", "block_committed"]
    block: int
    attempt: int
    group: str


class BlockLost(_Event):
    """A host group does not deliver a block."""

    event: Literal["block_lost"]
    block: int
    attempt: int
    group: str
    why: str


class GroupExcluded(_Event):
    """A host group cannot execute blocks of this study."""

    event: Literal["group_excluded"]
    group: str
    why: str


class GroupNotCleaned(_Event):
    """A host group was lost at the end of the study; its hosts may keep files of it."""

    event: Literal["group_not_cleaned"]
    group: str
    why: str


class GroupCleaned(_Event):
    """The hosts of a group that was lost were cleaned later."""

    event: Literal["group_cleaned"]
    group: str


class JournalLine(
    RootModel[
        Annotated[
            StudyCreated
            | StudyResumed
            | StudyFinished
            | TreatmentRehearsed
            | RunBegan
            | RunFinished
            | BlockBegan
            | BlockFinished
            | Pilot
            | Precision
            | Aim
            | Washout
            | BlockLease
            | BlockLost
            | GroupExcluded
            | GroupNotCleaned
            | GroupCleaned,
            Field(discriminator="event"),
        ]
    ]
):
    """One line of journal.jsonl."""


class LogOpened(_Line):
    """A `run` or `resume` begins to record."""

    event: Literal["opened"]
    format: int


class ProgramStarted(_Line):
    """A program was started."""

    event: Literal["started"]
    id: int
    argv: tuple[str, ...] = Field(min_length=1)
    cwd: str = ""
    entering: tuple[str, ...] = ()
    user: str = ""


class ProgramEnded(_Line):
    """A program has ended."""

    event: Literal["ended"]
    id: int
    exit_code: int
    duration_s: float


class CommandLine(RootModel[Annotated[LogOpened | ProgramStarted | ProgramEnded, Field(discriminator="event")]]):
    """One line of commands.jsonl."""


class LiveLine(RootModel[Annotated[LiveRecord, Field(discriminator="record")]]):
    """One line of live.jsonl."""


class DriverStep(DriverResult):
    """What the load program counted in one step."""

    step: str


class DriverDocument(Record):
    """driver.json."""

    format: int
    steps: tuple[DriverStep, ...]
