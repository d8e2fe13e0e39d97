"""The CPUs and the memory that mydyno and its children may use: the least that host, affinity and control groups allow.
The files that they may open: the same number on every host that allows it. The processes and threads of a group.

Every group from mydyno's own up to the mount counts, of either version. CPUs may be a fraction: a quota of 50 ms in
100 ms is half a CPU. The affinity contains the cpuset already (cpuset(7)). What a container does not see above its own
root is unknown. Sources: the kernel's cgroup-v2.rst, sched-bwc.rst, cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.cgroups import lineage
from mydyno.hosts.root import HERE, HostRoot, text_of

MEMORY_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
OPEN_FILES = 65_536
"""Soft limit of each server: old ones allocate memory by it (MySQL 5.6: 5 % of its RSS between 2048 and 20000)."""
TASKS = 1024
"""Processes and threads: two servers have some 40 each and one a connection, and the load programs as many."""
MOST_WALKS = 100
"""Over the threads of a process."""
QUOTA_FILES = ("cpu.max", "cpu.cfs_quota_us")


@dataclass(frozen=True)
class Usable:
    """CPUs or bytes, and the file or the call that allows no more; empty: the host has no more."""

    amount: float
    limit: str = ""

    @property
    def where(self) -> str:
        """In parentheses after the amount: " (limit: /sys/fs/cgroup/cpu.max)"; empty without a limit."""
        return f" (limit: {self.limit})" if self.limit else ""


def usable_cpus(root: HostRoot = HERE) -> Usable:
    """CPUs, also a part of one."""
    mask = len(root.cpus)
    affinity = Usable(mask, "CPU affinity or cpuset" if mask < root.cpu_count else "")
    quotas = [Usable(cpus, str(path)) for path in _files(root, "cpu", QUOTA_FILES) if (cpus := _quota(path))]
    return min([affinity, *quotas], key=lambda one: one.amount)


def usable_memory(root: HostRoot = HERE) -> Usable:
    """Bytes."""
    host = Usable(root.memory_bytes)
    found = [(path, _words(path)) for path in _files(root, "memory", MEMORY_FILES)]
    limits = [Usable(int(words[0]), str(path)) for path, words in found if words and words[0].isdigit()]
    return min([host, *limits], key=lambda one: one.amount)


def whole_cpus() -> int:
    """How many threads the usable CPUs can keep busy: at least 1."""
    return ceil(usable_cpus().amount)


def open_files(hard: int | None = None) -> int:
    """The soft limit on open files that servers get: OPEN_FILES, or the hard limit where that is less."""
    if hard is None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)


def set_open_files() -> None:
    """Set that limit for this process, and so for its children; a program that needs more raises it itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files(), hard))


def open_files_of(pid: int) -> int:
    """The soft limit of a live process; 0 where it cannot be read."""
    line = next((words for words in _lines(HERE.proc / f"{pid}/limits") if words[:3] == ["Max", "open", "files"]), [])
    return int(line[3]) if line and line[3].isdigit() else 0


def threads_of(pid: int) -> set[int]:
    """The threads of a process; none where it has ended."""
    return {int(thread.name) for thread in (HERE.proc / f"{pid}/task").glob("[0-9]*")}


def affinities_of(pid: int) -> list[set[int]]:
    """The CPUs that each thread of a process may use; threads that have ended are left out."""
    found = []
    for thread in threads_of(pid):
        try:
            found.append(os.sched_getaffinity(thread))
        except OSError:
            continue
    return found


def set_affinity(pid: int, cpus: Collection[int], threads: Callable[[int], set[int]] = threads_of) -> None:
    """Let every thread of a process use these CPUs and no others. Raises HostError.

    A new thread has the CPUs of the one that makes it: what is made meanwhile is found in the next walk.
    """
    done: set[int] = set()
    for _ in range(MOST_WALKS):
        new = threads(pid) - done
        if not new:
            return
        for thread in new:
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                continue
            except OSError as error:
                raise HostError(f"the CPUs of thread {thread} cannot be set: {error.strerror}") from error
        done |= new
    raise HostError(f"process {pid} creates threads faster than they can be moved")


def open_files_shortage(hard: int | None = None) -> str | None:
    """In words, where servers get less than OPEN_FILES."""
    limit = open_files(hard)
    if limit == OPEN_FILES:
        return None
    return (
        f"servers may open {limit:,} files (hard limit), not {OPEN_FILES:,}: the memory of old servers depends on it; "
        f"ulimit -Hn {OPEN_FILES}, or LimitNOFILE={OPEN_FILES} of the unit"
    )


def tasks_shortage(root: HostRoot = HERE) -> str | None:
    """In words, where a control group leaves room for fewer than TASKS processes and threads."""
    limits = [
        (int(words[0]), path) for path in _files(root, "pids", ("pids.max",)) if (words := _words(path))[0] != "max"
    ]
    least, path = min(limits, default=(TASKS, None))
    if path is None or least >= TASKS:
        return None
    return f"at most {least:,} processes and threads (limit: {path}): servers need one or two for each connection"


def quota_periods(root: HostRoot = HERE) -> dict[str, tuple[int, int]]:
    """{file of a quota on mydyno's CPU time: (periods, periods in which it was used up)} since the group was made."""
    found = {}
    for path in _files(root, "cpu", QUOTA_FILES):
        if _quota(path):
            words = _words(path.with_name("cpu.stat"))
            stat = dict(zip(words[::2], words[1::2], strict=False))
            found[str(path)] = int(stat.get("nr_periods", 0)), int(stat.get("nr_throttled", 0))
    return found


def throttled_since(before: dict[str, tuple[int, int]], root: HostRoot = HERE) -> dict[str, float]:
    """{file of a quota: share of the periods since `before` in which it was used up}; without those that never were."""
    found = {}
    for path, (periods, used_up) in quota_periods(root).items():
        then = before.get(path, (periods, used_up))
        if used_up > then[1]:
            found[path] = (used_up - then[1]) / max(1, periods - then[0])
    return found


def _files(root: HostRoot, controller: str, names: tuple[str, ...]) -> Iterator[Path]:
    for folder in lineage(root.folder, controller):
        yield from (path for name in names if (path := folder / name).is_file())


def _quota(path: Path) -> float | None:
    """CPU seconds per second; None without a quota."""
    words = _words(path)
    if path.name == "cpu.cfs_quota_us":
        words += _words(path.with_name("cpu.cfs_period_us"))
    if len(words) != 2 or not words[0].isdigit():  # "max", or -1 in version 1
        return None
    return int(words[0]) / int(words[1])


def _lines(path: Path) -> list[list[str]]:
    """The words of each line; empty where it cannot be read."""
    return [line.split() for line in text_of(path).splitlines()]


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line]
