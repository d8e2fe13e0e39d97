"""/ : the list of studies, with search and filter."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.web.index import STATES, Row, StudyIndex
from mydyno.web.rendering import render

ROWS_PER_PAGE = 100


@dataclass(frozen=True)
class Filter:
    """What the list is limited to."""

    words: str = ""
    state: str = ""
    host: str = ""
    server: str = ""

    @classmethod
    def of(cls, request: Request) -> Filter:
        """From the query of the request's URL."""
        query = request.query_params
        return cls(query.get("q", "").strip()[:200], query.get("state", ""), query.get("host", ""),
                   query.get("server", ""))  # fmt: skip

    def takes(self, row: Row) -> bool:
        """Whether a row is shown."""
        chosen = ((self.state, row.state), (self.host, row.host), (self.server, row.server))
        if any(wanted and wanted != found for wanted, found in chosen):
            return False
        return all(word in row.text for word in self.words.casefold().split())


async def list_studies(request: Request) -> Response:
    """The page; with `part=results` the table alone."""
    index: StudyIndex = request.app.state.index
    rows = await run_in_threadpool(index.rows)
    chosen = Filter.of(request)
    found = [row for row in rows if chosen.takes(row)]
    page = max(1, int(number) if (number := request.query_params.get("page", "1")).isdecimal() else 1)
    pages = max(1, -(-len(found) // ROWS_PER_PAGE))
    page = min(page, pages)
    template = "results.html" if request.query_params.get("part") == "results" else "studies.html"
    return render(
        template,
        rows=found[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE],
        matching=len(found),
        total=len(rows),
        page=page,
        pages=pages,
        chosen=chosen,
        running=[row for row in rows if row.state == "running"],
        states=[state for state in STATES if any(row.state == state for row in rows)],
        hosts=sorted({row.host for row in rows if row.host}),
        servers=sorted({row.server for row in rows if row.server}),
        folder=str(index.studies),
        page_url=lambda number: request.url.include_query_params(page=number).remove_query_params("part").query,
    )


ROUTES = [Route("/", list_studies)]
