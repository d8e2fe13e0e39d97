"""/design: an experiment as TOML while it is written, checked and previewed as `mydyno plan` does it; and started.

It is started for `serve --allow-run` alone: `mydyno run` as a process of its own, one at a time. The study continues
when the server ends, like one started in another terminal: its output is a file, and it has a session of its own, so
that neither Ctrl-C nor the end of the terminal reaches it. Its live page, of this server or of the next, stops it.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mydyno.errors import HostError, MydynoError
from mydyno.execution.planning.design_choice import with_copies
from mydyno.execution.planning.preview import OBSTACLE, plan_parts, preview
from mydyno.experiment_file.parsing import UNREAD, parse_experiment, scales_of
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import built_in, experiment_of, source_from_text, vocabulary
from mydyno.hosts.commands import DetachedCommand, redacted, start_detached
from mydyno.hosts.lock import another_study, lock_holder
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.problems import NAME_PATTERN, ExperimentError
from mydyno.store.logs import LIVE_FILE
from mydyno.treatments.coexistence import with_slices
from mydyno.web.access import read_body
from mydyno.web.rendering import FOLDER, render

TEMPLATES = {
    "one-variable": "one variable",
    "two-option-files": "two option files (my.cnf)",
    "two-servers": "two servers",
    "two-allocators": "two allocators",
    "my-sql": "my SQL",
    "my-log": "my log",
}
"""{file below designs/: what it compares, or loads}."""
FIRST = (OBSTACLE, "arms", "time")
"""What of a plan is shown at once, not in a fold."""
NOT_READ = (
    "The experiment is valid, but for the files that it names: this page reads them only with `mydyno serve "
    "--allow-run`. `mydyno plan` reads them."
)


@dataclass(frozen=True)
class Draft:
    """An experiment as it is at the moment."""

    toml: str
    scale: str | None = None
    """None: quick where the file has it, else standard."""
    time: str = ""

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Draft:
        """From what the page sent. Raises ValueError for what is no such thing."""
        values = [sent.get(name, "") for name in ("toml", "scale", "time")]
        if "toml" not in sent or not all(isinstance(value, str) for value in values):
            raise ValueError("toml, scale and time are texts")
        toml, scale, time = values
        return cls(toml, scale.strip() or None, time.strip())

    @property
    def file_name(self) -> str:
        """Name of the file, from the experiment's name where that is a possible one."""
        found = re.search(r'^name = "([^"]*)"', self.toml, re.MULTILINE)
        return f"{found[1] if found and re.fullmatch(NAME_PATTERN, found[1]) else 'experiment'}.toml"

    @property
    def options(self) -> list[str]:
        """Options for `mydyno plan` and `mydyno run`."""
        return [*(["--scale", self.scale] if self.scale else []), *(["--time", self.time] if self.time else [])]

    @property
    def command(self) -> str:
        """What starts the study in a terminal."""
        return shlex.join(["mydyno", "run", self.file_name, *self.options])


def start_text(name: str) -> str | None:
    """The text of a template or a built-in experiment; None if there is none of that name."""
    if name in TEMPLATES:
        return (FOLDER / "designs" / f"{name}.toml").read_text(encoding="utf-8")
    path = built_in().get(name)
    return None if path is None else path.read_text(encoding="utf-8")


def checked(draft: Draft, trusted: bool) -> dict[str, Any]:
    """What the page shows of a draft: the mistakes or the plan, and the command that starts it.

    `trusted`: files that it names are read, and servers that it names are started to learn their variables.
    """
    shown: dict[str, Any] = {
        "file": draft.file_name, "command": draft.command, "scales": [], "mistakes": None, "plan": None
    }  # fmt: skip
    try:
        source = source_from_text(draft.file_name, draft.toml)
        shown["scales"] = scales_of(source)
        shown["plan"] = _plan(draft, source, trusted)
    except ExperimentError as error:
        found = [_mistake(draft, problem.text(place)) for place, problem in error.mistakes]
        shown["mistakes"] = {"title": error.title, "found": found, "hint": error.hint}
    except MydynoError as error:
        found = [_mistake(draft, error.message)]
        shown["mistakes"] = {"title": f"a mistake in {draft.file_name}", "found": found, "hint": error.hint}
    return shown


