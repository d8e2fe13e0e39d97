"""Queries on a study's samples, executed by DuckDB on the parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def window_means(path: Path, windows: dict[str, tuple[float, float]]) -> dict[str, dict[tuple[str, str], float]]:
    """{step: {(scope, metric): mean over samples with from_s < step_t_s <= to_s}} of one samples.parquet."""
    import duckdb

    means: dict[str, dict[tuple[str, str], float]] = {}
    with duckdb.connect() as connection:
        for step, (from_s, to_s) in windows.items():
            rows = connection.execute(
                "select scope, metric, avg(value) from read_parquet(?) "
                "where step = ? and step_t_s > ? and step_t_s <= ? group by scope, metric",
                [str(path), step, from_s, to_s],
            ).fetchall()
            means[step] = {(scope, metric): float(value) for scope, metric, value in rows}
    return means


def series(
    path: Path, step: str | None, scope: str, metrics: Sequence[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """{metric: (seconds, values)} of one scope: since the step's load began, or since the run began for step None."""
    import duckdb

    time_column = "t_s" if step is None else "step_t_s"
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"select metric, {time_column}, value from read_parquet(?) where scope = ? "
            "and list_contains(?, metric) and (? is null or step = ?) order by metric, unix_ns",
            [str(path), scope, list(metrics), step, step],
        ).fetchall()
    result: dict[str, tuple[list[float], list[float]]] = {metric: ([], []) for metric in metrics}
    for metric, time_s, value in rows:
        result[metric][0].append(time_s)
        result[metric][1].append(value)
    return {metric: points for metric, points in result.items() if points[0]}
