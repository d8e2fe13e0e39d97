"""/studies/ID/runs/BLOCK/RUN: telemetry, evidence, option file, logs and commands of one run.

A run's samples are reduced to so many points for its charts, and shown at full resolution where the range is short
enough. Each point is the mean over its share of the range, with the least and the greatest value beside it, so that a
spike is never lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mydyno.errors import UserError
from mydyno.model.phrases import lane_name
from mydyno.reports.telemetry import CORE, EXPLAINING, scope_name
from mydyno.store.samples import file_names
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import StudyIndex
from mydyno.web.pages.study import run_commands, run_path, run_problems, study_path, text_files
from mydyno.web.rendering import render
from mydyno.wording.numbers import display_unit, metric_name

_RUN = "/studies/{study}/runs/{block}/{run}"
MOST_POINTS = 600
MOST_SERIES = 24
EVERY_SAMPLE = "cpu_user_pct"
"""A metric of the host that each sample has: their number is that of the samples."""
SHOWN = (*CORE, *EXPLAINING)


def _paths(request: Request) -> tuple[Path, Path]:
    study = study_path(request)
    return study, run_path(study, request.path_params["block"], request.path_params["run"])


def show_run(request: Request) -> Response:
    """The page of a run."""
    study, run = _paths(request)
    index: StudyIndex = request.app.state.index
    row = index.row(study)
    try:
        record = StudyFolder(study).run(f"blocks/{run.parent.name}/{run.name}")
    except UserError as error:
        return render("problem.html", 200, title="This run cannot be read", words=str(error), row=row)
    return render(
        "run.html",
        row=row,
        record=record,
        lane=lane_name(record.arm, record.copy_number),
        block=run.parent.name,
        run=run.name,
        problems=run_problems(record),
        files=text_files(run),
        commands=run_commands(study, record),
        has_samples=(run / "samples.parquet").is_file(),
    )


def show_telemetry(request: Request) -> Response:
    """Its samples as JSON: `from` and `to` in seconds since the run began limit the range."""
    _, run = _paths(request)
    wanted = Range(_seconds(request, "from"), _seconds(request, "to"))
    import duckdb

    try:
        return JSONResponse(run_telemetry(run / "samples.parquet", wanted))
    except (OSError, duckdb.Error) as error:
        return JSONResponse({"error": f"samples.parquet cannot be read: {error}"}, 422)


def _seconds(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise HTTPException(400, f"{name} is not a number of seconds.")
    return found


ROUTES = [Route(_RUN, show_run), Route(f"{_RUN}/telemetry", show_telemetry)]


@dataclass(frozen=True)
class Range:
    """Seconds since the run began; None: from its first, to its last sample."""

    from_s: float | None = None
    to_s: float | None = None


def run_telemetry(path: Path, wanted: Range, metrics: tuple[str, ...] = SHOWN, points: int = MOST_POINTS) -> Any:
    """{from_s, to_s, bucket_s, series: [{metric, scope, name, unit, divisor, t_s, mean, low, high}]}.

    `bucket_s` is 0 where every sample is a point. Raises OSError and duckdb.Error for a damaged file.
    """
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:  # this may be the measured host
        low, high = connection.execute(
            "select coalesce(min(t_s), 0.0), coalesce(max(t_s), 0.0) from read_parquet(?)", file_names(path)
        ).fetchone() or (0.0, 0.0)
        from_s = low if wanted.from_s is None else min(max(low, wanted.from_s), high)
        to_s = high if wanted.to_s is None else max(min(high, wanted.to_s), from_s)
        (samples,) = connection.execute(
            "select count(*) from read_parquet(?) where t_s >= ? and t_s <= ? and scope = 'host' and metric = ?",
            [*file_names(path), from_s, to_s, EVERY_SAMPLE],
        ).fetchone() or (0,)
        bucket_s = 0.0 if (samples or to_s - from_s) <= points else (to_s - from_s) / points
        at = (
            "t_s"
            if bucket_s == 0
            else f"(least(floor((t_s - {from_s}) / {bucket_s}), {points - 1}) + 0.5) * {bucket_s} + {from_s}"
        )
        rows = connection.execute(
            f"select scope, metric, {at} as bucket, avg(value), min(value), max(value) from read_parquet(?) "
            "where t_s >= ? and t_s <= ? and list_contains(?, metric) group by scope, metric, bucket "
            "order by scope, metric, bucket",
            [*file_names(path), from_s, to_s, list(metrics)],
        ).fetchall()
    series: dict[tuple[str, str], dict[str, Any]] = {}
    for scope, metric, t_s, mean, least, greatest in rows:
        one = series.setdefault((scope, metric), {"t_s": [], "mean": [], "low": [], "high": []})
        for name, value in (("t_s", t_s), ("mean", mean), ("low", least), ("high", greatest)):
            one[name].append(round(float(value), 4))
    order = {metric: number for number, metric in enumerate(metrics)}
    found = sorted(series, key=lambda pair: (order[pair[1]], pair[0]))[:MOST_SERIES]
    return {
        "from_s": from_s,
        "to_s": to_s,
        "bucket_s": round(bucket_s, 3),
        "series": [_described(pair, series[pair]) for pair in found],
    }


def _described(pair: tuple[str, str], points: dict[str, Any]) -> dict[str, Any]:
    scope, metric = pair
    unit = display_unit(metric, max(points["mean"]))
    return {
        "metric": metric,
        "scope": scope,
        "name": f"{metric_name(metric)} · {scope_name(scope)}",
        "unit": unit.label,
        "divisor": unit.divisor,
        **points,
    }
