"""/metrics: the figures of every study that runs, for Prometheus; only with `serve --metrics`."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.model.live import LivePrecision
from mydyno.store.live_log import LIVE_FILE, read_last_lines
from mydyno.web.access import Access
from mydyno.web.index import StudyIndex
from mydyno.web.live_status import live_status
from mydyno.web.openmetrics import CONTENT_TYPE, Figures, exposition


async def show_metrics(request: Request) -> Response:
    """Figures of studies that run; those that have ended are absent."""
    access: Access = request.app.state.access
    if not access.open_metrics:
        raise HTTPException(404, "The server was started without --metrics.")
    return await run_in_threadpool(_text, request.app.state.index)


def _text(index: StudyIndex) -> Response:
    running = [index.studies / row.id for row in index.rows() if row.state == "running"]
    return Response(exposition(map(_figures, running)), media_type=CONTENT_TYPE)


def _figures(study: Path) -> Figures:
    status = live_status(study)
    lines = (line.record for line in reversed(read_last_lines(study / LIVE_FILE, 256 * 1024)))
    precision = next((one for one in lines if isinstance(one, LivePrecision)), None)
    return Figures(study.name, status.last, precision, running=True)


ROUTES = [Route("/metrics", show_metrics)]
