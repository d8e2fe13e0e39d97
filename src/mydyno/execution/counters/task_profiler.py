"""Profiles without perf: the states and kernel stacks of the servers' threads, sampled from /proc.

What is measured: of every thread that runs, is ready to run, or waits uninterruptibly (mostly for a disk), where it is
in the kernel: /proc/PID/task/TID/stat, then stack (root) and wchan of proc(5). Cost: one pass over the threads each 20
ms, in a thread of mydyno; a read of a file that stays open for each thread, 2 µs (100 threads, measured), and one or
two more for the threads that are counted; at most a tenth of a CPU, as passes that take long are made less often.
Passes that are left out are counted as lost samples: as many as the pass before them found. Wrong: the functions of the
server are not seen. The kernel shows no stack of a thread that is on a CPU: whether that one is in the kernel is judged
by which of its two CPU times grew more since the pass before, and those have steps of a tick. A thread that is ready to
run and has a stack is on no CPU: it waits for one, or fell asleep between the reads of its two files. Users other than
root see no stacks, and threads that wait for a CPU count as running.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.tracing.perf import KERNEL, UNKNOWN, Folded, frame_name
from mydyno.model.stored.records import ProfileMethod
from mydyno.servers.running.base import RunningServer
from mydyno.store.samples import RUN_QUEUE, WAITING

PROC = Path("/proc")
USER_CODE = "user code"
"""Frame of a running thread that is not in the kernel, or not known to be."""
KERNEL_CODE = "kernel code"
"""Frame of a thread that runs in the kernel on a CPU."""
BACK_TO_USER = frozenset({"irqentry_exit_to_user_mode", "exit_to_user_mode_loop"})
"""Innermost functions of threads that lost their CPU while they were in user mode."""
LIST_EVERY = 10
"""Passes from one look for new threads to the next."""
MOST_OPEN = 400
"""Files that stay open; those of further threads are opened each time. The usual limit of a process is 1024."""
STAT_BYTES = 1024
STACK_BYTES = 8192
_COUNTED = ("R", "D")


@dataclass
class _Task:
    """One thread."""

    folder: str
    file: int | None
    times: tuple[int, int] = (0, 0)
    """Ticks in user mode and in the kernel at the last pass."""


class TaskStates:
    """The threads of these processes, pass by pass. For use in one thread; close() in the end. Raises nothing."""

    def __init__(self, pids: Sequence[int], proc: Path = PROC) -> None:
        self.folders = [proc / str(pid) / "task" for pid in pids]
        self._tasks: dict[str, _Task] = {}
        self._open = 0
        self._passes = 0

    def count_into(self, folded: Folded) -> int:
        """One pass: count the threads that run or wait uninterruptibly; how many there were."""
        if self._passes % LIST_EVERY == 0:
            self._list()
        self._passes += 1
        found = 0
        for task in list(self._tasks.values()):
            stack = self._stack_of(task)
            if stack is not None:
                folded.stacks[stack] += 1
                folded.frames += len(stack)
                folded.unknown_frames += sum(frame.endswith(UNKNOWN) for frame in stack)
                found += 1
        return found

    def close(self) -> None:
        """Close every file; safe to call again."""
        for task in list(self._tasks.values()):
            self._drop(task)

    def _list(self) -> None:
        for folder in self.folders:
            with suppress(OSError), os.scandir(folder) as entries:
                for path in [entry.path for entry in entries]:
                    if path not in self._tasks:
                        self._add(path)

    def _add(self, path: str) -> None:
        file = None
        if self._open < MOST_OPEN:
            try:
                file = os.open(f"{path}/stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
            self._open += 1
        self._tasks[path] = _Task(path, file)

    def _drop(self, task: _Task) -> None:
        del self._tasks[task.folder]
        if task.file is not None:
            os.close(task.file)
            self._open -= 1

    def _stack_of(self, task: _Task) -> tuple[str, ...] | None:
        """Frames from the outermost; None: the thread sleeps, or has ended."""
        try:
            text = _read(f"{task.folder}/stat") if task.file is None else os.pread(task.file, STAT_BYTES, 0)
        except OSError:
            self._drop(task)
            return None
        head, _, rest = text.rpartition(b")")  # the name may have parentheses and spaces of its own
        fields = rest.split(None, 13)
        if len(fields) < 13:
            return None
        before, task.times = task.times, (int(fields[11]), int(fields[12]))
        state = fields[0].decode()
        if state not in _COUNTED:
            return None
        name = head.partition(b"(")[2].decode(errors="replace")
        root = name.replace(";", ":").replace("`", "'").replace("\n", " ") or UNKNOWN
        if state == "D":
            return (root, WAITING, *(_kernel_stack(task.folder) or (_wait_channel(task.folder),)))
        kernel = _kernel_stack(task.folder)
        if kernel:
            in_user = kernel[-1].partition("`")[2] in BACK_TO_USER
            return (root, RUN_QUEUE, USER_CODE) if in_user else (root, RUN_QUEUE, *kernel)
        user, system = (now - then for now, then in zip(task.times, before, strict=True))
        return (root, KERNEL_CODE if before != (0, 0) and system > user else USER_CODE)


def _read(path: str, most: int = STAT_BYTES) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def _kernel_stack(folder: str) -> tuple[str, ...]:
    """From the outermost function; empty: there is none, or this user may not read it."""
    try:
        lines = _read(f"{folder}/stack", STACK_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(reversed(list(_functions(lines))))


def _functions(lines: Iterable[str]) -> Iterable[str]:
    """Frames from lines like "[<0>] do_select+0x65c/0x940" and "[<0>] ext4_sync_file+0x1/0x2 [ext4]"."""
    for line in lines:
        symbol = line.partition("] ")[2].strip()
        if symbol and not symbol.startswith("0x"):
            yield frame_name(symbol, f"[{KERNEL}]")


def _wait_channel(folder: str) -> str:
    """The function that the thread waits in."""
    try:
        name = _read(f"{folder}/wchan").decode(errors="replace").strip()
    except OSError:
        name = ""
    return frame_name(UNKNOWN if name in ("", "0") else name, f"[{KERNEL}]")


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
