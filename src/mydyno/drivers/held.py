"""A load program on hold: connected, idle, and loading for one slice whenever it is started by `go`.

Interleaved studies keep one for each server. A slice costs no new connections, and its record covers exactly the
measured part: counts, response times, the program's own CPU time and the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mydyno.drivers import dynoload_output as output
from mydyno.drivers.base import Driver, StepContext
from mydyno.errors import DriverError
from mydyno.hosts.limits import affinities_of
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.quiet import Headway
from mydyno.model.definition.quantities import ranges_of
from mydyno.servers.sql import Address

READY_TIMEOUT_S = 90.0
ANSWER_GRACE_S = 45.0
"""After a slice should have ended: dynoload itself gives transactions 30 s to end."""


@dataclass(frozen=True)
class SliceOrder:
    """One slice to be run: `stream` chooses the operations (the same number, the same operations in every arm)."""

    id: str
    stream: int
    washout_s: float
    measure_s: float
    rate: float | None = None
    """Operations per second of this slice, where it is not that of the step."""
    connections: int | None = None
    """How many connections of a closed loop are loaded; None: all."""

    @property
    def line(self) -> str:
        """The command on the load program's standard input."""
        level = "" if self.rate is None else f" {self.rate:.3f}"
        level += "" if self.connections is None else f" connections={self.connections}"
        return f"go {self.id} {self.stream} {round(self.washout_s * 1000)} {round(self.measure_s * 1000)}{level}\n"


class HeldLoad(Protocol):
    """One load program that holds its connections between slices."""

    command: tuple[str, ...]
    """As it was started."""

    async def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Run one slice; its record. Raises DriverError when the load failed."""

    def interrupt(self) -> None:
        """End a slice at once, and the program with it."""

    async def end(self) -> None:
        """Close the connections and end the program. Safe to call again."""


class HoldingDriver(Driver):
    """A driver that can hold its connections between slices."""

    @abstractmethod
    async def hold(self, context: StepContext, server_pid: int | None) -> HeldLoad:
        """Connect and hold; `server_pid`: whose CPU time it records. Raises DriverError."""


class HeldProcess:
    """`dynoload … run --slices`: commands on its standard input, one JSON record a line on its standard output."""

    def __init__(self, host: LocalHost, name: str, log: Path) -> None:
        self._host = host
        self._name = name
        self._log = log
        self._process: Process | None = None
        self._words: list[str] = []
        self.command: tuple[str, ...] = ()

    async def start(self, command: list[str], address: Address) -> None:
        """Start the program, on the CPUs of the address, and wait for its connections. Raises DriverError."""
        self.command = tuple(command)
        self._process = await self._host.start(
            command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, entering=address.entering
        )
        try:
            await Headway(self._process.pid, READY_TIMEOUT_S).wait(self._record("ready"))
            self._check_cpus(self._process.pid, address)
        except TimeoutError:
            await self.end()
            raise DriverError(f"{self._name}: not connected, and it did nothing for {READY_TIMEOUT_S:.0f} s") from None
        except BaseException:
            await self.end()
            raise

    def _check_cpus(self, pid: int, address: Address) -> None:
        if address.cpus and any(cpus != set(address.cpus) for cpus in affinities_of(pid)):
            raise DriverError(f"{self._name}: its threads may run on other CPUs than {ranges_of(address.cpus)}")

    async def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Run one slice. Raises DriverError with the program's message; the program has then ended."""
        process = self._running()
        stdin = process.streams.stdin
        assert stdin is not None
        try:
            stdin.write(order.line.encode())
            await stdin.drain()
            limit_s = order.washout_s + order.measure_s + ANSWER_GRACE_S
            record = await asyncio.wait_for(self._record("slice"), limit_s)
        except (BrokenPipeError, ConnectionResetError):
            raise DriverError(f"{self._name} ended: {self._last_words()}") from None
        except TimeoutError:
            await self.end()
            raise DriverError(
                f"{self._name}: no result {ANSWER_GRACE_S:.0f} s after the slice should have ended"
            ) from None
        if record.get("id") != order.id:
            raise DriverError(f"{self._name} returned slice {record.get('id')!r} instead of {order.id!r}")
        return record

    def interrupt(self) -> None:
        """SIGINT: dynoload ends its statements and itself."""
        self._running().send(signal.SIGINT)

    async def end(self) -> None:
        """Close its input, which ends it; kill it if it does not end."""
        process = self._process
        if process is None:
            return
        if process.streams.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                process.streams.stdin.close()
        with contextlib.suppress(TimeoutError):
            await process.wait(5.0)
        await process.end(1.0)

    def _running(self) -> Process:
        if self._process is None:
            raise DriverError(f"{self._name} was not started")
        return self._process

    async def _record(self, kind: str) -> dict[str, Any]:
        """The next record of a kind. Raises DriverError for a failure, and where the output ends."""
        process = self._running()
        stream = process.streams.stdout
        assert stream is not None
        with self._log.open("a") as log:
            while line := (await stream.readline()).decode(errors="replace"):
                log.write(line if len(line) < 400 else line[:400] + "…\n")
                record = output.parse_record(line) if line.startswith("{") else None
                if record is None:
                    self._words.append(line.strip())
                elif record.get("record") == "failed":
                    raise DriverError(f"{self._name}: {record.get('message', 'failed')}")
                elif record.get("record") == "refused":
                    raise DriverError(f"{self._name} refused a command: {record.get('message')}")
                elif record.get("record") == kind:
                    return record
        await process.wait(5.0)
        raise DriverError(f"{self._name} ended with exit code {process.exit_code}: {self._last_words()}")

    def _last_words(self) -> str:
        return " / ".join([words for words in self._words if words][-4:]) or "no message"
