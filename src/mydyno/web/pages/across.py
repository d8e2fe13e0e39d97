"""/compare and /history: several studies side by side, and an experiment over all its studies on one host.

The documents are those of `mydyno compare` and `mydyno history`, in the sandbox of a report, inside a page of this
server. They are made when they are requested, since studies may have been added.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mydyno.errors import MydynoError
from mydyno.web.index import StudyIndex
from mydyno.web.pages.study import REPORT_POLICY
from mydyno.web.rendering import render

MOST_STUDIES = 12
"""More side by side cannot be read."""


def _named(request: Request) -> list[Path]:
    """The folders of the studies in the query. Raises HTTPException: 404 for a study that is not in the list."""
    index: StudyIndex = request.app.state.index
    names = list(dict.fromkeys(request.query_params.getlist("study")))
    if len(names) > MOST_STUDIES:
        raise HTTPException(422, f"At most {MOST_STUDIES} studies can be compared here.")
    paths = [index.find(name) for name in names]
    if None in paths:
        raise HTTPException(404, "There is no study of this name in this folder.")
    return [path for path in paths if path is not None]


def _two_or_more(request: Request) -> list[Path]:
    paths = _named(request)
    if len(paths) < 2:
        raise HTTPException(422, "Mark two studies or more in the list of studies, then compare them.")
    return paths


def _one(request: Request) -> list[Path]:
    paths = _named(request)
    if len(paths) != 1:
        raise HTTPException(422, "A history is of one experiment: it needs one of its studies.")
    return paths


def _comparison(paths: list[Path]) -> str:
    # scipy takes most of a second to load
    from mydyno.reports.across.comparison_page import comparison_page
    from mydyno.results.across.compare import compare_studies  # scipy
    from mydyno.results.across.saved import SavedStudy

    saved = [SavedStudy.read(path) for path in paths]
    made = compare_studies(saved)
    if not made.comparable:
        raise HTTPException(422, made.answer[0])
    return comparison_page(made, [one.folder for one in saved])


def _history(paths: list[Path]) -> str:
    # scipy takes most of a second to load
    from mydyno.reports.across.history_page import history_page
    from mydyno.results.across.history import Selection, find_studies, history_of  # scipy
    from mydyno.results.across.saved import SavedStudy

    one = SavedStudy.read(paths[0])
    found = find_studies(paths[0].resolve().parent)
    return history_page(history_of(found, one.summary.experiment, Selection(host=one.host)))


def _routes(
    name: str, title: str, choose: Callable[[Request], list[Path]], make: Callable[[list[Path]], str]
) -> list[Route]:
    def made(paths: list[Path]) -> str:
        try:
            return make(paths)
        except MydynoError as error:
            raise HTTPException(422, f"{error.message}. {error.hint}".rstrip(". ") + ".") from error

    async def show(request: Request) -> Response:
        paths = choose(request)
        await run_in_threadpool(made, paths)  # what cannot be shown is said here, not inside the frame
        query = urlencode([("study", path.name) for path in paths])
        return render("across.html", title=title, source=f"/{name}/page?{query}")

    async def show_document(request: Request) -> Response:
        text = await run_in_threadpool(made, choose(request))
        return HTMLResponse(text, headers={"content-security-policy": REPORT_POLICY})

    return [Route(f"/{name}", show), Route(f"/{name}/page", show_document)]


ROUTES = [
    *_routes("compare", "Comparison", _two_or_more, _comparison),
    *_routes("history", "History", _one, _history),
]
