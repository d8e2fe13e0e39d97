"""Profiles without perf: the states and kernel stacks of the servers' threads, sampled from /proc (task_states.py).

Cost: one pass over the threads each 20 ms, in a thread of mydyno; at most a tenth of a CPU, as passes that take long
are made less often. Passes that are left out are counted as lost samples: as many as the pass before them found.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.tracing.perf import Folded
from mydyno.hosts.tracing.task_states import PROC, TaskStates
from mydyno.model.stored.records import ProfileMethod
from mydyno.servers.running.base import RunningServer

MOST_HZ = 50
MOST_SHARE = 0.1
"""Largest share of the time that passes over /proc may take."""
STOPPED_TIMEOUT_S = 30.0
THREAD = "task-sampler"


class TaskProfiler:
    """A sampler of /proc: where perf is missing."""

    event = "running or in uninterruptible wait"
    version = "/proc"
    method: ProfileMethod = "proc"

    def __init__(self, frequency_hz: int = MOST_HZ, proc: Path = PROC) -> None:
        self.frequency_hz = max(1, min(frequency_hz, MOST_HZ))
        self._proc = proc

    def start(self, servers: Sequence[RunningServer]) -> TaskRecording:
        """The recording of these servers, not yet started."""
        return TaskRecording(TaskStates([server.pid for server in servers], self._proc), 1.0 / self.frequency_hz)


class TaskRecording:
    """Samples of a few processes, taken by a thread from begin() to end()."""

    def __init__(self, states: TaskStates, interval_s: float) -> None:
        self.folded = Folded()
        self._states = states
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._sample, name=THREAD, daemon=True)

    async def begin(self) -> None:
        """Start the thread. Raises HostError if a process has no threads to read."""
        for folder in self._states.folders:
            if not folder.is_dir():
                raise HostError(f"the threads of process {folder.parent.name} cannot be read: {folder} is missing")
        self._thread.start()

    async def end(self) -> Folded:
        """End the thread, which then closes its files; what it sampled. Raises HostError."""
        await self.abandon()
        await asyncio.to_thread(self._thread.join, STOPPED_TIMEOUT_S)
        if self._thread.is_alive():
            raise HostError(f"the sampler of /proc did not end within {STOPPED_TIMEOUT_S:.0f} s")
        if self._error is not None:
            raise HostError(f"the sampler of /proc failed: {self._error!r}")
        return self.folded

    async def abandon(self) -> None:
        """End the thread, which closes its files."""
        self._stopping.set()

    def _sample(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
                began_s = time.monotonic()
                found = self._states.count_into(self.folded)
                ended_s = time.monotonic()
                passes = passes_ahead(due_s, ended_s, ended_s - began_s, self._interval_s)
                self.folded.lost += found * (passes - 1)
                due_s += passes * self._interval_s
        except Exception as error:  # end() raises it: the profile is missing, and the study continues
            self._error = error
        finally:
            self._states.close()


def passes_ahead(due_s: float, ended_s: float, took_s: float, interval_s: float) -> int:
    """How many intervals after its due time the next pass is due, 1 or more: after the end, and never too often."""
    next_s = max(ended_s, due_s + took_s / MOST_SHARE)
    return max(1, math.ceil((next_s - due_s) / interval_s - 1e-9))
