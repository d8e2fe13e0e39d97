"""What runs and blocks leave in a study's folder for later: samples, and totals of slices.

samples.parquet: every sample of one run, one row per value; written by mydyno, queried by DuckDB. Columns: unix_ns
(int64) · t_s (seconds since the run began) · step (id or null) · step_t_s (seconds since that step's load began, or
null) · phase ("warmup" | "measure" | null) · scope ("host", "instance:1", "driver:1") · metric · value. A metric that
does not exist on this host or server has no rows.

slices.jsonl, in the block's folder (blocks/NN/slices.jsonl): one SliceRecord a line, in order of time. What was counted
in slices apart, for the servers of one run at one step, is in the run's folder: waits/STEP.json, kernel/STEP.json and,
of a CPU profile, folded stacks in profiles/STEP.folded.gz. A line is a stack and how often it was sampled: frames from
the outermost to the innermost, separated by ";", then a space and the count; the format that flame graph programs read.
A frame is MODULE`FUNCTION, as DTrace writes it.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from glob import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import ValidationError

from mydyno.errors import UserError
from mydyno.files.atomic import FORBIDDEN, INCOMPLETE, readable, write_bytes, write_text
from mydyno.model.stored.counted import CountedTotals
from mydyno.model.stored.records import SliceRecord, StepRecord

if TYPE_CHECKING:
    import duckdb


SLICES_FILE = "slices.jsonl"
ALONE_FILE = "alone.jsonl"
"""The control's slices with the other servers stopped; in a study's first block."""
PROFILED_FILE = "profiled.jsonl"
"""The slices in which the servers were profiled, apart from the measured ones."""
WAITS_FILE = "waits.jsonl"
"""The slices in which the servers' waits were counted, apart from the measured ones."""
KERNEL_FILE = "kernel.jsonl"
"""The same of the slices in which the kernel's events were counted."""
CountedKind = Literal["waits", "kernel"]
"""The folder below the run's."""
T = TypeVar("T", bound=CountedTotals)
PROFILES_FOLDER = "profiles"
WAITING = "uninterruptible wait"
"""Second frame of samples of threads that waited for a disk or a lock of the kernel: no CPU time. Not by perf."""
RUN_QUEUE = "waits for a CPU"
"""Second frame of samples of threads that were ready to run and on no CPU: no CPU time. Not by perf."""
Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]
"""Frames from the outermost to the innermost → samples."""


def write_slices(path: Path, slices: Iterable[SliceRecord]) -> None:
    """Replace the file as a whole; what has its default value is omitted."""
    write_text(path, "".join(one.model_dump_json(by_alias=True, exclude_defaults=True) + "\n" for one in slices))


def read_slices(path: Path) -> list[SliceRecord]:
    """Every slice of the file, in its order; an absent file has none. Raises UserError if a line is damaged."""
    with readable(path):
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
    slices = []
    for number, line in enumerate(lines, 1):
        try:
            slices.append(SliceRecord.model_validate_json(line))
        except ValidationError as error:
            raise UserError(f"{path}, line {number}: {error}", INCOMPLETE) from error
    return slices


def totals_file(kind: CountedKind, step: str) -> str:
    """Where the counts of a step lie, below the run's folder."""
    return f"{kind}/{step}.json"


def write_totals(path: Path, totals: CountedTotals) -> None:
    """Replace the file as a whole."""
    write_text(path, totals.model_dump_json(indent=1) + "\n")


def read_totals(path: Path, kind: type[T]) -> T:
    """The file's content. Raises UserError if it is missing or damaged."""
    with readable(path):
        return kind.model_validate_json(path.read_bytes())


def is_waiting(stack: Stack) -> bool:
    """Whether the sample is of a thread on no CPU, and so stands for no CPU time."""
    return len(stack) > 1 and stack[1] in (WAITING, RUN_QUEUE)


def stacks_file(step: str) -> str:
    """Where the stacks of a step lie, below the run's folder."""
    return f"{PROFILES_FOLDER}/{step}.folded.gz"


def write_stacks(path: Path, stacks: Stacks) -> None:
    """Replace the file as a whole; the same stacks give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = sorted(f"{';'.join(stack)} {count}\n" for stack, count in stacks.items())
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def read_stacks(path: Path) -> dict[Stack, int]:
    """Every stack of the file. Raises UserError if it is missing or damaged."""
    found: dict[Stack, int] = {}
    with readable(path):
        content = path.read_bytes()
        for line in gzip.decompress(content or b"empty").decode().splitlines():
            frames, _, count = line.rpartition(" ")
            found[tuple(frames.split(";"))] = int(count)
    return found


@cache
def _database(_process_id: int) -> duckdb.DuckDBPyConnection:
    """The process's only database, which holds no data: to make one takes ten times as long as a query.

    A forked process makes its own: it has none of the threads.
    """
    import duckdb

    return duckdb.connect()


def database() -> duckdb.DuckDBPyConnection:
    """A connection to the process's database, to be closed."""
    return _database(os.getpid()).cursor()


