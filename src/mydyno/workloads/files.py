"""Workloads that are a file of the user's: a Lua script of sysbench, SQL transactions, or a capture.

The options of a script are its own, and only the script knows them; dynoload refuses those that it does not declare,
before any load. The options here are dynoload's, of the load.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mydyno.errors import UserError
from mydyno.experiment_file.toml_source import toml_text
from mydyno.model.definition.experiment import DataSpec, Frozen
from mydyno.model.definition.problems import Problem
from mydyno.workloads.oltp import SYSTEM_BYTES

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
    """For a folder's name: data of another file, text or options are kept apart."""
    path = file_of(data)
    content = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256")
    content.update(repr(sorted(data.options.items())).encode())
    return f"{path.stem}-{content.hexdigest()[:12]}"


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
