"""What the first line of a capture states, and what a step of a study plays of it.

What a dump consists of, by `dynoload sql check`: the same reading as before it is loaded. Other files likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import UserError
from mydyno.hosts.commands import run_command
from mydyno.model.definition.experiment import Step, StepSpec
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.special_steps import speed_of

FORMAT = "dynoload-capture"
MOST_HEADER_BYTES = 1_000_000
"""Longest first line: it lists the places of problems in the log."""
CHECK_TIMEOUT_S = 3600.0
"""A dump of 100 GB is read in some minutes."""


@dataclass(frozen=True)
class CaptureHeader:
    """The numbers of a capture; dynoload checks the rest, and the version of the format."""

    length_s: float
    peak_sessions: int
    statements: int
    writing: int | None
    """Statements that do not only read; None: captured by a version that did not count them."""
    problems: tuple[str, ...] = ()
    """What the capture lacks, or what of it is unknown, with the counts."""


def read_header(path: Path) -> CaptureHeader | None:
    """The header of a capture; None if the file is none. Raises OSError."""
    with path.open("rb") as file:
        first = file.readline(MOST_HEADER_BYTES)
    try:
        header = json.loads(first)
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        return None
    writing = header.get("writing")
    return CaptureHeader(
        length_s=_number(header.get("duration_us")) / 1e6,
        peak_sessions=max(1, int(_number(header.get("peak_sessions")))),
        statements=int(_number(header.get("statements"))),
        writing=None if writing is None else int(_number(writing)),
        problems=tuple(_problems(header.get("problems"))),
    )


def _problems(found: object) -> Iterator[str]:
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield f"{int(_number(one.get('count')))} {one.get('text') or one.get('problem')}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@dataclass(frozen=True)
class Captured:
    """A capture as a step plays it."""

    speed: float | None
    """How many times as fast as captured; None: without the captured times."""
    length_s: float
    """At this speed."""
    statements: int
    writing: int | None
    """Statements that do not only read, of those that are played; None: unknown."""
    problems: tuple[str, ...] = ()
    """What the capture lacks, or what of it is unknown, with the counts."""
    left_out: int = 0
    """Statements that write and are not played, since the step is to read alone."""

    @property
    def writes(self) -> bool:
        """Whether it may change data: a second pass then finds other data than the first."""
        return self.writing != 0


def replay_writes(step: Step) -> bool:
    """Whether a step plays a capture that may change data; also where its file cannot be read."""
    if step.replay is None:
        return False
    try:
        one = captured(step)
    except OSError:
        return True
    return one is None or one.writes


def captured(step: Step | StepSpec) -> Captured | None:
    """What a step plays; None for a step that replays nothing. Raises OSError."""
    header = None if step.replay is None else read_header(Path(step.replay))
    if header is None:
        return None
    reads_only = step.options.get("read_only") is True
    writing = 0 if reads_only else header.writing
    length_s = header.length_s / (speed_of(step) or 1.0)
    left_out = (header.writing or 0) if reads_only else 0
    return Captured(speed_of(step), length_s, header.statements, writing, header.problems, left_out)


@dataclass(frozen=True)
class DumpContents:
    """What of a dump is executed, and what is not."""

    statements: int
    size_bytes: int
    omitted: tuple[str, ...]
    """Reasons, each with the number of statements and the line of the first."""

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"dump of {self.statements:,} statements, {format_bytes(self.size_bytes)}",
            *(f"left out: {reason}" for reason in self.omitted),
        ]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> DumpContents:
        """From the program's JSON."""
        omitted = tuple(f"{one['reason']} ({one['count']}, from line {one['line']} on)" for one in found["omitted"])
        return cls(found["statements"], found["bytes"], omitted)


def run_check(program: Path, arguments: Sequence[str]) -> str:
    """What dynoload prints about a file that it reads whole, without a server. Raises UserError where it refuses it."""
    done = run_command([str(program), *arguments], CHECK_TIMEOUT_S)
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("dynoload: "))
    return done.stdout
