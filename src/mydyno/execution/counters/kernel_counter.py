"""What counts on a few servers during a slice (counted_slices.py); of these the kernel's events, counted by bpftrace.

bpftrace compiles its programs at each start, half a second of CPU time, before the slice begins.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from mydyno.errors import HostError
from mydyno.hosts.headway import Headway
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.tracing import bpftrace
from mydyno.hosts.tracing.bpftrace_output import kernel_events
from mydyno.model.stored.kernel import KernelEvent
from mydyno.servers.running.base import LOAD_USER, RunningServer
from mydyno.servers.wait_counting import Counted

READY_TIMEOUT_S = 120.0
PRINTED_TIMEOUT_S = 60.0
POLL_S = 0.01
READY_LINE = f'"{bpftrace.READY}\\n"'


class KernelCounter(Protocol):
    """The counter: bpftrace, or a test's fake."""

    @property
    def version(self) -> str:
        """Program and version."""

    @property
    def absent(self) -> Mapping[str, str]:
        """{program of MEASURES: why this kernel cannot run it}"""

    def start(self, servers: Sequence[RunningServer]) -> Counting[tuple[KernelEvent, ...]]:
        """The counter for these servers, not yet started."""


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


class BpftraceCounting:
    """One run of bpftrace, in a folder of its own, which it removes in the end."""

    def __init__(self, host: LocalHost, folder: Path, servers: Sequence[RunningServer]) -> None:
        self._host = host
        self._within = folder
        self._servers = servers
        self._folder = folder
        self._process: Process | None = None

    async def begin(self) -> None:
        """Start bpftrace and wait until all of its probes are attached. Raises HostError."""
        self._folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=self._within))
        try:
            pids = [server.pid for server in self._servers]
            addresses = [server.address(LOAD_USER) for server in self._servers]
            ports = [address.port for address in addresses if address.socket is None]
            program = self._folder / "programs.bt"
            program.write_text(bpftrace.source(pids, ports), encoding="utf-8")
            room = bpftrace.trace_environment(sum(map(_threads, pids)))
            with self._output.open("wb") as output:
                self._process = await self._host.start(
                    bpftrace.trace_command(program), environment=room, stdout=output.fileno()
                )
            await self._ready()
        except BaseException:
            await self._abandon()
            raise

    async def _ready(self) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if READY_LINE in self._text():
                return
            if self._process.exit_code is not None:
                raise HostError(f"bpftrace ended with exit code {self._process.exit_code}: {self._words()}")
            await asyncio.sleep(POLL_S)
        raise HostError(f"bpftrace did not trace within {READY_TIMEOUT_S:.0f} s: {self._words()}")

    async def end(self) -> tuple[KernelEvent, ...]:
        """End bpftrace; what it counted. Raises HostError."""
        assert self._process is not None
        self._process.send(signal.SIGINT)
        try:
            exit_code = await Headway(self._process.pid, PRINTED_TIMEOUT_S).wait(self._process.wait())
            if exit_code != 0:
                raise HostError(f"bpftrace ended with exit code {exit_code}: {self._words()}")
            return kernel_events(self._text().splitlines(), bpftrace.absent())
        except TimeoutError:
            raise HostError(f"bpftrace did not end, and did nothing for {PRINTED_TIMEOUT_S:.0f} s") from None
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"the output of bpftrace cannot be read: {error}") from error
        finally:
            await self._abandon()

    async def _abandon(self) -> None:
        if self._process is not None:
            await self._process.end(5.0)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _output(self) -> Path:
        return self._folder / "bpftrace.jsonl"

    def _text(self) -> str:
        return self._output.read_text(errors="replace")

    def _words(self) -> str:
        """The last of what it printed that is no JSON."""
        lines = [line.strip() for line in self._text().splitlines() if line.strip() and not line.startswith("{")]
        return " / ".join(lines[-3:]) or "no message"


def _threads(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return 0


Counted_co = TypeVar("Counted_co", covariant=True)


class Counting(Protocol[Counted_co]):
    """Counts on a few servers while it lasts."""

    async def begin(self) -> None:
        """Count from now on. Raises StudyError, HostError or OSError."""

    async def end(self) -> Counted_co:
        """What was counted. Raises as begin()."""


StartCounting = Callable[[Sequence[RunningServer]], Counting[Counted]]
