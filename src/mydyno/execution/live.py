"""live.jsonl: what a study on this host does now and has done, a line a second and one when something happens.

`Live` stands between the study and its watcher, and passes every event on. It costs about 0.2 ms of CPU time a
second. The fields of the `second` lines are kept up to date by the study's events.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from mydyno import clock
from mydyno.drivers.base import Progress
from mydyno.errors import MydynoError
from mydyno.evaluation.answer import answer_of
from mydyno.evaluation.facts import Precision
from mydyno.execution.environments.probe import Sampler
from mydyno.execution.interleaved.block import BlockResult, SliceKind
from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import Plan, PlannedRun
from mydyno.model.stored.live import (
    EndState,
    LiveEnded,
    LiveNote,
    LiveOpened,
    LivePrecision,
    LiveRecord,
    LiveRun,
    LiveSecond,
    LiveState,
)
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.store.logs import LiveLog
from mydyno.wording.stored_result import StoredResult

INTERVAL_S = 1.0

Listener = Callable[[LiveRecord], None]
"""Receives every record as it is written, in the thread that writes it."""


class LiveWriter:
    """Writes to a study's live.jsonl, and passes every record to the listeners.

    Until open() nothing is written; notes wait for it. The seconds come from a thread, so that they continue while the
    study computes.
    """

    def __init__(
        self, second: Callable[[], LiveSecond], listeners: Iterable[Listener] = (), interval_s: float = INTERVAL_S
    ) -> None:
        self._second = second
        self._interval_s = interval_s
        self._listeners = tuple(listeners)
        self._lock = threading.Lock()
        self._log: LiveLog | None = None
        self._notes: list[LiveNote] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write_seconds, daemon=True, name="live.jsonl")

    def open(self, folder: Path, study: str, plan: Plan, resumed: bool) -> None:
        """Write to the folder's live.jsonl from now on."""
        identity = ProcessIdentity.of(os.getpid())
        assert identity is not None
        with contextlib.suppress(OSError):  # a full disk: the study continues without it
            self._log = LiveLog(folder)
        self.append(
            LiveOpened(
                unix_ns=clock.unix_ns(),
                study=study,
                resumed=resumed,
                pid=identity.pid,
                start_ticks=identity.start_ticks,
                boot_id=boot_id(),
                pid_namespace=pid_namespace(),
                hostname=platform.node(),
                design=plan.design,
            )
        )
        for note in self._notes:
            self.append(note)
        self._notes.clear()
        self._thread.start()

    def note(self, text: str) -> None:
        """A message of the study."""
        note = LiveNote(unix_ns=clock.unix_ns(), text=text)
        if self._log is None:
            self._notes.append(note)
        else:
            self.append(note)

    def append(self, record: LiveRecord) -> None:
        """One line; nothing before open() and after close()."""
        with self._lock:
            if self._log is None:
                return
            self._log.append(record)
        for listener in self._listeners:
            listener(record)

    def close(self, error: BaseException | None, result: StoredResult | None) -> None:
        """The last line: with what error the study ended, or with what result."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.append(_ended(error, result))
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()

    def _write_seconds(self) -> None:
        due_s = time.monotonic()
        while True:
            self.append(self._second())
            due_s = max(due_s + self._interval_s, time.monotonic())
            if self._stopping.wait(due_s - time.monotonic()):
                return


def live_run(record: RunRecord) -> LiveRun:
    """The line of a run that has ended."""
    failures = [record.failed] if record.failed else [f"{one.id}: {one.failed}" for one in record.steps if one.failed]
    of_steps = [reason for one in record.steps if not one.valid for reason in one.reasons]
    return LiveRun.like(
        record,
        unix_ns=clock.unix_ns(),
        group=record.host_group,
        reasons=tuple(dict.fromkeys((*record.reasons, *of_steps))),
        failed="; ".join(failures),
    )


def _ended(error: BaseException | None, result: StoredResult | None) -> LiveEnded:
    state: EndState = "failed"
    text = ""
    answer: tuple[str, ...] = ()
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        state, text = "interrupted", "interrupted; finished runs are kept"
    elif isinstance(error, MydynoError):
        text = error.message
    elif error is not None:
        text = f"{type(error).__name__}: {error}"
    elif result is not None:
        state, answer = result.summary.state, answer_of(result).answer
    return LiveEnded(unix_ns=clock.unix_ns(), state=state, text=text, answer=answer)


SERVER_METRICS = (
    "queries_per_s",
    "threads_running",
    "innodb_buffer_pool_hit_pct",
    "innodb_dirty_pages_pct",
    "innodb_checkpoint_age_bytes",
    "innodb_checkpoint_age_pct",
    "innodb_redo_written_bytes_per_s",
    "innodb_data_fsyncs_per_s",
    "innodb_row_lock_current_waits",
    "innodb_history_list_length",
    "server_rss_bytes",
)
"""Metrics of a server, from dynoprobe, that a line carries."""
LATENCIES = ("p50", "p95", "p99")


class AnyWatcher(Protocol):
    """Receives the progress of a study: a progress bar, a log, a test."""

    def say(self, text: str) -> None:
        """A message for the user."""

    def kept_in(self, folder: Path) -> None:
        """The study has a folder from now on."""


class Watcher(AnyWatcher, Protocol):
    """Of a study on this host."""

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:
        """A run begins; numbers count from 1 over the whole study."""

    def load(self, step: Step, progress: Progress) -> None:
        """A second of load has passed."""

    def run_ended(self, record: RunRecord) -> None:
        """A run is finished and saved."""

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:
        """A block of an interleaved study begins, with about so many cycles of each step."""

    def slice_begins(self, kind: SliceKind, step: Step) -> None:
        """The load of a lane begins."""

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        """A slice has ended."""

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        """A block is finished and saved."""


W = TypeVar("W", bound=AnyWatcher)


class Live(Generic[W]):
    """Writes what happens to live.jsonl and passes it on to the study's watcher. A context manager.

    Until keep_in() names the study's folder nothing is written. The last line is written when the context ends.
    """

    def __init__(self, watcher: W, listeners: Iterable[Listener] = (), interval_s: float = INTERVAL_S) -> None:
        self._watcher = watcher
        self._now = LiveNow()
        self._writer = LiveWriter(self._second, listeners, interval_s)
        self._remaining = Remaining()
        self._result: StoredResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close(value, self._result)

    def finished(self, result: StoredResult) -> None:
        """The study's result, for the last line."""
        self._result = result

    def say(self, text: str) -> None:
        """Keep the message."""
        self._writer.note(text)
        self._watcher.say(text)

    def pilot_ended(self, of: int, half_widths: Mapping[str, float]) -> None:
        """The precision that the pilot lets expect."""
        self._writer.append(pilot_precision(of, half_widths))

    def _second(self) -> LiveSecond:
        return self._now.second(self._remaining.left_s())


