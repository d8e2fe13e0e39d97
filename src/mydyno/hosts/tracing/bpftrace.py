"""bpftrace, the tracer of the kernel's events: whether it works on this host, its programs, and how it is called.

What is measured: latencies and counts of the kernel for the threads of a few processes, from its tracepoints alone;
each program in kernel_programs/ states which. Cost: each program runs at each of its events on the whole host (some
0.1 to 1 µs), also at those of other processes, which it then ignores; mydyno measures the cost in each study. Wrong: an
event of more threads than fit into bpftrace's maps is not counted, so the maps are made for the servers' threads.

Tracepoints need tracefs. Where it is not mounted, bpftrace gets a mount namespace of its own with one, which ends with
it: nothing is mounted on the host.

Its output (-f json) becomes events, without the maps that programs use for themselves. Tracepoints report system calls
by number: those of servers on x86-64 get their names here (the kernel's arch/x86/entry/syscalls/syscall_64.tbl, where
numbers never change). Other architectures have other numbers, which stay numbers.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.stored.counted import MEASURES, SYSTEM_CALL, Bucket, KernelEvent

PROGRAMS = Path(__file__).with_name("kernel_programs")
ALWAYS = ("always", "load_threads")
"""Programs that the others need; the others are those of MEASURES."""
TRACEFS = ("kernel/tracing", "kernel/debug/tracing")
"""Below /sys."""
EVENTS = "available_events"
READY = "ready"
HINT = "on Debian and Ubuntu: apt-get install bpftrace"
TIMEOUT_S = 60.0
TRIAL_S = 5
LEAST_KEYS = 4096
KEYS_PER_THREAD = 4
"""Threads that start during a slice, and requests to devices, need places in the maps too."""
_MOUNT = 'mount --make-rprivate / && mount -t tracefs tracefs "$1" && shift && exec "$@"'
NS_PER_US = 1000.0
HISTOGRAM = "_ns"
"""End of the name of a measure's histogram."""
MACHINE = "x86_64"
_NAMES = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 8: "lseek", 9: "mmap",
    10: "mprotect", 11: "munmap", 12: "brk", 13: "rt_sigaction", 14: "rt_sigprocmask", 16: "ioctl", 17: "pread64",
    18: "pwrite64", 19: "readv", 20: "writev", 21: "access", 23: "select", 24: "sched_yield", 25: "mremap",
    26: "msync", 28: "madvise", 35: "nanosleep", 39: "getpid", 40: "sendfile", 41: "socket", 42: "connect",
    43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 48: "shutdown", 54: "setsockopt",
    55: "getsockopt", 56: "clone", 60: "exit", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 79: "getcwd", 82: "rename", 83: "mkdir", 84: "rmdir", 87: "unlink", 96: "gettimeofday",
    98: "getrusage", 100: "times", 110: "getppid", 186: "gettid", 202: "futex", 203: "sched_setaffinity",
    204: "sched_getaffinity", 206: "io_setup", 208: "io_getevents", 209: "io_submit", 210: "io_cancel",
    228: "clock_gettime", 230: "clock_nanosleep", 231: "exit_group", 232: "epoll_wait", 233: "epoll_ctl",
    257: "openat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 270: "pselect6", 271: "ppoll",
    273: "set_robust_list", 277: "sync_file_range", 285: "fallocate", 286: "timerfd_settime", 288: "accept4",
    290: "eventfd2", 291: "epoll_create1", 293: "pipe2", 295: "preadv", 296: "pwritev", 299: "recvmmsg",
    307: "sendmmsg", 309: "getcpu", 318: "getrandom", 324: "membarrier", 327: "preadv2", 328: "pwritev2",
    332: "statx", 333: "io_pgetevents", 334: "rseq", 425: "io_uring_setup", 426: "io_uring_enter",
    427: "io_uring_register", 435: "clone3", 441: "epoll_pwait2",
}  # fmt: skip


