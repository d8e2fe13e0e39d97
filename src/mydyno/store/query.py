"""Queries on a study's samples, executed by DuckDB on the parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from mydyno.errors import UserError
from mydyno.store.reading import FORBIDDEN, INCOMPLETE

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


def series(
    path: Path, step: str | None, scope: str, metrics: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """{metric: (seconds, values)} of one scope: since the step's load began, or since the run began for step None.

    Raises UserError if the file is missing or damaged.
    """
    time_column = "t_s" if step is None else "step_t_s"
    with reading(path) as connection:
        rows = connection.execute(
            f"select metric, {time_column}, value from read_parquet(?) where scope = ? "
            "and list_contains(?, metric) and (? is null or step = ?) order by metric, unix_ns",
            [*file_names(path), scope, list(metrics), step, step],
        ).fetchall()
    result: dict[str, tuple[list[float], list[float]]] = {metric: ([], []) for metric in metrics}
    for metric, time_s, value in rows:
        result[metric][0].append(time_s)
        result[metric][1].append(value)
    return {metric: points for metric, points in result.items() if points[0]}
