"""bpftrace, the tracer of the kernel's events: whether it works on this host, its programs, and how it is called.

What is measured: latencies and counts of the kernel for the threads of a few processes, from its tracepoints alone;
each program in kernel_programs/ states which. Cost: each program runs at each of its events on the whole host (some
0.1 to 1 µs), also at those of other processes, which it then ignores; mydyno measures the cost in each study. Wrong: an
event of more threads than fit into bpftrace's maps is not counted, so the maps are made for the servers' threads.

Tracepoints need tracefs. Where it is not mounted, bpftrace gets a mount namespace of its own with one, which ends with
it: nothing is mounted on the host.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.stored.kernel import MEASURES

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