def _mistake(draft: Draft, text: str) -> dict[str, Any]:
    """A message without the file's name, and its line, if it has one."""
    text = text.removeprefix(f"{draft.file_name}:").lstrip()
    at = re.match(r"(\d+): ", text)
    line = at or re.search(r"at line (\d+)", text)
    end = len(draft.toml.splitlines()) if "(at end of document)" in text else None
    return {"line": int(line[1]) if line else end, "text": text[at.end() :] if at else text}


def _plan(draft: Draft, source: TomlSource, trusted: bool) -> dict[str, Any]:
    """Raises MydynoError for an experiment that cannot be planned."""
    settings = [f"design.time={draft.time}"] if draft.time else []
    if trusted:
        experiment = experiment_of(source, draft.scale, settings, Path("/"))
    else:
        try:
            experiment = with_slices(parse_experiment(source, vocabulary(), draft.scale, settings))
        except ExperimentError as error:
            if any(problem.message != UNREAD for _, problem in error.mistakes):
                raise
            return _shown("", [], [("files", (NOT_READ,))])
        if any(step.replay for step in experiment.steps):
            return _shown(_title(experiment), [], [("files", (NOT_READ,))])
    paths = HostPaths.resolve()
    experiment = with_copies(experiment, paths)
    made = asyncio.run(preview(experiment, paths, start_programs=trusted))
    parts = plan_parts(experiment, made.plan, made.forecast)
    entries = [(entry.label, entry.lines) for part in parts for entry in part]
    return _shown(_title(experiment), made.forecast.obstacles, entries)


def _title(experiment: Experiment) -> str:
    return f"{experiment.name} ({experiment.scale}): {experiment.question}"


def _shown(title: str, obstacles: Sequence[str], entries: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    first = [entry for label in FIRST for entry in entries if entry[0] == label]
    rest = [entry for entry in entries if entry not in first]
    return {"title": title, "obstacles": list(obstacles), "first": first or rest, "rest": rest if first else []}


MOST_OUTPUT_BYTES = 64 * 1024
"""How much of the end of the output is shown."""


@dataclass(frozen=True)
class LaunchStatus:
    """What has become of the study that was started last."""

    state: str
    """none, preparing, running (it has a live page), ended."""
    study: str = ""
    exit_code: int | None = None
    output: str = ""
    """What it printed: progress and errors."""


class Launcher:
    """Starts studies into one folder, and knows the last one. Safe in several threads."""

    def __init__(self, studies: Path, folder: Path, lock_address: str) -> None:
        self._studies = studies.resolve()
        self._folder = folder
        self._lock_address = lock_address
        self._mutex = threading.Lock()
        self._command: DetachedCommand | None = None
        self._output = Path()
        self._study = ""

    def start(self, draft: Draft) -> None:
        """Start a study of this experiment. Raises HostError while one runs on this host, or where it cannot start."""
        with self._mutex:
            if self._command is not None and self._command.poll() is None:
                raise HostError(
                    "the study that was started here last has not ended", "wait for it to end, or stop it on its page"
                )
            if (holder := lock_holder(self._lock_address)) is not None:
                raise another_study(holder)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                place = Path(mkdtemp(prefix="study-", dir=self._folder))  # mode 0700: a file may have a password
                file = place / draft.file_name
                file.write_text(draft.toml, encoding="utf-8")
                self._output = place / "output.txt"
                argv = [sys.executable, "-m", "mydyno.cli", "run", str(file), "--studies", str(self._studies)]
                self._command = start_detached([*argv, *draft.options], self._output)
            except OSError as error:
                raise HostError(f"the study cannot be started: {error}") from error
            self._study = ""

    def status(self) -> LaunchStatus:
        """The state of the last study, and what it printed."""
        with self._mutex:
            if self._command is None:
                return LaunchStatus("none")
            exit_code = self._command.poll()
            if not self._study and (holder := lock_holder(self._lock_address)) and holder.pid == self._command.pid:
                self._study = holder.study
            is_live = bool(self._study) and (self._studies / self._study / LIVE_FILE).is_file()
            state = "ended" if exit_code is not None else "running" if is_live else "preparing"
            return LaunchStatus(state, self._study if is_live else "", exit_code, self._read_output())

    def _read_output(self) -> str:
        try:
            with self._output.open("rb") as file:
                file.seek(max(0, self._output.stat().st_size - MOST_OUTPUT_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(redacted(line) for line in text.splitlines())


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


def show_status(request: Request) -> Response:
    """What has become of it."""
    launcher: Launcher | None = request.app.state.launcher
    if launcher is None:
        raise HTTPException(404, "This server was started without --allow-run.")
    return JSONResponse(launcher.status().__dict__)


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
