"""Runs a study's coroutine to its end from the command line: signals, progress, the closing lines.

Progress is on stderr, never on stdout: one line that is rewritten on a terminal, plain lines elsewhere. A terminal's
line has a clock, from the start of the command to the end of the report: whatever takes long, it moves. A study over
host groups has a line for each group.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from types import TracebackType
from typing import Any, Self, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from mydyno.cli import ExitCode, cancel_on_signals
from mydyno.cli.streams import warn
from mydyno.drivers import base
from mydyno.errors import HostError, StudyError
from mydyno.evaluation.facts import Precision, precision_words
from mydyno.execution.interleaved.block import BlockResult, SliceKind
from mydyno.execution.live import Listener
from mydyno.execution.planning.forecast import RUN_OVERHEAD_S
from mydyno.hosts.commands import end_apart, start_apart
from mydyno.language import agreed
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.definition.quantities import format_duration
from mydyno.model.metrics import lane_name
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.model.stored.summary import Summary
from mydyno.reports import write
from mydyno.reports.formats import print_answer
from mydyno.results.precision import is_unanswered
from mydyno.store.study_folder import StudyFolder
from mydyno.visible import styled
from mydyno.wording.numbers import half_width_text

REFRESHES_PER_S = 2
WORTH_KNOWING = 0.02
"""Share of the CPU time of others from which on a block's line names it."""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


