"""samples.parquet: every sample of one run, one row per value.

Columns: unix_ns (int64) · t_s (seconds since the run began) · step (id or null) · step_t_s (seconds since that step's
load began, or null) · phase ("warmup" | "measure" | null) · scope ("host", "instance:1", "driver:1") · metric · value.
A metric that does not exist on this host or server has no rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import UserError
from mydyno.files.atomic import write_bytes
from mydyno.model.stored.records import StepRecord


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at one time: `unix_ns` is the end of the interval that the value describes."""

    unix_ns: int
    scope: str
    metric: str
    value: float


def write_samples(path: Path, samples: Iterable[Sample], run_started_unix_ns: int, steps: Sequence[StepRecord]) -> None:
    """Write samples.parquet; each sample is placed into the step during whose load it ended."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {
        name: [] for name in ("unix_ns", "t_s", "step", "step_t_s", "phase", "scope", "metric", "value")
    }
    for sample in samples:
        step, step_t_s, phase = _place(sample.unix_ns, steps)
        columns["unix_ns"].append(sample.unix_ns)
        columns["t_s"].append((sample.unix_ns - run_started_unix_ns) / 1e9)
        columns["step"].append(step)
        columns["step_t_s"].append(step_t_s)
        columns["phase"].append(phase)
        columns["scope"].append(sample.scope)
        columns["metric"].append(sample.metric)
        columns["value"].append(sample.value)
    schema = pa.schema(
        [
            ("unix_ns", pa.int64()),
            ("t_s", pa.float64()),
            ("step", pa.string()),
            ("step_t_s", pa.float64()),
            ("phase", pa.string()),
            ("scope", pa.string()),
            ("metric", pa.string()),
            ("value", pa.float64()),
        ],
        metadata={"mydyno_format": "1"},
    )
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), sink, compression="zstd")
    write_bytes(path, sink.getvalue())


def damage_of(path: Path) -> str:
    """Why a samples.parquet cannot be read; empty if it can, and if there is none. Reads its footer alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(path)
    except FileNotFoundError:
        return ""
    except (OSError, pa.ArrowException) as error:
        return f"{path.name} cannot be read: {str(error).splitlines()[0]}"
    return ""


def read_metric(path: Path, scope: str, metric: str) -> list[tuple[int, float]]:
    """[(unix_ns, value)] of one metric in order of time. Raises UserError if the file is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(
            path, columns=["unix_ns", "value"], filters=[("scope", "=", scope), ("metric", "=", metric)]
        )
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read: {error}", "is the study folder complete?") from error
    return sorted(zip(found["unix_ns"].to_pylist(), found["value"].to_pylist(), strict=True))


def _place(unix_ns: int, steps: Sequence[StepRecord]) -> tuple[str | None, float | None, str | None]:
    for step in steps:
        step_t_s = (unix_ns - step.started_unix_ns) / 1e9
        if 0 < step_t_s <= step.warmup_s + step.measure_s + 0.5:
            return step.id, step_t_s, "warmup" if step_t_s <= step.warmup_s else "measure"
    return None, None, None
