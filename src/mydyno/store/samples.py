"""samples.parquet: every sample of one run, one row per value.

Columns: unix_ns (int64) · t_s (seconds since the run began) · step (id or null) · step_t_s (seconds since that step's
load began, or null) · phase ("warmup" | "measure" | null) · scope ("host", "instance:1", "driver:1") · metric · value.
A metric that does not exist on this host or server has no rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

from mydyno.errors import UserError
from mydyno.files.atomic import write_bytes
from mydyno.model.stored.records import StepRecord
from mydyno.store.query import database, file_names, reading


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
