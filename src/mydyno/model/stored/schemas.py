"""The JSON Schemas of the files that a study or a bisection writes and of what commands print, made from the types that
read them; one line for each kind.

A schema is of what this program writes. Its `$id` is a UUID of its name and format (version 5, RFC 9562), so that it is
the same on every machine and changes with the format. Fields may be added within a format, so unknown ones are allowed.

The lines of a study's logs (journal, live, commands) and driver.json: the types that their schemas are of.

Each kind of event has its fields; docs/reference/study-folder.md has their meanings. Readers ignore events and fields
that they do not know. Events of a host that another host executed blocks for have host_group and host_unix_ns too.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from mydyno.model.definition.plan import Plan
from mydyno.model.frozen_record import Record
from mydyno.model.stored.bisection import BISECT_FORMAT, BisectRecord, BisectResult
from mydyno.model.stored.comparison import ArmComparison, Comparison, History
from mydyno.model.stored.counted import KERNEL_FORMAT, WAITS_FORMAT, KernelTotals, WaitTotals
from mydyno.model.stored.live import LIVE_FORMAT, LiveRecord
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import FORMAT, DriverResult, RunRecord, SliceRecord, StudyRecord
from mydyno.model.stored.summary import PrintedSummary, Summary


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
    dropped: tuple[str, ...] = ()
    """Folders of runs and blocks that had been begun; they are made again."""


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
    reasons: tuple[Reason, ...]
    """Why the run is invalid."""


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
    """Another interim analysis is aimed for, as blocks take more or less time than planned."""

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


class BlocksSubmitted(_Event):
    """A batch system has a job for these blocks."""

    event: Literal["blocks_submitted"]
    blocks: tuple[int, ...]
    job: str


class HostFound(_Event):
    """Node of a batch system that begins a block; in the journal of that attempt, until study.json has its facts."""

    event: Literal["host_found"]
    group: str
    versions: dict[str, str]
    host: dict[str, Any]


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
            | BlocksSubmitted
            | HostFound
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


NAMESPACE = UUID("6f1b5a52-3c5e-4f0e-9a53-6d796479e06f")
"""The project's own; drawn once."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class StoredFile:
    """One kind of file: the type that reads it, where it lies in the folder, and its format number."""

    model: type[BaseModel]
    files: tuple[str, ...]
    """Patterns below the folder."""
    format: int
    lines: bool = False
    """Whether each line is a document of its own."""
    mode: Literal["serialization", "validation"] = "serialization"
    """validation: what has its default value may be left out."""
    of: Literal["study", "bisection"] = "study"
    """What the folder is of."""
    printed_by: str = ""
    """The command that prints it, where it is no file of a study."""


STORED: dict[str, StoredFile] = {
    "summary": StoredFile(Summary, ("summary.json",), FORMAT),
    "run": StoredFile(RunRecord, ("blocks/*/*/run.json",), FORMAT),
    "study": StoredFile(StudyRecord, ("study.json",), FORMAT),
    "plan": StoredFile(Plan, ("plan.json",), 1),
    "journal": StoredFile(JournalLine, ("journal.jsonl", "journal.*.jsonl"), FORMAT, lines=True, mode="validation"),
    "live": StoredFile(LiveLine, ("live.jsonl",), LIVE_FORMAT, lines=True, mode="validation"),
    "slices": StoredFile(
        SliceRecord,
        (
            "blocks/*/slices.jsonl",
            "blocks/*/alone.jsonl",
            "blocks/*/profiled.jsonl",
            "blocks/*/waits.jsonl",
            "blocks/*/kernel.jsonl",
        ),
        FORMAT,
        True,
        "validation",
    ),
    "waits": StoredFile(WaitTotals, ("blocks/*/*/waits/*.json",), WAITS_FORMAT),
    "kernel": StoredFile(KernelTotals, ("blocks/*/*/kernel/*.json",), KERNEL_FORMAT),
    "commands": StoredFile(CommandLine, ("commands.jsonl", "commands.*.jsonl"), 1, lines=True, mode="validation"),
    "driver": StoredFile(DriverDocument, ("blocks/*/*/driver*.json",), 1),
    "bisection": StoredFile(BisectRecord, ("bisect.json",), BISECT_FORMAT, of="bisection"),
    "bisect-result": StoredFile(BisectResult, ("result.json",), BISECT_FORMAT, of="bisection"),
    "report": StoredFile(PrintedSummary, (), FORMAT, printed_by="mydyno report STUDY --format json"),
    "comparison": StoredFile(Comparison, (), 1, printed_by="mydyno compare STUDY STUDY --format json"),
    "arms": StoredFile(ArmComparison, (), 1, printed_by="mydyno compare STUDY --arms ARM,ARM --format json"),
    "history": StoredFile(History, (), 2, printed_by="mydyno history EXPERIMENT --format json"),
}


class _Described(GenerateJsonSchema):
    """Fields are described by the docstrings below them, which are read only here: reading sources takes time."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        own = [base for base in model.__mro__ if base.__module__.startswith("mydyno.")]
        words = {field: text for base in reversed(own) for field, text in _docstrings(base.__module__, base.__name__)}
        for name, field in getattr(model, "model_fields", {}).items():
            key = field.alias or name
            if name in words and key in made.get("properties", {}):
                made["properties"][key].setdefault("description", words[name])
        return made


@cache
def _docstrings(module: str, model: str) -> list[tuple[str, str]]:
    """(field, the docstring below it) of a class; empty for a class that is not in the module's source."""
    found = []
    for made in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(made, ast.ClassDef) and made.name == model:
            for field, below in pairwise(made.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found.append((name, " ".join(text.split())))
    return found


def stored_schema(name: str) -> dict[str, Any]:
    """JSON Schema 2020-12 of a kind of file, by its name in STORED. Raises KeyError."""
    stored = STORED[name]
    made = stored.model.model_json_schema(by_alias=True, mode=stored.mode, schema_generator=_Described)
    if "format" in made.get("properties", {}):
        made["properties"]["format"] = {"const": stored.format, "description": "the format's number"}
    what = "one line" if stored.lines else "the whole file"
    where = f"{what} of {' and '.join(stored.files)} in a {stored.of}'s folder"
    return {
        "$schema": DIALECT,
        "$id": schema_id(name, stored.format),
        "title": f"mydyno {name}, format {stored.format}",
        "description": f"what `{stored.printed_by}` prints" if stored.printed_by else where,
        **{key: value for key, value in made.items() if key not in ("title", "description")},
    }


def schema_id(name: str, format_number: int) -> str:
    """The URN of a schema."""
    return uuid5(NAMESPACE, f"mydyno {name} format {format_number}").urn
