"""dynoload: mydyno's own load engine. It uses less CPU time than the server it measures, and reports if it does not."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.drivers import dynoload_output as output
from mydyno.drivers.base import Agent, DriverOutcome, Progress, StepContext, run_measured
from mydyno.drivers.dynoload_arguments import (
    ARGUMENTS,
    OF_FILE,
    kv_problems,
    load_level,
    load_of_file,
    option_arguments,
)
from mydyno.drivers.held import HeldLoad, HeldProcess, HoldingDriver
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import ClientLoad, DriverResult
from mydyno.servers.sql import Address

GRACE_S = 60.0
PREPARE_TIMEOUT_S = 24 * 3600.0
EXIT_INVALID = 4
"""dynoload's own verdict on a result that it wrote nevertheless."""


ONCE_TIMEOUT_S = 3600.0
"""Longest time for executing each statement once."""


@dataclass(frozen=True)
class ComparedServer:
    """A server on which statements are executed."""

    name: str
    """In the records."""
    address: Address
    folder: Path
    """For the file of the password; removed afterwards."""
    pid: int | None
    """Its process on this host; None: no CPU times."""


@dataclass(frozen=True)
class ComparisonOrder:
    """Which statements are compared, and for how long."""

    capture: str
    duration_s: float
    """Of the repetitions; before them each statement is executed once."""
    seed: int
    records: Path
    read_only: bool


class Dynoload(HoldingDriver):
    """The dynoload driver."""

    name = "dynoload"

    def __init__(self) -> None:
        self._host: LocalHost | None = None
        self._program = Path()
        self._version = ""

    async def get(self, paths: HostPaths, host: LocalHost) -> None:
        """The engine's program. Raises HostError if the engine was not built."""
        self._host = host
        self._program = paths.program("dynoload")
        done = await host.run([str(self._program), "--version"], timeout_s=30)
        self._version = done.output.strip().removeprefix("dynoload ")

    @property
    def version(self) -> str:
        """The engine's version."""
        return self._version

    def check(self, step: Step) -> list[str]:
        """It needs an interval of one second to report on."""
        problems = ["measure must be at least 1 s with dynoload"] if step.measure_s < 1 else []
        return problems + kv_problems(step)

    @property
    def _local(self) -> LocalHost:
        if self._host is None:
            raise BugError("dynoload was used before get()")
        return self._host

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        """Create and fill the tables; the same rows whatever the number of threads. Raises DriverError."""
        records = folder / "dynoload-prepare.jsonl"
        records.unlink(missing_ok=True)
        arguments = ARGUMENTS[data.workload]
        # A script comes before its command, as with sysbench.
        leading, trailing = ([], ["prepare"]) if data.script is not None else (["prepare"], [])
        command = [
            str(self._program),
            data.workload,
            *leading,
            *arguments.endpoint(address, folder),
            *arguments.data(data),
            *trailing,
            *arguments.preparation(records),
            *(["--resume"] if resume else []),
        ]
        done = await self._local.run(command, timeout_s=PREPARE_TIMEOUT_S)
        with log.open("a") as file:
            file.write(done.output)
        if done.exit_code and not arguments.is_prepared(records, data):
            raise DriverError(f"dynoload prepare failed with exit code {done.exit_code}:\n  {_last(done.output)}")

    def _load(self, context: StepContext) -> list[str]:
        """The command as far as it defines the load and its server."""
        data, step = context.data, context.step
        if step.file is not None:
            return [
                str(self._program),
                *load_of_file(step, data),
                *OF_FILE.endpoint(context.address, context.folder),
                *(f"--agent={agent.command}" for agent in context.agents),
            ]
        arguments = ARGUMENTS[data.workload]
        return [
            str(self._program),
            data.workload,
            "run",
            *arguments.workload(step),
            *load_level(step),
            *arguments.endpoint(context.address, context.folder),
            *arguments.data(data),
            *(f"--agent={agent.command}" for agent in context.agents),
            *(argument for name, value in step.options.items() for argument in option_arguments(name, value)),
        ]

    async def compare(self, compared: Sequence[ComparedServer], order: ComparisonOrder) -> None:
        """Compare each statement of a capture between servers. Raises DriverError with dynoload's message."""
        servers = []
        for one in compared:
            words = [one.name, *OF_FILE.endpoint(one.address, one.folder)]
            servers.append(shlex.join([*words, *([] if one.pid is None else [f"--pid={one.pid}"])]))
        command = [
            str(self._program),
            "statements",
            order.capture,
            *(f"--server={server}" for server in servers),
            f"--duration={max(1, round(1000 * order.duration_s))}ms",
            f"--seed={order.seed}",
            f"--json={order.records}",
            *(["--read-only"] if order.read_only else []),
        ]
        done = await self._local.run(command, timeout_s=order.duration_s + ONCE_TIMEOUT_S)
        if done.exit_code:
            raise DriverError(f"dynoload statements failed with exit code {done.exit_code}:\n  {_last(done.output)}")

    async def hold(self, context: StepContext, server_pid: int | None) -> HeldLoad:
        """Connect and hold between slices. Raises DriverError with dynoload's message."""
        held = HeldProcess(self._local, f"dynoload {context.step.id}", context.log)
        watched = [] if server_pid is None else [f"--server-pid={server_pid}"]
        await held.start([*self._load(context), "--slices", *watched], context.address)
        return held

    async def run(self, context: StepContext) -> DriverOutcome:
        """One step. Raises DriverError with dynoload's message."""
        step = context.step
        records, histograms = context.folder / "dynoload.jsonl", context.folder / "dynoload.hlog"
        for path in (records, histograms):
            path.unlink(missing_ok=True)
        command = [
            *self._load(context),
            f"--warmup={step.warmup_s}s",
            f"--duration={step.measure_s}s",
            "--json=-",
            f"--hdr={histograms}",
            "--quiet",
        ]
        reader = _Reader(context.log, step.warmup_s, context.on_progress)
        completed = await run_measured(self._local, command, context, reader.read, grace_s=GRACE_S)
        if completed.exit_code not in (0, EXIT_INVALID) or reader.final is None:
            words = output.with_names(output.failure_of(reader.final) or _last(reader.words), context.agents)
            raise DriverError(f"dynoload {step.id} failed with exit code {completed.exit_code}:\n  {words}")
        shown = tuple(argument for argument in command if not argument.startswith("--password-file"))
        result = completed.with_cpu(output.result_of(reader.final, self.version, shown))
        if context.agents:
            result = _from_clients(result, output.clients_of(reader.final, context.agents), context.agents)
        started_unix_ns = output.measure_unix_ns(reader.final) - round(step.warmup_s * 1e9)
        readings = [
            one for record in reader.intervals for one in output.readings_of(record, started_unix_ns, step.warmup_s)
        ]
        latency_log = output.shifted_log(histograms.read_text(), step.id) if histograms.exists() else ()
        return DriverOutcome(result, tuple(readings), started_unix_ns, latency_log)


