"""The application: routes, files, and the guard around everything."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from mydyno.document.page_assets import ASSETS as REPORT_ASSETS
from mydyno.web.access import Access, Guard, begin_session
from mydyno.web.index import StudyIndex
from mydyno.web.launch import Launcher
from mydyno.web.pages import across, design, live, metrics, run, studies, study
from mydyno.web.rendering import FOLDER, render

ASSETS: dict[str, Path] = {
    path.name: path
    for folder in (REPORT_ASSETS, FOLDER / "assets")
    for path in sorted(folder.iterdir())
    if path.suffix in (".css", ".js", ".svg")
}
"""Every file that pages load, by its name: nothing else is served."""
PAGES = (studies, study, live, run, across, design, metrics)


def make_app(index: StudyIndex, access: Access, launcher: Launcher | None = None) -> Starlette:
    """The application for the studies of one folder; `launcher`: starts studies into it."""
    app = Starlette(
        routes=[
            *(route for page in PAGES for route in page.ROUTES),
            Route("/session", begin_session, methods=["GET", "POST"]),
            Route("/assets/{name}", _asset),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _problem, Exception: _bug},
    )
    app.state.index = index
    app.state.access = access
    app.state.launcher = launcher
    return app


async def _asset(request: Request) -> Response:
    path = ASSETS.get(request.path_params["name"])
    if path is None:
        raise HTTPException(404, "There is no such file.")
    return FileResponse(path, headers={"cache-control": "no-cache"})


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    titles = {404: "Not found", 405: "Not allowed"}
    title = titles.get(error.status_code, "This cannot be shown")
    of_router = {404: "There is no such page.", 405: "This page does not accept this kind of request."}
    words = error.detail
    if words == HTTPStatus(error.status_code).phrase:  # what Starlette's router has, in English
        words = of_router.get(error.status_code, words)
    return render("problem.html", error.status_code, title=title, words=words, row=None)


async def _bug(_request: Request, error: Exception) -> Response:
    words = f"{type(error).__name__}: {error}"
    return render("problem.html", 500, title="This page cannot be shown: a bug in mydyno", words=words, row=None)
