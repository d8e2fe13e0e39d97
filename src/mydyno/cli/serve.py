"""`mydyno serve`: pages over the studies of a folder, and over the one that runs."""

from __future__ import annotations

import tempfile
import webbrowser
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from mydyno.cli import arguments
from mydyno.errors import UserError
from mydyno.hosts.identity import ProcessIdentity
from mydyno.hosts.paths import HostPaths


def serve(
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port on 127.0.0.1; 0: any free one (default: 7227, or any free one if it is taken).",
            min=0,
            max=65535,
            metavar="N",
        ),
    ] = None,
    socket: Annotated[
        Path | None, typer.Option(help="Listen on a Unix socket instead; only this user can connect.", metavar="PATH")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in this user's browser.")] = False,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics", help="Current figures for Prometheus at /metrics, without token: for every user of this host."
        ),
    ] = False,
    allow_run: Annotated[
        bool,
        typer.Option(
            "--allow-run", help="Permit the browser to start studies on this host, as this user, from the page Design."
        ),
    ] = False,
    study_pid: Annotated[int | None, typer.Option(hidden=True, help="End soon after this process.")] = None,
) -> None:
    """Show studies, and the one that runs, in a browser on this host. Ctrl-C ends it."""
    if port is not None and socket is not None:
        raise UserError("--port and --socket exclude each other")
    if socket is not None and open_:
        raise UserError("--open: a browser cannot open a Unix socket", "forward it: ssh -L 7227:PATH HOST")
    if not studies.is_dir():
        raise UserError(f"--studies {studies}: no such folder", "`mydyno run` creates it with the first study")
    # After the checks, so that mistakes are reported at once: the web server takes a moment to load.
    from mydyno.web.index import StudyIndex
    from mydyno.web.pages.design import Launcher  # with the web server's own modules
    from mydyno.web.server import Place, serve  # uvicorn

    paths = HostPaths.resolve()
    process = None
    if study_pid is not None:
        # A study that has ended meanwhile is a process that will never be alive.
        process = ProcessIdentity.of(study_pid) or ProcessIdentity(study_pid, -1)
    with ExitStack() as stack:

        def announce(url: str) -> None:
            print(url, flush=True)
            if open_:
                _open_browser(url, stack)

        serve(
            StudyIndex(studies, paths.cache / "web"),
            Place(port, socket),
            announce,
            open_metrics=metrics,
            launcher=Launcher(studies, paths.cache / "web" / "designs", paths.study_lock_address)
            if allow_run
            else None,
            study_process=process,
        )


def _open_browser(url: str, stack: ExitStack) -> None:
    """By a file that only this user can read: arguments of programs, and so the token, are visible to all users."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mydyno-")))
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(url)}">', "utf-8")
    webbrowser.open(page.as_uri())
