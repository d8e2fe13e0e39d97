"""Programs run by the benchmarks: their commands and versions, their output, and the resources that they used."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.execution.interleaved.slices import inter_processor_interrupts
from mydyno.hosts.quiet import HostCpu, process_cpu_s
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.quantities import ranges_of
from mydyno.treatments.affinity import apart, usable_cores

REPOSITORY = Path(__file__).parents[2]
MEMORY_INTERVAL_S = 0.05


class BenchError(Exception):
    """A benchmark cannot be executed, or a program that it runs failed."""


class Interrupted(BaseException):
    """The benchmark is being ended; no part of it may go on."""


@dataclass(frozen=True)
class Program:
    """A program with all that it needs to be started."""

    name: str
    command: tuple[str, ...]
    version: str = ""
    cwd: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def execute(self, *arguments: str) -> Execution:
        """Run it to its end. Raises BenchError with its output where it fails."""
        return execute([*self.command, *arguments], self.cwd, self.environment)

    @classmethod
    def at(cls, path: Path, name: str = "") -> Program:
        """A program with its version as --version reports it. Raises BenchError where it is not there."""
        if not path.is_file():
            raise BenchError(f"there is no program {path}")
        return cls(name or path.name, (str(path),), version_of([str(path)]))


@dataclass(frozen=True)
class Execution:
    """One execution of a program."""

    output: str
    cpu_s: float
    """User and system time, from wait4(2)."""
    peak_rss_bytes: float
    """VmHWM, the last reading before the end."""
    elapsed_s: float
    interrupts: float = 0.0
    """Interrupts that one CPU sent another, of the whole host (/proc/interrupts)."""


@dataclass
class Placement:
    """The CPUs of load programs and servers; empty: all."""

    of_load: list[int] = field(default_factory=list)
    of_server: list[int] = field(default_factory=list)

    def choose(self, name: str, root: HostRoot = HERE) -> None:
        """free, apart (as the treatment affinity), or one: both on one CPU. Raises BenchError without two CPUs."""
        cores = usable_cores(root)
        halves = apart(cores)
        if name == "apart":
            if halves is None:
                raise BenchError("--cpus apart needs two CPUs")
            self.of_server, self.of_load = halves
        elif name == "one":
            self.of_server = self.of_load = cores[0][:1]

    def place(self, pid: int) -> None:
        """Keep a server's threads, and those that they start, on its CPUs."""
        for thread in Path(f"/proc/{pid}/task").iterdir() if self.of_server else ():
            os.sched_setaffinity(int(thread.name), self.of_server)

    @property
    def entering(self) -> list[str]:
        """What is put before a load program's command."""
        return ["taskset", "--cpu-list", ranges_of(self.of_load)] if self.of_load else []


placement = Placement()


def interrupts_so_far() -> float:
    """Interrupts that one CPU sent another, since boot; 0 where the kernel counts none."""
    try:
        return inter_processor_interrupts(Path("/proc/interrupts").read_text()) or 0.0
    except OSError:
        return 0.0


class OtherPrograms:
    """What other programs and the hypervisor take of this host's CPUs while the benchmark's own programs run."""

    def __init__(self, read: Callable[[], HostCpu] = HostCpu.read) -> None:
        self.servers: set[int] = set()
        """The processes of the benchmark's servers."""
        self._taken_s = self._total_s = 0.0
        self._own_s = 0.0
        self._read = read
        self._host = read()

    def begin(self) -> None:
        """From now on."""
        self._own_s, self._host = self.own_s(), self._read()

    def add(self, child_cpu_s: float) -> None:
        """What was taken since begin(), by others than a child that has used `child_cpu_s` and ended."""
        used = self._read().since(self._host)
        own_s = self.own_s() - self._own_s + child_cpu_s
        self._taken_s += max(0.0, used.busy_s - own_s) + used.steal_s
        self._total_s += used.total_s

    def take(self) -> float:
        """The share of all CPU time that was taken, 0 to 1; then it is counted anew."""
        share = self._taken_s / self._total_s if self._total_s else 0.0
        self._taken_s = self._total_s = 0.0
        return share

    def own_s(self) -> float:
        """CPU seconds of this process and of the servers so far."""
        return time.process_time() + sum(process_cpu_s(pid) or 0.0 for pid in self.servers)


