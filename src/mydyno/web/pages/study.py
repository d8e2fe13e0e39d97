"""/studies/ID: the answer and the runs of one study's folder; and the report, a page of its own.
/studies/ID/runs/BLOCK/RUN: telemetry, evidence, option file, logs and commands of one run.

Each run is read by itself: a damaged one does not hide the others. A run's samples are reduced to so many points for
its charts, and shown at full resolution where the range is short enough. Each point is the mean over its share of the
range, with the least and the greatest value beside it, so that a spike is never lost.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from mydyno.errors import UserError
from mydyno.evaluation.answer import answer_of
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import lane_name
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.records import RunRecord
from mydyno.reports.telemetry import CORE, EXPLAINING, scope_name
from mydyno.store.logs import read_commands
from mydyno.store.samples import file_names
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import StudyIndex, evaluated
from mydyno.web.rendering import render
from mydyno.wording.numbers import display_unit, metric_name

_BLOCK = re.compile(r"\d{2,6}")
TEXT_FILE = re.compile(r"(my(-\d+)?\.cnf|(server|driver)(-\d+)?\.log|hooks\.log)")
"""Files of a run that are shown."""


def study_path(request: Request) -> Path:
    """The folder of the study in the request's path. Raises HTTPException 404 if it is not in the list."""
    index: StudyIndex = request.app.state.index
    path = index.find(request.path_params["study"])
    if path is None:
        raise HTTPException(404, "There is no study of this name in this folder.")
    return path


def run_path(study: Path, block: str, run: str) -> Path:
    """The folder of a finished run, by names from a listing. Raises HTTPException 404."""
    blocks = study / "blocks"
    if _BLOCK.fullmatch(block) and block in _names(blocks) and run in _names(blocks / block):
        path = (blocks / block / run).resolve()
        if path.parent == (blocks / block).resolve() and path.is_relative_to(study) and not run.startswith("."):
            return path
    raise HTTPException(404, "This study has no such finished run.")


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()}
    except OSError:
        return set()


@dataclass(frozen=True)
class RunCell:
    """One run in the grid of a study's page."""

    state: str
    """used, not used, failed, damaged, missing."""
    folder: str = ""
    """Folder of the run below the study; empty for a run that is missing."""
    words: str = ""
    """Why it is not used."""


@dataclass(frozen=True)
class RunGrid:
    """Blocks and lanes of a study."""

    lanes: tuple[str, ...]
    rows: tuple[tuple[int, tuple[RunCell, ...]], ...]
    """(block, its runs in the order of the lanes)."""
    planned_blocks: int


def run_grid(study: Path) -> RunGrid | None:
    """The runs of a study; None if its plan cannot be read."""
    try:
        plan: Plan = StudyFolder(study).plan()
    except UserError:
        return None
    lanes = list(dict.fromkeys((run.arm, run.copy_number) for block in plan.blocks for run in sorted(
        block.runs, key=lambda run: (run.copy_number, run.arm))))  # fmt: skip
    rows = []
    for block in plan.blocks:
        folders = {(run.arm, run.copy_number): run.folder for run in block.runs}
        cells = tuple(_cell(study, folders[lane]) if lane in folders else RunCell("missing") for lane in lanes)
        if any(cell.folder for cell in cells):
            rows.append((block.block, cells))
    return RunGrid(tuple(lane_name(arm, copy) for arm, copy in lanes), tuple(rows), len(plan.blocks))


def _cell(study: Path, folder: str) -> RunCell:
    path = study / folder / "run.json"
    try:
        if not path.is_file():
            return RunCell("missing")
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return RunCell("missing")
    except (OSError, ValueError) as error:
        return RunCell("damaged", folder, f"run.json cannot be read: {error}")
    if not isinstance(document, dict):
        return RunCell("damaged", folder, "run.json is not an object")
    if document.get("failed"):
        return RunCell("failed", folder, str(document["failed"]))
    if not document.get("valid", False):
        return RunCell("not used", folder, _reasons(document))
    steps = document.get("steps")
    of_steps = [_reasons(one) for one in steps if not one.get("valid", True)] if isinstance(steps, list) else []
    return RunCell("used", folder, "; ".join(filter(None, of_steps)))


def _reasons(document: dict[str, Any]) -> str:
    found = document.get("reasons")
    texts = [str(one.get("text", one) if isinstance(one, dict) else one) for one in found or ()]
    return "; ".join(texts)


@dataclass(frozen=True)
class TextFile:
    """A file of a run as it is shown; of a long one the end."""

    name: str
    text: str
    omitted_bytes: int


MOST_TEXT_BYTES = 200_000


def text_files(run: Path) -> list[TextFile]:
    """my.cnf and the logs of a run."""
    found = []
    for path in sorted(run.iterdir(), key=lambda path: (path.suffix != ".cnf", path.name)):
        if not TEXT_FILE.fullmatch(path.name) or path.is_symlink() or not path.is_file():
            continue
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - MOST_TEXT_BYTES))
            text = file.read().decode(errors="replace")
        found.append(TextFile(path.name, text, max(0, size - MOST_TEXT_BYTES)))
    return found


def run_commands(study: Path, record: RunRecord) -> list[dict[str, Any]]:
    """The programs that were started while a run lasted, with how each ended."""
    found: list[dict[str, Any]] = []
    open_: dict[int, dict[str, Any]] = {}
    for event in read_commands(study):
        at = event.get("unix_ns", 0)
        if event.get("event") == "opened":
            open_ = {}
        elif event.get("event") == "started" and record.started_unix_ns <= at <= record.ended_unix_ns:
            command = {**event, "end": None, "after_s": (at - record.started_unix_ns) / 1e9}
            open_[event["id"]] = command
            found.append(command)
        elif event.get("event") == "ended" and event.get("id") in open_:
            open_.pop(event["id"])["end"] = event
    return found


def run_problems(record: RunRecord) -> list[str]:
    """Why a run, or a step of it, does not count."""
    found = [reason.sentence for reason in record.reasons]
    if record.failed:
        found.insert(0, f"the arm failed: {record.failed}")
    for step in record.steps:
        if step.failed:
            found.append(f"{step.id}: the arm failed: {step.failed}")
        elif not step.valid:
            found.append(f"{step.id} is not used: {joined(step.reasons)}")
    return list(dict.fromkeys(found))


REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'"
)
"""A report is one file with its script inside, and may be a copy from anywhere. In the sandbox it has an origin of its
own: it cannot read these pages or their cookie, and it can load nothing."""


def show_study(request: Request) -> Response:
    """The page of a study."""
    path = study_path(request)
    index: StudyIndex = request.app.state.index
    row = index.row(path)
    result = evaluated(path)
    return render(
        "study.html",
        row=row,
        found=result and answer_of(result),
        summary=result and result.summary,
        grid=run_grid(path),
        has_report=_is_report(path),
    )


def _is_report(path: Path) -> bool:
    report = path / "report.html"
    return report.is_file() and not report.is_symlink()


async def show_report(request: Request) -> Response:
    """report.html as it was saved, in a sandbox."""
    path = study_path(request)
    if not _is_report(path):
        raise HTTPException(404, f"This study has no report yet. To write it: mydyno report {path.name}")
    return FileResponse(
        path / "report.html", media_type="text/html; charset=utf-8", headers={"content-security-policy": REPORT_POLICY}
    )


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


ROUTES = [
    Route("/studies/{study}", show_study),
    Route("/studies/{study}/report.html", show_report),
    Route(_RUN, show_run),
    Route(f"{_RUN}/telemetry", show_telemetry),
]