class LiveWatcher(Live[Watcher]):
    """Of a study on this host."""

    def keep_in(self, folder: Path, study: str, plan: Plan, resumed: bool) -> None:
        """Write to the folder's live.jsonl from now on."""
        self._now.set(blocks=len(plan.blocks), runs=len(plan.runs) if plan.design == "blocks" else None)
        self._writer.open(folder, study, plan, resumed)
        self._watcher.kept_in(folder)

    def run_begins(self, number: int, total: int, planned: PlannedRun) -> None:
        """Design blocks: restore and start."""
        self._remaining.begins(number - 1, total)
        self._now.rest("starting", block=planned.block, run=number, runs=total, arm=planned.arm,
                       copy_number=planned.copy_number)  # fmt: skip
        self._watcher.run_begins(number, total, planned)

    def sampling(self, sampler: Sampler | None) -> None:
        """From here on the servers are sampled, or (None) not any more: the load is over."""
        self._now.sampling(sampler)

    def load(self, step: Step, progress: Progress) -> None:
        """Design blocks: the last second's rates."""
        self._now.load(step, progress)
        self._watcher.load(step, progress)

    def run_ended(self, record: RunRecord) -> None:
        """A line for the run."""
        self._remaining.ended()
        self._writer.append(live_run(record))
        self._watcher.run_ended(record)

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:
        """Interleaved: restore and start the servers."""
        self._remaining.begins(block - 1, of, left_s)
        self._now.rest("starting", block=block, blocks=of, arm=None, copy_number=None)
        self._watcher.block_begins(block, of, left_s, cycles)

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        """The servers with these numbers are loaded from here on."""
        self._now.slice_begins(kind, step, cycle, planned, instances)
        self._watcher.slice_begins(kind, step)

    def slice_ended(self, step: Step, cycle: int, record: SliceRecord) -> None:
        """The slice's rates are those of the next seconds, until the next slice has ended."""
        self._now.slice_ended(record)
        self._watcher.slice_ended(step, cycle, record)

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        """Lines for the block's runs and for the precision."""
        self._remaining.ended()
        for run in result.runs:
            self._writer.append(live_run(run))
        if precision is not None:
            self._writer.append(live_precision(precision))
        self._watcher.block_ended(block, result, precision)


def live_precision(precision: Precision) -> LivePrecision:
    """The line of a precision."""
    return LivePrecision(
        unix_ns=clock.unix_ns(), blocks=precision.blocks, made=precision.made, half_widths=precision.half_widths
    )


def pilot_precision(of: int, half_widths: Mapping[str, float]) -> LivePrecision:
    """The line of what the pilot lets expect at `of` blocks."""
    return LivePrecision(unix_ns=clock.unix_ns(), blocks=of, made=0, half_widths=dict(half_widths))


