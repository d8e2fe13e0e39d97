"""The lines of live.jsonl, as they are written: opened, one a second, what happens, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from mydyno import clock
from mydyno.errors import MydynoError
from mydyno.evaluation.answer import answer_of
from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.live import EndState, LiveEnded, LiveNote, LiveOpened, LiveRecord, LiveRun, LiveSecond
from mydyno.model.stored.records import RunRecord
from mydyno.store.live_log import LiveLog
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
    return LiveRun(
        unix_ns=clock.unix_ns(),
        block=record.block,
        arm=record.arm,
        copy=record.copy_number,
        folder=record.folder,
        group=record.host_group,
        valid=record.valid,
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
