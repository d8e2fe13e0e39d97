"""/metrics: the figures of every study that runs, for Prometheus; only with `serve --metrics`."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.model.stored.live import LivePrecision, LiveSecond
from mydyno.store.live_log import LIVE_FILE, read_last_lines
from mydyno.web.access import Access
from mydyno.web.index import StudyIndex
from mydyno.web.openmetrics import CONTENT_TYPE, Figures, exposition


async def show_metrics(request: Request) -> Response:
    """Figures of studies that run; those that have ended are absent."""
    access: Access = request.app.state.access
    if not access.open_metrics:
        raise HTTPException(404, "This server was started without --metrics.")
    return await run_in_threadpool(_text, request.app.state.index)


def _text(index: StudyIndex) -> Response:
    running = [index.studies / row.id for row in index.rows() if row.state == "running"]
    return Response(exposition(map(_figures, running)), media_type=CONTENT_TYPE)


def _figures(study: Path) -> Figures:
    found = Figures(study.name, running=True)
    precision = None
    for line in reversed(read_last_lines(study / LIVE_FILE, 256 * 1024)):
        record = line.record
        if isinstance(record, LiveSecond):
            found.seconds.setdefault(record.group, record)
        elif isinstance(record, LivePrecision):
            precision = precision or record
    found.precision = precision
    return found


ROUTES = [Route("/metrics", show_metrics)]
