"""The JSON Schemas of the files that a study writes, made from the types that read them; one line for each kind.

A schema is of what this program writes. Its `$id` is a UUID of its name and format (version 5, RFC 9562), so that it is
the same on every machine and changes with the format. Fields may be added within a format, so unknown ones are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid5

from pydantic import BaseModel

from mydyno.model.live import LIVE_FORMAT
from mydyno.model.log_lines import CommandLine, DriverDocument, JournalLine, LiveLine
from mydyno.model.plan import Plan
from mydyno.model.records import FORMAT, RunRecord, SliceRecord, StudyRecord
from mydyno.model.summary import Summary

NAMESPACE = UUID("6f1b5a52-3c5e-4f0e-9a53-6d796479e06f")
"""The project's own; drawn once."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class StoredFile:
    """One kind of file: the type that reads it, where it lies in a study's folder, and its format number."""

    model: type[BaseModel]
    files: tuple[str, ...]
    """Patterns below the study's folder."""
    format: int
    lines: bool = False
    """Whether each line is a document of its own."""
    mode: Literal["serialization", "validation"] = "serialization"
    """validation: what has its default value may be left out."""


STORED: dict[str, StoredFile] = {
    "summary": StoredFile(Summary, ("summary.json",), FORMAT),
    "run": StoredFile(RunRecord, ("blocks/*/*/run.json",), FORMAT),
    "study": StoredFile(StudyRecord, ("study.json",), FORMAT),
    "plan": StoredFile(Plan, ("plan.json",), 1),
    "journal": StoredFile(JournalLine, ("journal.jsonl",), FORMAT, lines=True, mode="validation"),
    "live": StoredFile(LiveLine, ("live.jsonl",), LIVE_FORMAT, lines=True, mode="validation"),
    "slices": StoredFile(SliceRecord, ("blocks/*/slices.jsonl", "blocks/*/alone.jsonl"), FORMAT, True, "validation"),
    "commands": StoredFile(CommandLine, ("commands.jsonl",), 1, lines=True, mode="validation"),
    "driver": StoredFile(DriverDocument, ("blocks/*/*/driver*.json",), 1),
}


def stored_schema(name: str) -> dict[str, Any]:
    """JSON Schema 2020-12 of a kind of file, by its name in STORED. Raises KeyError."""
    stored = STORED[name]
    made = stored.model.model_json_schema(by_alias=True, mode=stored.mode)
    if "format" in made.get("properties", {}):
        made["properties"]["format"] = {"const": stored.format, "description": "the format's number"}
    what = "one line" if stored.lines else "the whole file"
    return {
        "$schema": DIALECT,
        "$id": schema_id(name, stored.format),
        "title": f"mydyno {name}, format {stored.format}",
        "description": f"{what} of {' and '.join(stored.files)} in a study's folder",
        **{key: value for key, value in made.items() if key not in ("title", "description")},
    }


def schema_id(name: str, format_number: int) -> str:
    """The URN of a schema."""
    return uuid5(NAMESPACE, f"mydyno {name} format {format_number}").urn
