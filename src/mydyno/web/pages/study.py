"""/studies/ID: the answer and the runs; and the report, a page of its own."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from mydyno.evaluation.answer import answer_of
from mydyno.web.index import StudyIndex, evaluated
from mydyno.web.rendering import render
from mydyno.web.studies import run_grid, study_path

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'"
)
"""A report is one file with its script inside, and may be a copy from anywhere. In the sandbox it has an origin of its
own: it cannot read these pages or their cookie, and it can load nothing."""


async def show_study(request: Request) -> Response:
    """The page of a study."""
    path = study_path(request)
    index: StudyIndex = request.app.state.index
    return await run_in_threadpool(_page, path, index)


def _page(path: Path, index: StudyIndex) -> Response:
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


ROUTES = [Route("/studies/{study}", show_study), Route("/studies/{study}/report.html", show_report)]
