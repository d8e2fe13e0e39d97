"""Workloads that are a file of the user's: a Lua script of sysbench, SQL transactions, or a capture.

The options of a script are its own, and only the script knows them; dynoload refuses those that it does not declare,
before any load. The options here are dynoload's, of the load.

What the first line of a capture states, and what a step of a study plays of it. What a dump consists of, by `dynoload
sql check`: the same reading as before it is loaded. Other files likewise.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mydyno.errors import UserError
from mydyno.experiment_file.toml_source import toml_text
from mydyno.files.atomic import sha256_of
from mydyno.hosts.commands import run_command
from mydyno.model.definition.experiment import DataSpec, Frozen, Step, StepSpec
from mydyno.model.definition.problems import Problem
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.special_steps import speed_of
from mydyno.workloads.oltp import SYSTEM_BYTES

FORMAT = "dynoload-capture"
MOST_HEADER_BYTES = 1_000_000
"""Longest first line: it lists the places of problems in the log."""
CHECK_TIMEOUT_S = 3600.0
"""A dump of 100 GB is read in some minutes."""
SYSBENCH_FOLDERS = (Path("/usr/share/sysbench"), Path("/usr/local/share/sysbench"))
"""Where scripts and modules of its package are."""
_CSV = re.compile(r"""\bcsv\s*\(\s*(["'])([^"'\n]+)\1""")
_REQUIRED = re.compile(r"""\brequire\s*\(?\s*(["'])([^"'\n]+)\1""")
_LITERAL = re.compile(r"""(["'])([^"'\n]{1,200})\1""")


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


SCRIPT = "script"
SQL = "sql"
REPLAY = "replay"
DUMP_FACTOR = 3
"""Tables with their indexes, relative to the size of their dump: more than most need."""
PACKED = (".sql.gz", ".sql.bz2", ".sql.xz", ".sql.zst")
PACKED_FACTOR = 8
"""A dump, relative to its size as compressed."""
RESERVED_BYTES = 1_000_000_000
"""What is reserved on disk for data whose size only the script or the TOML file knows."""
SCALE = "scale"
"""The option of a TOML file's tables."""
STEP_TOLERANCE = 1e-6
"""As in dynoload: a scale is a multiple of the lowest one up to this."""
PREPARE_S = 30.0
"""What the plan assumes for making them, at least."""
PREPARE_ROWS_PER_S = 20_000
ROW_BYTES = 400
"""Bytes on disk per row, with its indexes and its share of logs: more than most rows of a TOML file need."""


class FileOptions(Frozen):
    """Options of dynoload for all of them."""

    db_ps_mode: Literal["auto", "disable"] = Field("auto", description="prepared statements, or text protocol")
    mysql_ignore_errors: str = Field("1213,1020,1205", description="error codes that restart the transaction")
    rand_seed: int = Field(
        0, ge=0, description="0: from design.seed, block and load level, the same in all arms of a block"
    )
    rate: int = Field(0, ge=0, description="planned transactions per second; 0: as many as possible")


class ScriptOptions(FileOptions):
    """Options of a script; those not listed here are the script's own."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    rand_type: Literal["uniform", "gaussian", "special", "pareto", "zipfian"] = Field(
        "special", description="distribution of sysbench.rand.default"
    )
    threads: int | None = Field(
        None,
        ge=1,
        examples=[2],
        description="dynoload's threads; as many as connections for a script that sleeps or computes much; "
        "default: one for 64 connections",
    )


class ReplayOptions(FileOptions):
    """Options of a capture; its statements are sent as text."""

    db_ps_mode: Literal["disable"] = Field("disable", description="text protocol")
    mysql_ignore_errors: str = Field(
        "1213,1020,1205", description="error codes after which a transaction is rolled back and left out"
    )
    read_only: bool = Field(False, description="leave out statements that write")
    speed: Literal["max", "original"] | Annotated[float, Field(ge=0.001, le=1000)] = Field(
        "max",
        description="max: transactions as fast as the connections go; original, or a factor as in 4: each captured "
        "session on a connection of its own, its transactions at their captured times",
    )


def file_problems(data: DataSpec) -> list[Problem]:
    """What is wrong with a TOML file of tables, as far as a plan needs it, and with its option, the scale."""
    if data.sql is None:
        return []
    where, name = ("data", "sql"), file_of(data).name
    try:
        file = _tables_of(data)
    except (tomllib.TOMLDecodeError, UserError) as error:
        return [Problem(where, f"is not TOML: {error}", data.sql)]
    tables = file.get("tables", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return [Problem(where, f"{name}: its tables must be [[tables]]", data.sql)]
    counts = [table.get(key, 0) for table in tables for key in ("rows", "rows_at_scale_1")]
    if not all(isinstance(count, int) for count in counts):
        return [Problem(where, f"{name}: rows and rows_at_scale_1 of its tables must be whole numbers", data.sql)]
    scales = file.get(SCALE)
    if scales is not None and not _is_scale(scales):
        words = f"{name}: its scale must have lowest, default and highest, numbers above 0 in this order"
        return [Problem(where, words, data.sql)]
    return _option_problems(data, scales)


def _is_scale(scales: Any) -> bool:
    values = [scales.get(key) for key in ("lowest", "default", "highest")] if isinstance(scales, dict) else [None]
    numbers = [one for one in values if isinstance(one, (int, float)) and not isinstance(one, bool) and one > 0]
    return len(numbers) == len(values) and numbers == sorted(numbers)


def _option_problems(data: DataSpec, scales: Mapping[str, float] | None) -> list[Problem]:
    key = ("data", "options")
    others = [name for name in data.options if name != SCALE]
    unknown = [Problem((*key, name), "unknown option", data.options[name], SCALE) for name in others]
    if unknown or SCALE not in data.options:
        return unknown
    scale = data.options[SCALE]
    if scales is None:
        return [Problem((*key, SCALE), f"{file_of(data).name} has no scale", scale, "no options")]
    lowest, highest = scales["lowest"], scales["highest"]
    if isinstance(scale, (int, float)) and not isinstance(scale, bool) and lowest <= scale <= highest:
        steps = scale / lowest
        if abs(steps - round(steps)) < STEP_TOLERANCE:
            return []
    return [Problem((*key, SCALE), "is not possible", scale, f"{lowest:g} to {highest:g}, in steps of {lowest:g}")]


def file_of(data: DataSpec) -> Path:
    """The file that makes the data."""
    return Path(data.script or data.sql or "")


def is_dump(data: DataSpec) -> bool:
    """Whether the data come from SQL statements as they are, not from rules for rows."""
    return data.sql is not None and data.sql.endswith((".sql", *PACKED))


def short(data: DataSpec) -> str:
    """For a folder's name: data of other files, text or options are kept apart, wherever the files are."""
    path = file_of(data)
    content, named = hashlib.sha256(), {}
    if path.is_file():
        with path.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256")
        csv_files = [] if data.script or is_dump(data) else csv_files_of(path)
        named = modules_of(path) if data.script else {file: file for file in csv_files}
    content.update(repr(sorted(data.options.items())).encode())
    facts = [(os.path.relpath(place, path.parent), sha256_of(file)) for place, file in named.items() if _is_file(file)]
    if facts:
        content.update(repr(sorted(facts)).encode())
    return f"{path.stem}-{content.hexdigest()[:12]}"


def csv_files_of(path: Path) -> list[Path]:
    """The CSV files that SQL transactions or the rules of a TOML file name; whether they are there is not looked at."""
    return [Path(os.path.normpath(path.parent / name)) for _, name in _CSV.findall(_text(path))]


def modules_of(script: Path, sysbench: Sequence[Path] = SYSBENCH_FOLDERS) -> dict[Path, Path]:
    """Where a script finds it → a module that it requires, or another file beside it that it names.

    One that is not found may be one that the script can do without. `sysbench`: where modules of its package are.
    """
    found: dict[Path, Path] = {}
    waiting = [script]
    while waiting:
        text = _text(waiting.pop())
        for place, file in (*_required(text, script, sysbench), *_beside(text, script.parent)):
            if place not in found and file != script:
                found[place] = file
                waiting += [file] if file.suffix == ".lua" else []
    return found


def _required(text: str, script: Path, sysbench: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Files that a script requires, also of sysbench's package: a host may lack it, and has them beside the script."""
    for _, module in _REQUIRED.findall(text):
        relative = module.replace(".", "/")
        own = [Path(pattern.replace("?", relative)) for pattern in os.environ.get("LUA_PATH", "").split(";") if pattern]
        places = [script.parent / f"{relative}.lua", *own, *(one / f"{relative}.lua" for one in sysbench)]
        file = next((place for place in places if _is_file(place)), None)
        if file is not None:
            yield script.parent / f"{relative}.lua", file.absolute()


def _beside(text: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    for _, literal in _LITERAL.findall(text):
        file = Path(os.path.normpath(folder / literal.lstrip("/")))
        if file.is_relative_to(folder) and _is_file(file):
            yield file, file


def _is_file(path: Path) -> bool:
    """Whether there is a file; also of a text too long for a name, for which Path.is_file() raises OSError."""
    return os.path.isfile(path)  # noqa: PTH113


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def reserved_bytes(data: DataSpec) -> int:
    """What is reserved on disk: for a dump more than its size, because of indexes."""
    path = file_of(data)
    if is_dump(data) and path.is_file():
        packed = PACKED_FACTOR if path.name.endswith(PACKED) else 1
        return SYSTEM_BYTES + DUMP_FACTOR * packed * path.stat().st_size
    return max(RESERVED_BYTES, ROW_BYTES * rows_of(data))


def rows_of(data: DataSpec) -> int:
    """Rows of the tables that a TOML file describes; 0 where only a script or a dump knows."""
    if data.sql is None or not file_of(data).is_file():
        return 0
    file = _tables_of(data)
    scale = data.options.get(SCALE, file.get(SCALE, {}).get("default", 0))
    return sum(
        int(table.get("rows", 0)) + round(int(table.get("rows_at_scale_1", 0)) * float(scale))
        for table in file.get("tables", [])
    )


def prepare_s(data: DataSpec) -> float:
    """What the plan assumes for making the tables."""
    return max(PREPARE_S, rows_of(data) / PREPARE_ROWS_PER_S)


def _tables_of(data: DataSpec) -> dict[str, Any]:
    """The TOML file; empty for a dump."""
    path = file_of(data)
    return {} if is_dump(data) else tomllib.loads(toml_text(path.name, path.read_bytes()))


def prewarm_sql(data: DataSpec) -> list[str]:
    """Statements that read each table of a TOML file whole. What a script or a dump makes is not known, so nothing
    is read."""
    path = file_of(data)
    if data.sql is None or is_dump(data) or not path.is_file():
        return []
    names = [str(table.get("name")) for table in _tables_of(data).get("tables", [])]
    return [f"CHECKSUM TABLE sbtest.`{name}`" for name in names]


def words(data: DataSpec) -> str:
    """The file, and the options that it gets."""
    options = ", ".join(f"{name} = {value}" for name, value in data.options.items())
    if not options:
        return f"tables of {file_of(data).name}"
    return f"tables of {file_of(data).name} with {options}"
