"""The application: routes, files, the guard around everything; served on 127.0.0.1 or on a Unix socket until it is
stopped.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from mydyno.document.parts import ASSETS as REPORT_ASSETS
from mydyno.errors import UserError
from mydyno.hosts.identity import ProcessIdentity
from mydyno.web import openmetrics
from mydyno.web.access import Access, Guard, begin_session
from mydyno.web.index import StudyIndex
from mydyno.web.pages import across, design, live, studies, study
from mydyno.web.pages.design import Launcher
from mydyno.web.rendering import FOLDER, render

ASSETS: dict[str, Path] = {
    path.name: path
    for folder in (REPORT_ASSETS, FOLDER / "assets")
    for path in sorted(folder.iterdir())
    if path.suffix in (".css", ".js", ".svg")
}
"""Every file that pages load, by its name: nothing else is served."""
PAGES = (studies, study, live, across, design, openmetrics)


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


DEFAULT_PORT = 7227
LINGER_S = 10.0
"""How long the server of `run --serve` continues after a study that was killed, so that its pages show it."""
TICK_S = 10.0
"""How often the header Date is made again."""
SOCKET_PATH_BYTES = 107
"""What a Unix socket's address holds (unix(7))."""


@dataclass(frozen=True)
class Place:
    """Where to listen."""

    port: int | None = None
    """None: the usual one, or any free one if that is taken."""
    socket: Path | None = None
    """Instead of a port."""
    usual_port: int = DEFAULT_PORT


@contextmanager
def listening(place: Place) -> Iterator[tuple[socket.socket, str]]:
    """(the socket, its origin, e.g. http://127.0.0.1:7227). Raises UserError if it is taken."""
    if place.socket is not None:
        with _unix_socket(place.socket) as found:
            yield found, "http://localhost"
        return
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(found, place)
        yield found, f"http://127.0.0.1:{found.getsockname()[1]}"


def _bind(listener: socket.socket, place: Place) -> None:
    port = place.port
    for candidate in (place.usual_port, 0) if port is None else (port,):
        try:
            listener.bind(("127.0.0.1", candidate))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and candidate == place.usual_port and port is None:
                continue
            raise UserError(
                f"--port {candidate}: {error.strerror}", "choose another, or 0 for any free port"
            ) from error
        return


@contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise UserError(f"--socket {path}: longer than {SOCKET_PATH_BYTES} bytes", "choose a shorter path")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        if path.is_socket() and not _answers(path):
            path.unlink()  # of a server that was killed
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        except OSError as error:
            raise UserError(f"--socket {path}: {error.strerror}", "choose another path") from error
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            with suppress(OSError):
                path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def serve(
    index: StudyIndex,
    place: Place,
    announce: Callable[[str], None],
    *,
    open_metrics: bool = False,
    launcher: Launcher | None = None,
    study_process: ProcessIdentity | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` receives the URL with the token as soon as the server listens.

    `launcher`: starts studies from the page /design. `study_process`: end LINGER_S after this process has ended.
    Raises UserError if the place is taken.
    """
    with listening(place) as (listener, origin):
        port = origin.rpartition(":")[2]
        cookie = f"mydyno_session_{port}" if port.isdecimal() else "mydyno_session"
        access = Access(cookie, open_metrics)
        app = make_app(index, access, launcher)
        listener.listen(128)
        announce(f"{origin}/#token={access.token}")
        config = uvicorn.Config(
            app, lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=1, http="h11", ws="none", loop="asyncio",
        )  # fmt: skip
        asyncio.run(_serve(config, listener, study_process))


class _Server(uvicorn.Server):
    """uvicorn's server, for a host that is being measured, and ending by SIGINT and SIGTERM without raising them again
    (uvicorn does, before the clean-up)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = asyncio.Event()

    def end(self) -> None:
        """Serve no more."""
        self.should_exit = True
        self._over.set()

    async def main_loop(self) -> None:
        """Every TICK_S what uvicorn does ten times a second: wake-ups are most of what an idle server costs."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams that are still open end here; that is no error."""
        logging.getLogger("uvicorn.error").disabled = True
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle both while the server runs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        yield


async def _serve(config: uvicorn.Config, listener: socket.socket, study_process: ProcessIdentity | None) -> None:
    server = _Server(config)
    async with _ending_after(server, study_process):
        await server.serve(sockets=[listener])


@asynccontextmanager
async def _ending_after(server: _Server, process: ProcessIdentity | None) -> AsyncIterator[None]:
    if process is None:
        yield
        return

    async def watch() -> None:
        while process.alive():
            await asyncio.sleep(1.0)
        await asyncio.sleep(LINGER_S)
        server.end()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
