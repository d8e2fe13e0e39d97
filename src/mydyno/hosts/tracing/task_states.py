"""What the threads of processes do at this moment: their states and kernel stacks, from /proc. Needs no perf.

What is measured: of every thread that runs, is ready to run, or waits uninterruptibly (mostly for a disk), where it is
in the kernel: /proc/PID/task/TID/stat, then stack (root) and wchan of proc(5). Cost: a read of a file that stays open
for each thread, 2 µs (100 threads, measured), and one or two more for the threads that are counted. Wrong: the
functions of the server are not seen. The kernel shows no stack of a thread that is on a CPU: whether that one is in the
kernel is judged by which of its two CPU times grew more since the pass before, and those have steps of a tick. A thread
that is ready to run and has a stack is on no CPU: it waits for one, or fell asleep between the reads of its two files.
Users other than root see no stacks, and threads that wait for a CPU count as running.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.tracing.perf import KERNEL, UNKNOWN, Folded, frame_name
from mydyno.store.slices import RUN_QUEUE, WAITING

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
