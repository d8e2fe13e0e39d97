"""What counts on a few servers during a slice (counted_slices.py), and the programs that do: bpftrace and perf.

bpftrace compiles its programs at each start, half a second of CPU time, before the slice begins. perf's recording is
made into folded stacks when the slice has ended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.quiet import Headway
from mydyno.hosts.tracing import bpftrace, perf
from mydyno.hosts.tracing.bpftrace import kernel_events
from mydyno.hosts.tracing.perf import Folded, fold
from mydyno.model.stored.counted import KernelEvent
from mydyno.model.stored.records import ProfileMethod
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.wait_counting import Counted

ENDED_TIMEOUT_S = 60.0
POLL_S = 0.005
READY_LINE = f'"{bpftrace.READY}\\n"'

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


class Counting(Protocol[F_co]):
    """Counts on a few servers while it lasts."""

    async def begin(self) -> None:
        """Count from now on. Raises StudyError, HostError or OSError."""

    async def end(self) -> F_co:
        """What was counted. Raises as begin()."""

    async def abandon(self) -> None:
        """End it at once, without what was counted."""


StartCounting = Callable[[Sequence[RunningServer]], Counting[Counted]]
"""The counter of the waits of a few servers: performance_schema, or a test's fake."""


class KernelCounter(Protocol):
    """The counter of the kernel's events: bpftrace, or a test's fake."""

    @property
    def version(self) -> str:
        """Program and version."""

    @property
    def absent(self) -> Mapping[str, str]:
        """{program of MEASURES: why this kernel cannot run it}"""

    def start(self, servers: Sequence[RunningServer]) -> Counting[tuple[KernelEvent, ...]]:
        """The counter for these servers, not yet started."""


class Profiler(Protocol):
    """What records CPU profiles: perf, the sampler of /proc (task_profiler.py), or a test's fake."""

    event: str
    frequency_hz: int
    version: str
    method: ProfileMethod

    def start(self, servers: Sequence[RunningServer]) -> Counting[Folded]:
        """The recording of these servers, not yet started."""


class BpftraceCounter:
    """bpftrace of this host. Raises OSError if it cannot be run."""

    def __init__(self, host: LocalHost, folder: Path) -> None:
        self.version = bpftrace.version()
        self.absent = bpftrace.absent()
        self._host = host
        self._folder = folder

    def start(self, servers: Sequence[RunningServer]) -> BpftraceCounting:
        """The counter for these servers, not yet started."""
        return BpftraceCounting(self._host, self._folder, servers)


class PerfProfiler:
    """perf of this host."""

    method: ProfileMethod = "perf"

    def __init__(self, host: LocalHost, folder: Path, frequency_hz: int) -> None:
        self.event = perf.event()
        self.frequency_hz = perf.frequency(frequency_hz)
        self.version = perf.version()
        self._host = host
        self._folder = folder

    def start(self, servers: Sequence[RunningServer]) -> PerfRecording:
        """The recording of these servers, not yet started."""
        return PerfRecording(self._host, self._folder, servers, self.frequency_hz)


class _Program(ABC, Generic[F]):
    """One run of a program that traces servers until SIGINT, in a folder of its own, which is removed in the end."""

    name: str
    ready_timeout_s: float

    def __init__(self, host: LocalHost, folder: Path, servers: Sequence[RunningServer]) -> None:
        self._host = host
        self._within = self._folder = folder
        self._servers = servers
        self._process: Process | None = None

    async def begin(self) -> None:
        """Start it and wait until it traces. Raises HostError."""
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=self._within))
        try:
            self._process = await self._start([server.pid for server in self._servers])
            await self._until_it_traces(self._process)
        except BaseException:
            await self.abandon()
            raise

    async def _until_it_traces(self, process: Process) -> None:
        deadline_s = time.monotonic() + self.ready_timeout_s
        while not self._traces():
            if process.exit_code is not None:
                raise HostError(f"{self.name} ended with exit code {process.exit_code}: {self._words()}")
            if time.monotonic() > deadline_s:
                raise HostError(f"{self.name} did not trace within {self.ready_timeout_s:.0f} s: {self._words()}")
            await asyncio.sleep(POLL_S)

    async def end(self) -> F:
        """End it; what it found. Raises HostError."""
        assert self._process is not None
        self._process.send(signal.SIGINT)
        try:
            exit_code = await Headway(self._process.pid, ENDED_TIMEOUT_S).wait(self._process.wait())
            return await self._found(exit_code)
        except TimeoutError:
            words = f"{self.name} did not end, and did nothing for {ENDED_TIMEOUT_S:.0f} s"
            raise HostError(f"{words}: {self._words()}") from None
        finally:
            await self.abandon()

    @abstractmethod
    async def _start(self, pids: Sequence[int]) -> Process:
        """Start it."""

    @abstractmethod
    def _traces(self) -> bool:
        """Whether it traces by now."""

    @abstractmethod
    async def _found(self, exit_code: int) -> F:
        """What it found, after its end."""

    @abstractmethod
    def _words(self) -> str:
        """The last of what it said."""

    async def abandon(self) -> None:
        """End it at once, without what it found."""
        if self._process is not None:
            await self._process.end(5.0)
        shutil.rmtree(self._folder, ignore_errors=True)


