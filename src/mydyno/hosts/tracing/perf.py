"""perf, the kernel's profiler: whether it works on this host, and how it is called.

What is measured: where processes spend their CPU time, as samples of their stacks at a fixed rate of CPU time
(cpu-clock, a timer that every kernel has; it also counts in virtual machines without hardware counters). Stacks are
unwound from a copy of each sample's stack memory with the programs' unwind tables, which packages without debug symbols
have too; frame pointers are not needed, and C libraries have none. Cost: about 10 µs and STACK_BYTES for each sample
while it records, and nothing else; mydyno measures it in each study. Wrong: with interrupts disabled the kernel takes
the sample when they are enabled again, so that such time shows at the function that enables them.

The text of `perf script` becomes folded stacks. Symbols are perf's own: a program's symbol table, its debug symbols
where they are installed, else its dynamic symbols. A function without a symbol is [unknown], one for each module: only
its module is known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mydyno.hosts.root import HERE, HostRoot
from mydyno.store.samples import Stack

EVENT = "cpu-clock"
PROCESSOR_UNITS = ("cpu", "cpu_core", "armv8_pmuv3_0")
"""Names that the kernel gives to the processor's counters."""
USER_ONLY_FROM = 2
"""perf_event_paranoid from which users other than root may sample their own programs outside of the kernel alone."""
FORBIDDEN_FROM = 3
"""perf_event_paranoid of some distributions: not at all."""
STACK_BYTES = 24_576
"""Bytes of stack in each sample. Of MariaDB's stacks under sysbench's read-only workload 34 % do not fit into 8 KB
(perf's default), 4 % do not into 16 KB, 1 % do not into 32 KB (measured)."""
MOST_SAMPLES_PER_S = 8_000
"""Most samples per second, over all CPUs together: 200 MB of stacks a second."""
MOST_MAPS_MS = 10_000
"""For reading the mappings of one process. perf leaves the rest of them out after 500 ms, without a message, and stacks
through a library that was left out cannot be unwound."""
BUFFER_PAGES = "8M"
"""Between kernel and perf, for each CPU; more than users other than root may lock."""
HINT = "on Debian: apt-get install linux-perf; on Ubuntu: linux-tools-$(uname -r)"
SCRIPT_FIELDS = "tid,time,ip,sym,dso"
UNKNOWN = "[unknown]"
CUT_OFF = "[stack cut off]"
"""Outermost frame of stacks that do not reach the beginning of their thread."""
KERNEL = "kernel"
_FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)$")
_CLONES = re.compile(r"(\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)?)+$")
"""Suffixes of the compiler's copies of a function."""
_NO_ADDRESS = "ffffffffffffffff"
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")
_OUTERMOST = re.compile(
    r"^[^`]*`(start_thread|_*clone3?|_start|_dl_.*|__libc_start.*|ret_from_fork.*)$|^(libc|libpthread)[-.][^`]*`\[unknown\]$"
)
"""Where threads begin, also of a C library without symbols."""


def perf_obstacle(root: HostRoot = HERE) -> str | None:
    """Why perf cannot profile a server on this host; None if it can."""
    if root.which("perf") is None:
        return f"perf is not installed; {HINT}"
    level = _paranoid(root)
    if not root.is_root and level is not None and level >= FORBIDDEN_FROM:
        return f"kernel.perf_event_paranoid = {level} lets only root profile; set it to {USER_ONLY_FROM} or less"
    return _failed_trial(root)


@cache
def samples_whole_host(root: HostRoot = HERE) -> bool:
    """Whether every CPU is sampled, and the servers' samples are chosen afterwards; else only the servers are.

    A timer of a CPU needs nothing when threads change on it, while one of a thread is started and stopped each time:
    at a few ten thousand context switches a second that is the larger part of the cost (measured).
    """
    level = _paranoid(root)
    return (root.is_root or (level is not None and level <= 0)) and _failed_trial(root, "--all-cpus") is None


@cache
def _failed_trial(root: HostRoot, scope: str = "--per-thread") -> str | None:
    """perf can be there and not fit the kernel, or a container can forbid perf_event_open(2)."""
    command = ["perf", "record", "--quiet", "--no-buildid-cache", f"--event={event(root)}", "--output=/dev/null", scope]
    try:
        done = root.call([*command, "--", "true"], 30.0)
    except OSError as error:
        return f"perf cannot be run: {error}"
    if done.returncode == 0:
        return None
    words = " ".join((done.stderr or done.stdout).split())
    return f"perf record ended with exit code {done.returncode}: {words[:300]}; {HINT}"


