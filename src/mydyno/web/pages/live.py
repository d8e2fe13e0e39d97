"""/studies/ID/live: the study while it runs, its lines as server-sent events, and the stop button."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mydyno.document.page_assets import script_json
from mydyno.errors import MydynoError
from mydyno.model.metrics import phrase_of
from mydyno.results.families import verdict_metrics
from mydyno.store.live_log import LIVE_FILE
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import StudyIndex
from mydyno.web.live_status import stop_study
from mydyno.web.rendering import render
from mydyno.web.stream import history, live_events
from mydyno.web.studies import study_path


async def show_live(request: Request) -> Response:
    """The page; its script loads the history and then listens."""
    path = study_path(request)
    index: StudyIndex = request.app.state.index
    row = await run_in_threadpool(index.row, path)
    if not (path / LIVE_FILE).is_file():
        words = "This study has no live.jsonl: it was made by an earlier mydyno, or executed by other hosts."
        return render("problem.html", title="There is nothing live to show", words=words, row=row)
    return render("live.html", row=row, metrics=await run_in_threadpool(_metric_names, path))


def _metric_names(path: Path) -> Markup:
    """{name in live.jsonl: words} of what the study's precision is of; of a damaged study those of the pilot."""
    names: dict[str, str] = {}
    with suppress(MydynoError):
        experiment = StudyFolder.open(path).study().experiment
        workloads = {step.workload for step in experiment.resolved_steps}
        names |= {one: phrase_of(one, workloads).short_subject for one in verdict_metrics(experiment)}
    return script_json(names)


async def show_history(request: Request) -> Response:
    """What was written so far."""
    return JSONResponse(await run_in_threadpool(history, study_path(request)))


async def listen(request: Request) -> Response:
    """The lines after Last-Event-ID, or after the offset `from`."""
    path = study_path(request)
    text = request.headers.get("last-event-id") or request.query_params.get("from", "0")
    offset = int(text) if text.isdecimal() and len(text) < 16 else 0
    return StreamingResponse(live_events(path, offset), media_type="text/event-stream")


async def stop(request: Request) -> Response:
    """What Ctrl-C does: the study ends, restores the host and keeps its finished runs."""
    problem = await run_in_threadpool(stop_study, study_path(request))
    return JSONResponse({"problem": problem}, 409 if problem else 202)


_STUDY = "/studies/{study}"
ROUTES = [
    Route(f"{_STUDY}/live", show_live),
    Route(f"{_STUDY}/live/history", show_history),
    Route(f"{_STUDY}/live/events", listen),
    Route(f"{_STUDY}/stop", stop, methods=["POST"]),
]