def _from_clients(result: DriverResult, clients: tuple[ClientLoad, ...], agents: Sequence[Agent]) -> DriverResult:
    """The result of a load from client hosts: the CPU time is theirs, not that of the program that coordinates."""
    return result.model_copy(
        update={
            "clients": clients,
            "cpu_user_s": sum(client.cpu_user_s for client in clients),
            "cpu_system_s": sum(client.cpu_system_s for client in clients),
            "health_reasons": tuple(output.with_names(reason, agents) for reason in result.health_reasons),
            "findings": tuple(
                finding.model_copy(update={"text": output.with_names(finding.text, agents)})
                for finding in result.findings
            ),
        }
    )


class _Reader:
    """Reads dynoload's lines while it runs: records are kept, all other output is its messages."""

    def __init__(self, log: Path, warmup_s: float, on_progress: Callable[[Progress], None]) -> None:
        self.intervals: list[dict[str, Any]] = []
        self.final: dict[str, Any] | None = None
        self.words = ""
        self._log = log
        self._warmup_s = warmup_s
        self._on_progress = on_progress

    async def read(self, process: Process) -> None:
        stream = process.streams.stdout
        assert stream is not None
        with self._log.open("a") as log:
            while line := (await stream.readline()).decode(errors="replace"):
                log.write(line)
                self._take(line)
        await process.wait()

    def _take(self, line: str) -> None:
        record = output.parse_record(line) if line.startswith("{") else None
        if record is None:
            self.words += line
        elif record.get("record") == "final":
            self.final = record
        elif output.is_of_load(record):
            self.intervals.append(record)
            with contextlib.suppress(Exception):  # a progress bar must never end a measurement
                self._on_progress(output.progress_of(record, self._warmup_s))


def _last(words: str) -> str:
    lines = [line.strip() for line in words.strip().splitlines() if line.strip()]
    return "\n  ".join(lines[-5:]) or "it printed nothing"