class BpftraceCounting(_Program[tuple[KernelEvent, ...]]):
    """One run of bpftrace, which traces once all of its probes are attached."""

    name = "bpftrace"
    ready_timeout_s = 120.0  # it compiles its programs

    async def _start(self, pids: Sequence[int]) -> Process:
        addresses = [server.address(LOAD_USER) for server in self._servers]
        ports = [address.port for address in addresses if address.socket is None]
        program = self._folder / "programs.bt"
        program.write_text(bpftrace.source(pids, ports), encoding="utf-8")
        room = bpftrace.trace_environment(sum(map(_threads, pids)))
        with self._output.open("wb") as output:
            return await self._host.start(bpftrace.trace_command(program), environment=room, stdout=output.fileno())

    def _traces(self) -> bool:
        return READY_LINE in self._output.read_text(errors="replace")

    async def _found(self, exit_code: int) -> tuple[KernelEvent, ...]:
        if exit_code != 0:
            raise HostError(f"bpftrace ended with exit code {exit_code}: {self._words()}")
        try:
            return kernel_events(self._output.read_text(errors="replace").splitlines(), bpftrace.absent())
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"the output of bpftrace cannot be read: {error}") from error

    @property
    def _output(self) -> Path:
        return self._folder / "bpftrace.jsonl"

    def _words(self) -> str:
        return _last_lines(line for line in _lines(self._output) if not line.startswith("{"))


class PerfRecording(_Program[Folded]):
    """One `perf record`, which samples once it has enabled its events, and then `perf script`."""

    name = "perf"
    ready_timeout_s = 30.0

    def __init__(self, host: LocalHost, folder: Path, servers: Sequence[RunningServer], frequency_hz: int) -> None:
        super().__init__(host, folder, servers)
        self._frequency_hz = frequency_hz
        self._fifos = ExitStack()
        self._answers = -1

    async def begin(self) -> None:
        """Start perf and wait until it samples. Raises HostError."""
        with self._fifos:
            await super().begin()

    async def _start(self, pids: Sequence[int]) -> Process:
        control, answers = (self._fifo(name) for name in ("control", "answers"))
        self._answers = answers[1]
        data = self._folder / "perf.data"
        command = perf.record_command(pids, self._frequency_hz, control[0], answers[0], data)
        os.write(control[1], b"enable\n")  # which waits there for perf
        with self._log.open("wb") as log:
            return await self._host.start(command, stdout=log.fileno())

    def _fifo(self, name: str) -> tuple[Path, int]:
        path = self._folder / name
        os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._fifos.callback(os.close, descriptor)
        return path, descriptor

    def _traces(self) -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(self._answers, 64))
        return False

    async def _found(self, exit_code: int) -> Folded:
        del exit_code  # it ended by SIGINT
        text = self._folder / "perf.txt"
        command = perf.script_command(self._folder / "perf.data", [server.pid for server in self._servers])
        with text.open("wb") as output:
            process = await self._host.start(command, stdout=output.fileno())
            try:
                scripted = await Headway(process.pid, ENDED_TIMEOUT_S).wait(process.wait())
            except TimeoutError:
                await process.end(1.0)
                raise HostError(f"perf script did not end, and did nothing for {ENDED_TIMEOUT_S:.0f} s") from None
            except BaseException:
                await process.end(1.0)
                raise
        if scripted != 0:
            raise HostError(
                f"perf script ended with exit code {scripted}: {_last_lines(_lines(text))}; {self._words()}"
            )
        return await asyncio.to_thread(_fold_file, text)

    @property
    def _log(self) -> Path:
        return self._folder / "perf.log"

    def _words(self) -> str:
        return _last_lines(_lines(self._log))


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(errors="replace").splitlines()
    return []


def _last_lines(lines: Iterable[str]) -> str:
    return " / ".join([line.strip() for line in lines if line.strip()][-3:]) or "no message"


def _fold_file(text: Path) -> Folded:
    with text.open(encoding="utf-8", errors="replace") as lines:
        return fold(lines)


def _threads(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return 0
