"""Runs a study's coroutine to its end from the command line: signals, progress, the closing lines."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console

from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.streams import warn
from mydyno.cli.watcher import FleetProgress, ProgressWatcher
from mydyno.errors import HostError, StudyError
from mydyno.execution.live.writer import Listener
from mydyno.execution.planning.forecast import RUN_OVERHEAD_S
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.summary import Summary
from mydyno.reports import write
from mydyno.reports.terminal import print_answer
from mydyno.results.precision import is_unanswered
from mydyno.store.study_folder import StudyFolder
from mydyno.visible import styled

Work = Callable[[ProgressWatcher], Awaitable[tuple[StudyFolder, Summary]]]
Made = TypeVar("Made")
FleetWork = Callable[[FleetProgress], Awaitable[tuple[StudyFolder, Summary]]]


def listeners_of(metrics: Path | None) -> tuple[Listener, ...]:
    """What receives the records of live.jsonl: the file of --openmetrics, if one is wanted."""
    if metrics is None:
        return ()
    from mydyno.web.openmetrics import MetricsFile  # with the web server's own modules

    return (MetricsFile(metrics),)


def run_to_end(work: Work, experiment: Experiment, as_json: bool) -> None:
    """Run, then print the sentences and the report's path (or the summary as JSON) on stdout.

    Ctrl-C and SIGTERM cancel the study, which cleans up and stays resumable: exit code 130.
    """
    folder, summary = run_study_here(work, experiment)
    finish(folder, summary, as_json)


def run_fleet_to_end(work: FleetWork, as_json: bool) -> None:
    """As run_to_end, for a study over host groups."""
    folder, summary = run_fleet_study(work)
    finish(folder, summary, as_json)


def run_batch_to_end(work: FleetWork, as_json: bool) -> None:
    """As run_to_end, for a study whose blocks a batch system executes: they go on without this program."""
    with FleetProgress() as watcher:
        folder, summary = _run(work(watcher), watcher, "finished blocks")
    finish(folder, summary, as_json)


def run_study_here(work: Work, experiment: Experiment) -> tuple[StudyFolder, Summary]:
    """Run with progress on stderr; print nothing on stdout. Ctrl-C as in run_to_end."""
    load_s = sum(step.warmup_s + step.measure_s for step in experiment.resolved_steps)
    with ProgressWatcher(load_s, RUN_OVERHEAD_S) as watcher:
        return _run(work(watcher), watcher)


def run_fleet_study(work: FleetWork) -> tuple[StudyFolder, Summary]:
    """As run_study_here, for a study over host groups."""
    with FleetProgress() as watcher:
        return _run(work(watcher), watcher)


def _run(
    work: Awaitable[tuple[StudyFolder, Summary]],
    watcher: ProgressWatcher | FleetProgress,
    restored: str = "the host is restored; finished runs",
) -> tuple[StudyFolder, Summary]:
    try:
        return asyncio.run(with_signals(work))
    except asyncio.CancelledError:
        kept = "the host is restored; no study was begun"
        if watcher.folder is not None:
            kept = f"{restored} are kept; to continue: {resume_command(watcher.folder)}"
        watcher.say(f"interrupted; {kept}")
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
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
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
    if is_unanswered(summary, folder.study().experiment, folder.runs()):
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
