"""Runs a study's coroutine to its end from the command line: signals, progress, the closing lines."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.streams import warn
from mydyno.cli.watcher import FleetProgress, ProgressWatcher
from mydyno.errors import HostError, StudyError
from mydyno.execution.live.writer import Listener
from mydyno.hosts.commands import end_apart, start_apart
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.summary import Summary
from mydyno.reports import write
from mydyno.reports.terminal import print_answer
from mydyno.results.precision import is_unanswered
from mydyno.store.study_folder import StudyFolder
from mydyno.visible import styled

Work = Callable[[Any], Awaitable[tuple[StudyFolder, Summary]]]
"""A study, with what is shown of it on stderr."""
Made = TypeVar("Made")
LOWEST_PRIORITY = 19
END_TIMEOUT_S = 5.0
RESTORED = "the host is restored; finished runs"


def listeners_of(metrics: Path | None) -> tuple[Listener, ...]:
    """What receives the records of live.jsonl: the file of --openmetrics, if one is wanted."""
    if metrics is None:
        return ()
    from mydyno.web.openmetrics import MetricsFile  # with the web server's own modules

    return (MetricsFile(metrics),)


def run_to_end(
    work: Work, as_json: bool, experiment: Experiment | None, batch: bool = False, served: Path | None = None
) -> None:
    """Run, then print the sentences and the report's path (or the summary as JSON) on stdout.

    `experiment`: of a study on this host; None: on host groups, or (`batch`) by a batch system, where blocks go on
    without this program. `served`: the folder of studies that is shown in a browser meanwhile. Ctrl-C and SIGTERM
    cancel the study, which cleans up and stays resumable: exit code 130.
    """
    with side_server(served):
        finish(*run_study_of(work, experiment, "finished blocks" if batch else RESTORED), as_json)


def run_study_of(work: Work, experiment: Experiment | None, kept: str = RESTORED) -> tuple[StudyFolder, Summary]:
    """Run with progress on stderr; print nothing on stdout. Ctrl-C as in run_to_end; `kept`: what remains then."""
    with FleetProgress() if experiment is None else ProgressWatcher(experiment) as watcher:
        try:
            return asyncio.run(with_signals(work(watcher)))
        except asyncio.CancelledError:
            words = "the host is restored; no study was begun"
            if watcher.folder is not None:
                words = f"{kept} are kept; to continue: {resume_command(watcher.folder)}"
            watcher.say(f"interrupted; {words}")
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except OSError as error:
            words = f"{error.strerror or error}: {error.filename or 'while the study ran'}"
            if watcher.folder is None:
                raise HostError(words, "no study was begun") from error
            raise StudyError(words, f"fix the cause, then continue: {resume_command(watcher.folder)}") from error


def resume_command(folder: Path) -> str:
    """What continues a study, as one can type it here."""
    return f"mydyno resume {shlex.quote(shown_path(folder))}"


async def with_signals(work: Awaitable[Made]) -> Made:
    """What the work returns; Ctrl-C, SIGTERM and SIGHUP cancel it."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def finish(folder: StudyFolder, summary: Summary, as_json: bool) -> None:
    """Write the report and print the answer with its table."""
    report = report_of(folder)
    if as_json:
        print(write(folder, "json"), end="")
    else:
        print()
        print_answer(folder, sys.stdout)
        print(f"\nreport: {report}")
    if summary.state == "failed":
        warn("mydyno: error: the study failed: no run is valid; the reasons are above and in the report")
        raise typer.Exit(ExitCode.STUDY_FAILED)
    if is_unanswered(summary, folder.runs()):
        warn("mydyno: error: invalid runs left no comparison with an answer; the reasons are above and in the report")
        raise typer.Exit(ExitCode.STUDY_FAILED)


def report_of(folder: StudyFolder) -> str:
    """Write the report, which a terminal shows meanwhile; its path as the user would write it."""
    with Console(file=styled(sys.stderr)).status("making the report", spinner="line"):
        return shown_path(Path(str(write(folder, "html"))))


def shown_path(path: Path) -> str:
    """A path as the user would write it: below the working directory without that."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


@contextmanager
def side_server(studies: Path | None) -> Iterator[None]:
    """`mydyno serve` of these studies beside a study, with the lowest priority; its URL is printed on stderr.

    Ctrl-C in the terminal does not reach it. It ends with the context; after kill -9 of this process it shows for a
    while that the study was killed, and then ends too. Raises HostError if it does not start.
    """
    if studies is None:
        yield
        return
    studies.mkdir(parents=True, exist_ok=True)
    own = str(os.getpid())
    argv = [sys.executable, "-m", "mydyno.cli", "serve", "--studies", str(studies), "--study-pid", own]
    process, started = start_apart(argv)
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST_PRIORITY)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise HostError("the server of --serve did not start", "its message is above; or leave --serve out")
        print(f"live: {url}", file=sys.stderr, flush=True)
        yield
    finally:
        end_apart(process, started, END_TIMEOUT_S)