class _Shown:
    """What is shown on stderr while a study runs. Use as a context manager."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self.folder: Path | None = None
        """The study's, once it has one."""
        self._console = Console(file=styled(sys.stderr), highlight=False)
        self._bar = Progress(
            *columns,
            console=self._console,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def kept_in(self, folder: Path) -> None:
        """What the last line names."""
        self.folder = folder

    def say(self, text: str) -> None:
        """A line of its own."""
        self._console.print(agreed(text), markup=False, soft_wrap=True)


class ProgressWatcher(_Shown):
    """Shows a study while it runs: current run and step, live QPS, time left."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(
            TimeElapsedColumn(), TextColumn("{task.percentage:>3.0f} % · {task.description}{task.fields[tail]}")
        )
        self._every_block = not self._console.is_terminal or logging.getLogger("mydyno").isEnabledFor(logging.DEBUG)
        """Whether each block, or run, has a line of its own; else the bar shows the last one, and only failures do."""
        self._noted: list[str] = []
        """What the bar shows of the last block."""
        self._task = self._bar.add_task("preparing", total=None, tail="")
        self._began = 0.0
        self._load_s = sum(step.warmup_s + step.measure_s for step in experiment.resolved_steps)
        """Of a run."""
        self._run = ""
        self._done_runs = 0
        self._skipped = 0
        self._total = 0
        self._loaded_s = 0.0
        self._steps_done_s = 0.0
        self._left_s: float | None = None
        self._left_at = 0.0

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:
        """Move the bar to this run."""
        if not self._began:
            self._began = time.monotonic()
            self._skipped = number - 1
        self._total = total
        self._done_runs = number - 1
        self._steps_done_s = self._loaded_s = 0.0
        self._run = f"run {number}/{total}  block {planned.block}  {lane_name(planned.arm, planned.copy_number)}"
        self._show("restoring and starting")

    def load(self, step: Step, progress: base.Progress) -> None:
        """Show the last second's rate."""
        if progress.t_s <= 1:
            self._steps_done_s = self._loaded_s
        self._loaded_s = self._steps_done_s + progress.t_s
        phase = "warm-up" if progress.t_s <= step.warmup_s else "measure"
        self._show(f"{step.id} {phase}  {progress.qps:,.0f} queries/s")

    def run_ended(self, record: RunRecord) -> None:
        """How long a run took, and what failed or is not used; never a rate of the arm."""
        name = lane_name(record.arm, record.copy_number)
        seconds = (record.ended_unix_ns - record.started_unix_ns) / 1e9
        verdict = "" if record.valid else f"  INVALID: {shorten(record.reasons[0].sentence, 240, placeholder=' …')}"
        if verdict or self._every_block:
            self._console.print(
                f"block {record.block:>2} · {name} · {format_duration(seconds)}{verdict}", markup=False, soft_wrap=True
            )
        for step in record.steps:
            if record.valid and (step.failed or step.reasons):
                words = f"FAILED: {step.failed}" if step.failed else f"is not used: {step.reasons[0].sentence}"
                self._console.print(f"          {step.id} {words}", markup=False, soft_wrap=True)

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:  # noqa: ARG002
        """Move the bar to this block."""
        if not self._began:
            self._began = time.monotonic()
        elif of != self._total:
            less = "less" if of > self._total else "more"
            self.say(f"{of} blocks are planned now instead of {self._total}: blocks take {less} time than expected")
        self._total, self._done_runs = of, block - 1
        self._left_at, self._left_s = time.monotonic(), left_s
        self._run = f"block {block}/{of}"
        self._show_block("starting the servers")

    def slice_begins(self, kind: SliceKind, step: Step) -> None:
        """Show what is no slice of a cycle, and what takes a whole block."""
        if step.statements or kind != "slice":
            self._show_block(f"{step.id} {'comparison' if step.statements else kind}")

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        """Show the step and the cycle; never a rate of one arm beside another's."""
        steal = "" if record.steal is None or record.steal < WORTH_KNOWING else f"  steal {_percent(record.steal)}"
        self._show_block(f"{step.id} cycle {cycle}{steal}")

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        """What failed; and, in a line or in the bar, what the host gave and the precision to be expected."""
        words = []
        for name, shares in (
            ("other programs", [one.strangers for one in result.slices if one.strangers is not None]),
            ("steal", [one.steal for one in result.slices if one.steal is not None]),
        ):
            if shares and sum(shares) / len(shares) >= WORTH_KNOWING:
                words.append(f"{name} {_percent(sum(shares) / len(shares))}")
        widest = max(precision.half_widths.values(), default=None) if precision is not None else None
        self._noted = words if widest is None else [*words, f"intervals {half_width_text(widest)}"]
        if precision is not None:
            words = [*words, precision_words(precision)]
        if self._every_block:
            line = " · ".join([f"block {block:>2}/{self._total}", f"{len(result.slices)} slices", *words])
            self._console.print(agreed(line), markup=False, soft_wrap=True)
        for run in result.runs:
            failures = [run.failed] if run.failed else [f"{s.id}: {s.failed}" for s in run.steps if s.failed]
            word = "FAILED" if failures else "not used"
            for reason in failures or [reason.sentence for reason in run.reasons[:1]]:
                self._console.print(
                    f"          {lane_name(run.arm, run.copy_number)} {word}: "
                    + shorten(reason, 240, placeholder=" …"),
                    markup=False,
                    soft_wrap=True,
                )
        self._show_block("evaluation")

    def _show_block(self, what: str) -> None:
        words = [*self._noted, what]
        if self._left_s is not None:
            left_s = max(0.0, self._left_s - (time.monotonic() - self._left_at))
            words.insert(0, f"about {format_duration(left_s)} left")
        tail = "".join(f" · {one}" for one in words)
        self._bar.update(self._task, description=self._run, completed=self._done_runs, total=self._total, tail=tail)

    def _show(self, what: str) -> None:
        share = min(self._loaded_s / self._load_s, 1.0) if self._load_s else 0.0
        done = self._done_runs + share
        made = done - self._skipped
        per_run_s = self._load_s + RUN_OVERHEAD_S
        if made > 0.5:
            per_run_s = (time.monotonic() - self._began) / made
        left = format_duration(max(0.0, (self._total - done) * per_run_s))
        self._bar.update(
            self._task, description=self._run, completed=done, total=self._total, tail=f" · {what}  about {left} left"
        )


class FleetProgress(_Shown):
    """Shows what each group does."""

    def __init__(self) -> None:
        super().__init__(TextColumn("{task.fields[group]}"), TextColumn("{task.description}"), TimeElapsedColumn())
        self._tasks: dict[str, TaskID] = {}
        self._blocks: dict[str, str] = {}

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """A message of a group, or what it does now."""
        if lasting:
            self.say(f"{group}: {text}")
        else:
            self._show(group, " ".join(filter(None, (self._blocks.get(group), text))))

    def block_leased(self, group: str, block: int, of: int) -> None:
        """Show the block in the group's line, its time from zero."""
        self._blocks[group] = f"block {block}/{of}"
        self._show(group, f"block {block}/{of} starting the servers")
        self._bar.reset(self._tasks[group])

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """One line a block."""
        words = [f"block {block:>2}", *([group] if group else []), f"{made} of {of} done"]
        if precision is not None:
            words.append(precision_words(precision))
        self.say(" · ".join(words))
        if self._blocks.pop(group, None):
            self._show(group, "idle")

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """Why a group takes no blocks, and whether it is retried."""
        then = "it takes no blocks of this study" if for_good else "its block is executed again"
        self.say(f"{group} LOST: {shorten(why, 400, placeholder=' …')}; {then}")
        self._blocks.pop(group, None)
        self._show(group, "lost")

    def _show(self, group: str, text: str) -> None:
        if group not in self._tasks:
            self._tasks[group] = self._bar.add_task(text, total=None, group=group)
        else:
            self._bar.update(self._tasks[group], description=text)


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
    """What the work returns; cancel_on_signals applies to it."""
    task = asyncio.ensure_future(work)
    cancel_on_signals(task)
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