@dataclass
class Remaining:
    """The time to the end of a study: as the study says, or from the mean time of its runs or blocks so far."""

    done: int = 0
    total: int = 0
    _first: int | None = None
    _began_s: float = 0.0
    _left: tuple[float, float] | None = None
    """(seconds left, at this monotonic time), where the study has a time."""
    _ended_s: float = field(default=0.0)
    now: Callable[[], float] = time.monotonic

    def begins(self, done: int, total: int, left_s: float | None = None) -> None:
        """A run or block begins; so many are done."""
        if self._first is None:
            self._first, self._began_s = done, self.now()
        self.done, self.total = done, total
        self._left = None if left_s is None else (left_s, self.now())

    def ended(self) -> None:
        """It has ended."""
        self.done += 1
        self._ended_s = self.now()

    def left_s(self) -> float | None:
        """None: not known yet."""
        now_s = self.now()
        if self._left is not None:
            return round(max(0.0, self._left[0] - (now_s - self._left[1])), 1)
        made = self.done - (self._first or 0)
        if made <= 0:
            return None
        each_s = (self._ended_s - self._began_s) / made
        return round(max(0.0, (self.total - self.done) * each_s - (now_s - self._ended_s)), 1)


class LiveNow:
    """The present state. Events come from the study, second() from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = LiveSecond(unix_ns=0, state="preparing")
        self._sampler: Sampler | None = None
        self._instances: frozenset[int] | None = frozenset()
        """Servers under load; None: all that are sampled."""

    def set(self, **changes: object) -> None:
        """Replace fields."""
        with self._lock:
            self._now = self._now.model_copy(update=changes)

    def rest(self, state: LiveState, **changes: object) -> None:
        """A state without load."""
        self.set(state=state, step=None, cycle=None, qps=None, tps=None, latency_us={}, errors_per_s=None, **changes)

    def sampling(self, sampler: Sampler | None) -> None:
        """From here on the servers are sampled, or (None) not any more: the load is over."""
        self._sampler = sampler
        self._instances = None
        if sampler is None:
            self.rest("analysing")

    def load(self, step: Step, progress: Progress) -> None:
        """Design blocks: the last second's rates."""
        self.set(
            state="warm-up" if progress.t_s <= step.warmup_s else "step",
            step=step.id,
            qps=round(progress.qps, 1),
            tps=round(progress.tps, 1),
            latency_us={name: round(value) for name, value in progress.latency_us.items()},
            errors_per_s=progress.errors_per_s,
        )

    def slice_begins(
        self, kind: SliceKind, step: Step, cycle: int, planned: PlannedRun, instances: Sequence[int]
    ) -> None:
        """The servers with these numbers are loaded from here on."""
        self._instances = frozenset(instances)
        self.set(state=kind, step=step.id, cycle=cycle or None, arm=planned.arm, copy_number=planned.copy_number)

    def slice_ended(self, record: SliceRecord) -> None:
        """The slice's rates are those of the next seconds, until the next slice has ended."""
        length_s = record.length_s or 1.0
        self.set(
            qps=round(record.done_queries / length_s, 1),
            tps=round(record.done_transactions / length_s, 1),
            latency_us={name: round(record.latency_us[name]) for name in LATENCIES if name in record.latency_us},
            errors_per_s=round(record.errors / length_s, 3),
        )

    def second(self, left_s: float | None = None) -> LiveSecond:
        """The state as it is now, with the newest samples."""
        changes: dict[str, object] = {"unix_ns": clock.unix_ns(), "left_s": left_s}
        sampler = self._sampler
        if sampler is not None:
            sample = sampler.newest()
            host = sample.get("host", {})
            if "cpu_user_pct" in host and "cpu_system_pct" in host:
                changes["cpu_busy_pct"] = round(host["cpu_user_pct"] + host["cpu_system_pct"], 2)
            changes["cpu_steal_pct"] = host.get("cpu_steal_pct")
            changes["server"] = _of_servers(sample, self._instances)
        return self._now.model_copy(update=changes)


def _of_servers(sample: Mapping[str, Mapping[str, float]], instances: frozenset[int] | None) -> dict[str, float]:
    """SERVER_METRICS of the servers under load together; a metric that one of them lacks is absent."""
    scopes = [
        metrics
        for scope, metrics in sample.items()
        if scope.startswith("instance:") and (instances is None or int(scope.partition(":")[2]) in instances)
    ]
    found = {}
    for name in SERVER_METRICS if scopes else ():
        values = [metrics[name] for metrics in scopes if name in metrics]
        if len(values) == len(scopes):
            found[name] = round(sum(values) / (len(values) if name.endswith("_pct") else 1), 3)
    return found
