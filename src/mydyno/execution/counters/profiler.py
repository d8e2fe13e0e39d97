"""A CPU profile of a few servers during a slice: record while they are loaded, make folded stacks of it afterwards.

Making the stacks takes CPU time, so it is done when no slice is under way.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mydyno.errors import HostError
from mydyno.hosts.headway import Headway
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.tracing import perf
from mydyno.hosts.tracing.perf import Folded, fold
from mydyno.model.stored.records import ProfileMethod

ENABLED_TIMEOUT_S = 30.0
SAVED_TIMEOUT_S = 60.0
FOLDED_TIMEOUT_S = 60.0
POLL_S = 0.005


class Recording(Protocol):
    """A profile under way, and then its result."""

    async def stop(self) -> None:
        """End the recording; safe to call again. Raises HostError if nothing was recorded."""

    async def folded(self) -> Folded:
        """Its stacks; after stop(). The recording itself is removed. Raises HostError."""


class Profiler(Protocol):
    """What records profiles: perf, the sampler of /proc (task_profiler.py), or a test's fake."""

    event: str
    frequency_hz: int
    version: str
    method: ProfileMethod

    async def start(self, pids: Sequence[int]) -> Recording:
        """Record these processes from now on. Raises HostError if that is impossible."""


class PerfProfiler:
    """perf of this host."""

    method: ProfileMethod = "perf"

    def __init__(self, host: LocalHost, folder: Path, frequency_hz: int) -> None:
        self.event = perf.event()
        self.frequency_hz = perf.frequency(frequency_hz)
        self.version = perf.version()
        self._host = host
        self._folder = folder

    async def start(self, pids: Sequence[int]) -> PerfRecording:
        """Record from now on: perf has enabled its events when this returns."""
        recording = PerfRecording(self._host, Path(tempfile.mkdtemp(prefix="perf-", dir=self._folder)))
        await recording.start(pids, self.frequency_hz)
        return recording


class PerfRecording:
    """One `perf record`, in a folder of its own, which it removes in the end."""

    def __init__(self, host: LocalHost, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._data = folder / "perf.data"
        self._log = folder / "perf.log"
        self._process: Process | None = None
        self._pids: tuple[int, ...] = ()

    async def start(self, pids: Sequence[int], frequency_hz: int) -> None:
        """Start perf and wait until it samples. Raises HostError."""
        self._pids = tuple(pids)
        control, answers = self._folder / "control", self._folder / "answers"
        for fifo in (control, answers):
            os.mkfifo(fifo, 0o600)
        command = perf.record_command(pids, frequency_hz, control, answers, self._data)
        commands = os.open(control, os.O_RDWR | os.O_NONBLOCK)
        answered = os.open(answers, os.O_RDWR | os.O_NONBLOCK)
        try:
            with self._log.open("wb") as log:
                self._process = await self._host.start(command, stdout=log.fileno())
            os.write(commands, b"enable\n")
            await self._enabled(answered)
        except BaseException:
            await self._end()
            raise
        finally:
            os.close(commands)
            os.close(answered)

    async def _enabled(self, answers: int) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + ENABLED_TIMEOUT_S
        while time.monotonic() < deadline_s:
            with suppress(BlockingIOError):
                if os.read(answers, 64):
                    return
            if self._process.exit_code is not None:
                raise HostError(f"perf ended with exit code {self._process.exit_code}: {self._words()}")
            await asyncio.sleep(POLL_S)
        raise HostError(f"perf did not begin to sample within {ENABLED_TIMEOUT_S:.0f} s: {self._words()}")

    async def stop(self) -> None:
        """End perf, which then saves what it recorded."""
        if self._process is None:
            return
        self._process.send(signal.SIGINT)
        try:
            await Headway(self._process.pid, SAVED_TIMEOUT_S).wait(self._process.wait())
        except TimeoutError:
            await self._end()
            raise HostError(f"perf did not end, and did nothing for {SAVED_TIMEOUT_S:.0f} s: {self._words()}") from None

    async def folded(self) -> Folded:
        """The stacks, by `perf script`; perf.data is removed."""
        text = self._folder / "perf.txt"
        try:
            with text.open("wb") as output:
                process = await self._host.start(perf.script_command(self._data, self._pids), stdout=output.fileno())
                try:
                    exit_code = await Headway(process.pid, FOLDED_TIMEOUT_S).wait(process.wait())
                except BaseException:
                    await process.end(1.0)
                    raise
            if exit_code != 0:
                raise HostError(f"perf script ended with exit code {exit_code}: {_last_line(text)}; {self._words()}")
            return await asyncio.to_thread(_fold_file, text)
        except TimeoutError:
            raise HostError(f"perf script did not end, and did nothing for {FOLDED_TIMEOUT_S:.0f} s") from None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _end(self) -> None:
        if self._process is not None:
            await self._process.end(5.0)

    def _words(self) -> str:
        return _last_line(self._log) or "no message"


def _fold_file(text: Path) -> Folded:
    with text.open(encoding="utf-8", errors="replace") as lines:
        return fold(lines)


def _last_line(path: Path) -> str:
    with suppress(OSError):
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
        return " / ".join(lines[-3:])
    return ""
