"""/studies/ID/runs/BLOCK/RUN: telemetry, evidence, option file, logs and commands of one run."""

from __future__ import annotations

import math
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mydyno.errors import UserError
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import StudyIndex
from mydyno.web.rendering import render
from mydyno.web.studies import lane_name, run_commands, run_path, run_problems, study_path, text_files
from mydyno.web.telemetry import Range, run_telemetry


def _paths(request: Request) -> tuple[Path, Path]:
    study = study_path(request)
    return study, run_path(study, request.path_params["block"], request.path_params["run"])


async def show_run(request: Request) -> Response:
    """The page of a run."""
    study, run = _paths(request)
    return await run_in_threadpool(_page, study, run, request.app.state.index)


def _page(study: Path, run: Path, index: StudyIndex) -> Response:
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


async def show_telemetry(request: Request) -> Response:
    """Its samples as JSON: `from` and `to` in seconds since the run began limit the range."""
    _, run = _paths(request)
    wanted = Range(_seconds(request, "from"), _seconds(request, "to"))
    import duckdb

    try:
        return JSONResponse(await run_in_threadpool(run_telemetry, run / "samples.parquet", wanted))
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


_RUN = "/studies/{study}/runs/{block}/{run}"
ROUTES = [Route(_RUN, show_run), Route(f"{_RUN}/telemetry", show_telemetry)]