def kernel_obstacle(root: HostRoot = HERE) -> str | None:
    """Why bpftrace cannot trace servers on this host; None if it can."""
    if root.which("bpftrace") is None:
        return f"bpftrace is not installed; {HINT}"
    if not root.is_root:
        return "only root can trace the kernel with bpftrace"
    if not (root.sys / TRACEFS[0]).is_dir():
        return "this kernel has no tracefs (CONFIG_TRACING)"
    try:
        missing = [one for name in ALWAYS for one in _needed(program_text(name)) if one not in tracepoints(root)]
    except OSError as error:
        return f"tracefs cannot be read: {error}"
    if missing:
        return f"this kernel has no tracepoint {missing[0]} (CONFIG_FTRACE_SYSCALLS)"
    if not available(root):
        return "this kernel has the tracepoints of no measure: " + "; ".join(absent(root).values())
    return _failed_trial(root)


@cache
def tracepoints(root: HostRoot) -> frozenset[str]:
    """The kernel's tracepoints, e.g. "sched:sched_switch". Raises OSError."""
    for folder in TRACEFS:
        if (root.sys / folder / EVENTS).exists():
            return frozenset((root.sys / folder / EVENTS).read_text().split())
    done = root.call([*with_tracefs(root), "cat", str(root.sys / TRACEFS[0] / EVENTS)])
    if done.returncode != 0:
        raise OSError(" ".join(done.stderr.split()) or f"exit code {done.returncode}")
    return frozenset(done.stdout.split())


def with_tracefs(root: HostRoot = HERE) -> list[str]:
    """What to put before a command that needs tracefs; nothing where it is mounted."""
    if any((root.sys / folder / EVENTS).exists() for folder in TRACEFS):
        return []
    return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", str(root.sys / TRACEFS[0])]


def program_text(name: str) -> str:
    """The source of a program."""
    return (PROGRAMS / f"{name}.bt").read_text(encoding="utf-8")


def _needed(text: str) -> list[str]:
    """The tracepoints of a program."""
    lines = (line.rstrip(",") for line in text.splitlines())
    return [line.removeprefix("tracepoint:") for line in lines if line.startswith("tracepoint:")]


def absent(root: HostRoot = HERE) -> dict[str, str]:
    """{program: why it cannot run on this kernel}. Raises OSError."""
    found = {}
    for name in dict.fromkeys(measure.program for measure in MEASURES.values()):
        missing = [one for one in _needed(program_text(name)) if one not in tracepoints(root)]
        if missing:
            found[name] = f"the kernel has no tracepoint {missing[0]}"
    return found


def available(root: HostRoot) -> list[str]:
    """The programs that this kernel can run. Raises OSError."""
    without = absent(root)
    return [name for name in dict.fromkeys(one.program for one in MEASURES.values()) if name not in without]


def source(pids: Sequence[int], ports: Sequence[int], root: HostRoot = HERE) -> str:
    """All programs that this kernel can run, for these processes and the ports on which they listen. Raises OSError."""
    text = "\n".join(program_text(name) for name in (*ALWAYS, *available(root)))
    return (
        text.replace("SERVERS", _any("pid", pids))
        .replace("FROM_PORTS", _any("args->sport", ports))
        .replace("TO_PORTS", _any("args->dport", ports))
    )


def _any(field: str, values: Sequence[int]) -> str:
    """That a field has one of these values; never, without any: no process and no port has number 0."""
    return " || ".join(f"{field} == {value}" for value in values or (0,))


def trace_command(program: Path, root: HostRoot = HERE) -> list[str]:
    """Trace until SIGINT, then print what was counted, as JSON lines."""
    return [*with_tracefs(root), "bpftrace", "-f", "json", str(program)]


def trace_environment(threads: int) -> Mapping[str, str]:
    """Room for this number of threads. The variable has another name from bpftrace 0.20 on."""
    keys = str(max(LEAST_KEYS, KEYS_PER_THREAD * threads))
    return {"BPFTRACE_MAP_KEYS_MAX": keys, "BPFTRACE_MAX_MAP_KEYS": keys}


def version(root: HostRoot = HERE) -> str:
    """bpftrace's version, e.g. "bpftrace v0.17.0". Raises OSError."""
    return root.call(["bpftrace", "--version"]).stdout.strip()