others = OtherPrograms()


class _Running:
    """The program that runs now, so that it can be ended from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()

    def start(self, command: list[str], cwd: Path | None, environment: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped.is_set():
                raise Interrupted
            self._process = subprocess.Popen(
                command, cwd=cwd, env={**os.environ, **environment}, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            return self._process

    def ended(self) -> None:
        with self._lock:
            self._process = None
            if self._stopped.is_set():
                raise Interrupted

    def stop(self) -> None:
        with self._lock:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()

    def sleep(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise Interrupted


_running = _Running()


def stop() -> None:
    """End the program that runs now, and let no other one start."""
    _running.stop()


def sleep(seconds: float) -> None:
    """Wait. Raises Interrupted where the benchmark is being ended."""
    _running.sleep(seconds)


def execute(command: list[str], cwd: Path | None = None, environment: dict[str, str] | None = None) -> Execution:
    """Run a command to its end. Raises BenchError where it fails (dynoload's exit code 4, INVALID, is a result).

    Memory is VmHWM of /proc/PID/status, read while it runs: wait4's ru_maxrss begins with what this program had when
    it forked, which hides every smaller one.
    """
    start = time.monotonic()
    others.begin()
    interrupts = interrupts_so_far()
    process = _running.start([*placement.entering, *command], cwd, environment or {})
    assert process.stdout is not None and process.stderr is not None
    ended = threading.Event()
    peaks = [0.0]
    messages: list[str] = []
    watcher = threading.Thread(target=_watch_memory, args=(process.pid, ended, peaks))
    # Both streams at once: a full pipe of the other would stop the program.
    reader = threading.Thread(target=lambda errors: messages.append(errors.read()), args=(process.stderr,))
    watcher.start()
    reader.start()
    output = process.stdout.read()
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed_s = time.monotonic() - start
    interrupts = interrupts_so_far() - interrupts
    others.add(usage.ru_utime + usage.ru_stime)
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    _running.ended()
    if process.returncode not in (0, 4):
        raise BenchError(f"{shlex.join(command)} ended with {process.returncode}:\n{output}{messages[0]}")
    return Execution(output, usage.ru_utime + usage.ru_stime, peaks[0], elapsed_s, interrupts)


def _watch_memory(pid: int, ended: threading.Event, peaks: list[float]) -> None:
    """Keeps the last reading of the peak, which only rises, until the process is gone."""
    me = Path("/proc/self/exe").readlink()
    while not ended.wait(MEMORY_INTERVAL_S):
        try:
            text = Path(f"/proc/{pid}/status").read_text()
            executed = Path(f"/proc/{pid}/exe").readlink() != me
        except OSError:
            continue
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        if found and executed:
            peaks[0] = float(found[1]) * 1024


def version_of(command: list[str]) -> str:
    """The first line of what a program prints for --version."""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def compiled(source: Path, folder: Path) -> Program:
    """A program compiled from one C file with cc -O2. Raises BenchError with the compiler's words."""
    program = folder / source.stem
    command = ["cc", "-O2", "-o", str(program), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BenchError("no C compiler (cc) on PATH; Debian and Ubuntu: apt-get install gcc libc6-dev") from None
    if done.returncode:
        raise BenchError(f"{shlex.join(command)} failed:\n{done.stderr}")
    return Program(
        f"bare epoll loop ({source.name})", (str(program),), f"bench/{source.name}, {shlex.join(command[:2])}"
    )


def end_as_by_ctrl_c() -> None:
    """Have every signal that ends a program raise KeyboardInterrupt: what was started and made is ended and removed."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def say(text: str) -> None:
    """Progress for a person."""
    print(text, file=sys.stderr, flush=True)
