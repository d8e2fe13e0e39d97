"""/design: an experiment as TOML, with the messages and the preview of `mydyno plan`; --allow-run: starts it."""

from __future__ import annotations

import asyncio
import json

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mydyno.errors import MydynoError
from mydyno.experiments import built_in
from mydyno.web.access import read_body
from mydyno.web.launch import TEMPLATES, Draft, Launcher, checked, start_text
from mydyno.web.rendering import render

MOST_DESIGN_BYTES = 256 * 1024
"""Largest experiment that may be sent, in bytes: the largest built-in one has 6 KB."""
_CHECKING = asyncio.Semaphore(1)
"""One check at a time: the host may be measured."""


async def show_design(request: Request) -> Response:
    """The page with a template, or a built-in experiment; its script has it checked."""
    start = request.query_params.get("from") or next(iter(TEMPLATES))
    text = start_text(start)
    if text is None:
        raise HTTPException(404, "There is no template or built-in experiment of this name.")
    return render(
        "design.html",
        text=text,
        start=start,
        templates=TEMPLATES,
        known=list(built_in()),
        allow_run=request.app.state.launcher is not None,
    )


async def check(request: Request) -> Response:
    """The draft in the body: its mistakes, or its plan on this host."""
    draft = await _draft(request)
    trusted = request.app.state.launcher is not None
    async with _CHECKING:
        return JSONResponse(await run_in_threadpool(checked, draft, trusted))


async def run(request: Request) -> Response:
    """Start a study of the draft in the body; 409 with the reason if it is not started."""
    launcher: Launcher | None = request.app.state.launcher
    if launcher is None:
        raise HTTPException(403, "This server was started without --allow-run.")
    draft = await _draft(request)
    async with _CHECKING:
        shown = await run_in_threadpool(checked, draft, True)
    if mistakes := shown["mistakes"]:
        return JSONResponse({"problem": mistakes["title"], "hint": mistakes["hint"]}, 409)
    if obstacles := shown["plan"]["obstacles"]:
        return JSONResponse({"problem": "; ".join(obstacles), "hint": ""}, 409)
    try:
        await run_in_threadpool(launcher.start, draft)
    except MydynoError as error:
        return JSONResponse({"problem": error.message, "hint": error.hint}, 409)
    return JSONResponse({"problem": ""}, 202)


async def show_started(request: Request) -> Response:
    """The page of a study that was started here, until it has a live page."""
    if request.app.state.launcher is None:
        raise HTTPException(404, "This server was started without --allow-run.")
    return render("started.html")


async def show_status(request: Request) -> Response:
    """What has become of it."""
    launcher: Launcher | None = request.app.state.launcher
    if launcher is None:
        raise HTTPException(404, "This server was started without --allow-run.")
    return JSONResponse((await run_in_threadpool(launcher.status)).__dict__)


async def _draft(request: Request) -> Draft:
    body = await read_body(request, MOST_DESIGN_BYTES)
    try:
        sent = json.loads(body)
        return Draft.of(sent if isinstance(sent, dict) else {})
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"This is no experiment: {error}.") from None


ROUTES = [
    Route("/design", show_design),
    Route("/design/check", check, methods=["POST"]),
    Route("/design/run", run, methods=["POST"]),
    Route("/design/started", show_started),
    Route("/design/started/status", show_status),
]