def counters_obstacle(root: HostRoot = HERE) -> str | None:
    """Why the load program cannot have the processor count instructions; None if it can."""
    if not [unit for unit in PROCESSOR_UNITS if (root.folder / "sys/bus/event_source/devices" / unit).exists()]:
        return "the processor's counters are not visible here, as in most virtual machines"
    return None if root.is_root else "instructions: needs root, since the kernel's are counted too"


def event(root: HostRoot = HERE) -> str:
    """What is sampled: CPU time, without the kernel's where this user may not see it."""
    level = _paranoid(root)
    return f"{EVENT}:u" if not root.is_root and level is not None and level >= USER_ONLY_FROM else EVENT


def frequency(wanted_hz: int, root: HostRoot = HERE) -> int:
    """The samples per second and CPU: as wanted, and fewer where all CPUs together had more than MOST_SAMPLES_PER_S."""
    return max(1, min(wanted_hz, MOST_SAMPLES_PER_S // root.cpu_count))


def version(root: HostRoot = HERE) -> str:
    """perf's version, e.g. "perf 6.1.187". Raises OSError."""
    return root.call(["perf", "--version"]).stdout.strip().replace(" version", "")


def record_command(
    pids: Sequence[int], frequency_hz: int, control: Path, answers: Path, output: Path, root: HostRoot = HERE
) -> list[str]:
    """Record these processes with all of their threads, from `enable` in the fifo `control` until SIGINT.

    Where every CPU is sampled, other processes are in the recording too.
    """
    command = ["perf", "record", "--quiet", "--no-buildid-cache", "--delay=-1", f"--control=fifo:{control},{answers}"]
    command += [f"--event={event(root)}", f"--freq={frequency_hz}", f"--call-graph=dwarf,{STACK_BYTES}"]
    command.append(f"--proc-map-timeout={MOST_MAPS_MS}")
    if root.is_root:
        command.append(f"--mmap-pages={BUFFER_PAGES}")
    return [*command, f"--output={output}", "--all-cpus" if samples_whole_host(root) else _of(pids)]


def script_command(recorded: Path, pids: Sequence[int]) -> list[str]:
    """Print the samples of these processes with their stacks and symbols."""
    command = ["perf", "script", "--force", "--no-inline", "--show-lost-events", "--max-stack=256"]
    return [*command, f"--fields={SCRIPT_FIELDS}", _of(pids), f"--input={recorded}"]


def _of(pids: Sequence[int]) -> str:
    return f"--pid={','.join(map(str, pids))}"


def _paranoid(root: HostRoot) -> int | None:
    try:
        return int((root.proc / "sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return None


@dataclass
class Folded:
    """The samples of one profile."""

    stacks: Counter[Stack] = field(default_factory=Counter)
    lost: int = 0
    """Samples that perf reported as lost."""
    cut_off: int = 0
    """Samples whose stack does not reach the beginning of its thread."""
    frames: int = 0
    unknown_frames: int = 0
    """Frames of all samples, and those of them without a name."""

    @property
    def samples(self) -> int:
        """Samples with a stack."""
        return self.stacks.total()

    def add(self, other: Folded) -> None:
        """Add the samples of another profile."""
        self.stacks.update(other.stacks)
        self.lost += other.lost
        self.cut_off += other.cut_off
        self.frames += other.frames
        self.unknown_frames += other.unknown_frames


def fold(lines: Iterable[str]) -> Folded:
    """The folded stacks of the output of `perf script -F tid,time,ip,sym,dso`."""
    folded = Folded()
    frames: list[str] = []
    for line in lines:
        match = _FRAME.match(line)
        if match:
            address, symbol, path = match.groups()
            if address != _NO_ADDRESS:
                frames.append(frame_name(symbol, path))
        elif lost := _LOST.search(line):
            folded.lost += int(lost[1])
        else:
            _take(folded, frames)
            frames = []
    _take(folded, frames)
    return folded


def _take(folded: Folded, innermost_first: list[str]) -> None:
    if not innermost_first:
        return
    stack = tuple(reversed(innermost_first))
    folded.frames += len(stack)
    folded.unknown_frames += sum(frame.endswith(UNKNOWN) for frame in stack)
    if not _OUTERMOST.match(stack[0]):
        folded.cut_off += 1
        stack = (CUT_OFF, *stack)
    folded.stacks[stack] += 1


def frame_name(symbol: str, path: str) -> str:
    """MODULE`FUNCTION, without the compiler's suffixes and without characters that the folded format needs."""
    module = path.removesuffix(" (deleted)").rpartition("/")[2]
    if module.startswith(("[kernel", "[guest.kernel")) or path.endswith(".ko"):
        module = KERNEL
    function = _CLONES.sub("", symbol.partition("+0x")[0])
    return f"{module}`{function}".replace(";", ":").replace(" ", "_") if function != UNKNOWN else f"{module}`{UNKNOWN}"