def file_names(*paths: Path) -> list[str]:
    """For read_parquet(), which reads a name as a glob."""
    return [escape(str(path)) for path in paths]


@contextmanager
def reading(*paths: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for queries on these files; one that is missing or damaged is an error of the user's."""
    import duckdb

    try:
        with database() as connection:
            yield connection
    except duckdb.Error as error:
        missing = [path for path in paths if not path.exists()]
        named = str(paths[0]) if len(paths) == 1 else f"one of {len(paths)} files {paths[0].name}"
        what = f"{missing[0]} is missing" if missing else f"{named} cannot be read: {str(error).splitlines()[0]}"
        may_read = missing or all(os.access(path, os.R_OK) for path in paths)
        raise UserError(what, INCOMPLETE if may_read else FORBIDDEN) from error


def window_means(path: Path, windows: dict[str, tuple[float, float]]) -> dict[str, dict[tuple[str, str], float]]:
    """{step: {(scope, metric): mean over samples with from_s < step_t_s <= to_s}} of one samples.parquet.

    Raises UserError if it is missing or damaged.
    """
    means: dict[str, dict[tuple[str, str], float]] = {}
    with reading(path) as connection:
        for step, (from_s, to_s) in windows.items():
            rows = connection.execute(
                "select scope, metric, avg(value) from read_parquet(?) "
                "where step = ? and step_t_s > ? and step_t_s <= ? group by scope, metric",
                [*file_names(path), step, from_s, to_s],
            ).fetchall()
            means[step] = {(scope, metric): float(value) for scope, metric, value in rows}
    return means


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at one time: `unix_ns` is the end of the interval that the value describes."""

    unix_ns: int
    scope: str
    metric: str
    value: float


def write_samples(path: Path, samples: Iterable[Sample], run_started_unix_ns: int, steps: Sequence[StepRecord]) -> None:
    """Write samples.parquet; each sample is placed into the step during whose load it ended."""
    # Reports import this module and write nothing.
    import numpy as np

    found = list(samples)
    places = [_place(one.unix_ns, steps) for one in found]
    columns = {
        "unix_ns": np.array([one.unix_ns for one in found], np.int64),
        "step": np.array([step for step, _, _ in places], object),
        "step_t_s": np.array([nan if step_t_s is None else step_t_s for _, step_t_s, _ in places]),
        "phase": np.array([phase for _, _, phase in places], object),
        "scope": np.array([one.scope for one in found], object),
        "metric": np.array([one.metric for one in found], object),
        "value": np.array([one.value for one in found]),
    }
    # DuckDB writes to files only: to one in memory, of which nothing is left whatever happens.
    with os.fdopen(os.memfd_create(path.name), "rb") as file, database() as connection:
        connection.register("samples", columns)
        connection.execute(
            "copy (select unix_ns, (unix_ns - ?) / 1e9 as t_s, cast(step as varchar) as step, "
            "nullif(step_t_s, 'nan') as step_t_s, cast(phase as varchar) as phase, cast(scope as varchar) as scope, "
            f"cast(metric as varchar) as metric, value from samples) to '/proc/self/fd/{file.fileno()}' "
            "(format parquet, compression zstd, use_tmp_file false, kv_metadata {mydyno_format: '1'})",
            [run_started_unix_ns],
        )
        write_bytes(path, file.read())


def damage_of(path: Path) -> str:
    """Why a samples.parquet cannot be read; empty if it can, and if there is none. Reads its footer alone."""
    try:
        with reading(path) as connection:
            connection.execute("select num_rows from parquet_file_metadata(?)", file_names(path)).fetchall()
    except UserError as error:
        return error.message if path.exists() else ""
    return ""


def read_metric(path: Path, scope: str, metric: str) -> list[tuple[int, float]]:
    """[(unix_ns, value)] of one metric in order of time. Raises UserError if the file is damaged."""
    with reading(path) as connection:
        return connection.execute(
            "select unix_ns, value from read_parquet(?) where scope = ? and metric = ? order by all",
            [*file_names(path), scope, metric],
        ).fetchall()


def _place(unix_ns: int, steps: Sequence[StepRecord]) -> tuple[str | None, float | None, str | None]:
    for step in steps:
        step_t_s = (unix_ns - step.started_unix_ns) / 1e9
        if 0 < step_t_s <= step.warmup_s + step.measure_s + 0.5:
            return step.id, step_t_s, "warmup" if step_t_s <= step.warmup_s else "measure"
    return None, None, None
