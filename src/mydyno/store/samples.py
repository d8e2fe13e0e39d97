"""samples.parquet: every sample of one run, one row per value; written by mydyno, queried by DuckDB.

Columns: unix_ns (int64) · t_s (seconds since the run began) · step (id or null) · step_t_s (seconds since that step's
load began, or null) · phase ("warmup" | "measure" | null) · scope ("host", "instance:1", "driver:1") · metric · value.
A metric that does not exist on this host or server has no rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from glob import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from mydyno.errors import UserError
from mydyno.files.atomic import FORBIDDEN, INCOMPLETE, write_bytes
from mydyno.model.stored.records import StepRecord

if TYPE_CHECKING:
    import duckdb


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