@cache
def _failed_trial(root: HostRoot) -> str | None:
    """bpf(2) can be forbidden, and in a container the kernel has other process IDs than mydyno sees.

    This process makes system calls when it reads the line that bpftrace prints as soon as it traces.
    """
    trial = (
        f'BEGIN {{ printf("{READY}\\n"); }} '
        f"tracepoint:raw_syscalls:sys_enter /pid == {os.getpid()}/ {{ @seen = count(); exit(); }} "
        f"interval:s:{TRIAL_S} {{ exit(); }}"
    )
    try:
        done = root.call([*with_tracefs(root), "bpftrace", "-f", "json", "-e", trial], TIMEOUT_S)
    except OSError as error:
        return f"bpftrace cannot be run: {error}"
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())
        return f"bpftrace ended with exit code {done.returncode}: {words[:300]}"
    if '"@seen": 0' in done.stdout or '"@seen"' not in done.stdout:
        return "bpftrace does not see the system calls of mydyno: in a container the kernel has other process IDs"
    return None


def kernel_events(lines: Iterable[str], absent: Iterable[str] = ()) -> tuple[KernelEvent, ...]:
    """The events of one run of bpftrace, those that never occurred with count 0.

    `absent` are the programs that did not run. A line that is no JSON is a message. Raises ValueError for a line of
    another form.
    """
    maps: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        if record["type"] in ("map", "stats", "hist"):
            maps |= {name.removeprefix("@"): value for name, value in record["data"].items()}
    without = set(absent)
    found = [
        _event(name, maps)
        for name, measure in MEASURES.items()
        if measure.program not in without and name != "system_calls"
    ]
    if MEASURES["system_calls"].program not in without:
        calls: Mapping[str, int] = maps.get("system_calls") or {}
        found.append(KernelEvent(measure="system_calls", count=sum(map(int, calls.values()))))
        found += [
            KernelEvent(measure=SYSTEM_CALL + system_call_name(int(number)), count=int(count))
            for number, count in sorted(calls.items(), key=lambda one: -int(one[1]))
        ]
    return tuple(found)


def _event(name: str, maps: Mapping[str, Any]) -> KernelEvent:
    value: Any = maps.get(name) or 0
    if not MEASURES[name].is_time:
        return KernelEvent(measure=name, count=int(value))
    if not value:
        return KernelEvent(measure=name, count=0, time_us=0.0)
    buckets = tuple(
        Bucket(
            low_us=one.get("min", 0) / NS_PER_US,
            high_us=(one["max"] + 1) / NS_PER_US if "max" in one else 2 * one["min"] / NS_PER_US,
            count=one["count"],
        )
        for one in maps.get(name + HISTOGRAM) or ()
        if one["count"]
    )
    return KernelEvent(
        measure=name, count=int(value["count"]), time_us=round(value["total"] / NS_PER_US, 3), histogram=buckets
    )


def added(before: tuple[KernelEvent, ...], more: tuple[KernelEvent, ...]) -> tuple[KernelEvent, ...]:
    """Two runs of bpftrace together."""
    found = {one.measure: one for one in before}
    for one in more:
        known = found.get(one.measure)
        found[one.measure] = one if known is None else _sum(known, one)
    return tuple(found.values())


def _sum(one: KernelEvent, other: KernelEvent) -> KernelEvent:
    counts: dict[tuple[float, float], int] = {}
    for bucket in (*one.histogram, *other.histogram):
        of = (bucket.low_us, bucket.high_us)
        counts[of] = counts.get(of, 0) + bucket.count
    return KernelEvent(
        measure=one.measure,
        count=one.count + other.count,
        time_us=None if one.time_us is None else round(one.time_us + (other.time_us or 0.0), 3),
        histogram=tuple(Bucket(low_us=low, high_us=high, count=count) for (low, high), count in sorted(counts.items())),
    )


def system_call_name(number: int, machine: str | None = None) -> str:
    """The name of a system call, of this host or a machine, e.g. "futex"; "number 999" of one that is not listed."""
    names = _NAMES if (machine or platform.machine()) == MACHINE else {}
    return names.get(number, f"number {number}")
