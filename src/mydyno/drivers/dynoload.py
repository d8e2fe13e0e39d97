"""dynoload: mydyno's own load engine. Costs less than what it measures, and says so where it does not."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mydyno.drivers import dynoload_kv as kv
from mydyno.drivers import dynoload_output as output
from mydyno.drivers.base import SCHEMA, DriverOutcome, Progress
from mydyno.drivers.held import HeldLoad, HeldProcess
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import DataSpec, Scalar, Step
from mydyno.servers.sql import Address

GRACE_S = 60.0
PREPARE_TIMEOUT_S = 24 * 3600.0
RENAMED_OPTIONS = {"random_ranges": "number-of-ranges", "mysql_ignore_errors": "ignore-errors", "rand_seed": "seed"}
EXIT_INVALID = 4
"""dynoload's own verdict on a result that it delivered all the same."""


class Dynoload:
    """The dynoload driver."""

    name = "dynoload"

    def __init__(self) -> None:
        self._host: LocalHost | None = None
        self._program = Path()
        self._version = ""

    async def get(self, settings: Settings, host: LocalHost) -> None:
        """The engine's program. Raises HostError where the engine was not built."""
        self._host = host
        self._program = settings.program("dynoload")
        told = await host.run([str(self._program), "--version"], timeout_s=30)
        self._version = told.output.strip().removeprefix("dynoload ")

    @property
    def version(self) -> str:
        """The engine's version."""
        return self._version

    def check(self, step: Step) -> list[str]:
        """It needs an interval of one second to report on."""
        problems = ["measure must be at least 1 s with dynoload"] if step.measure_s < 1 else []
        return problems + kv.check(step)

    @property
    def _local(self) -> LocalHost:
        if self._host is None:
            raise BugError("dynoload was used before get()")
        return self._host

    def _connection(self, address: Address, folder: Path) -> list[str]:
        password_file = folder / "dynoload.password"
        password_file.touch(mode=0o600)
        password_file.write_text(address.password)
        tcp = [f"--host={address.host}", f"--port={address.port}"]
        place = [f"--socket={address.socket}"] if address.socket else tcp
        account = [f"--user={address.user}", f"--password-file={password_file}", f"--database={SCHEMA}"]
        return [*place, *account, *_spoken(address)]

    def _tables(self, data: DataSpec) -> list[str]:
        if data.workload == "tpcc":
            return [f"--warehouses={data.warehouses}"]
        return [
            f"--tables={data.tables}",
            f"--table-size={data.rows}",
            f"--auto-inc={_text(data.auto_inc)}",
            f"--secondary={_text(data.secondary)}",
            *([] if data.text == "digits" else [f"--row-text={data.text}"]),
        ]

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path) -> None:
        """Create and fill the tables; the same rows whatever the number of threads. Raises DriverError."""
        records = folder / "dynoload-prepare.jsonl"
        records.unlink(missing_ok=True)
        of_kv = data.workload == "kv"
        command = [
            str(self._program),
            data.workload,
            "prepare",
            *(kv.place(address) if of_kv else self._connection(address, folder)),
            *([*kv.keys(data), *kv.STORING, f"--json={records}"] if of_kv else self._tables(data)),
        ]
        done = await self._local.run(command, timeout_s=PREPARE_TIMEOUT_S)
        with log.open("a") as file:
            file.write(done.output)
        if done.exit_code and not (of_kv and kv.all_stored(records, data)):
            raise DriverError(f"dynoload prepare failed with exit code {done.exit_code}:\n  {_last(done.output)}")

    def _load(self, address: Address, data: DataSpec, step: Step, folder: Path) -> list[str]:
        """The command as far as it says what load runs against which server."""
        of_kv = data.workload == "kv"
        return [
            str(self._program),
            data.workload,
            "run",
            *([f"--workload={step.workload}"] if data.workload == "oltp" else []),
            f"--connections={step.connections}",
            *([] if step.rate is None else [f"--rate={step.rate:.10g}"]),
            *([] if of_kv else [*self._connection(address, folder), *self._tables(data)]),
            *([*kv.place(address), *kv.keys(data), *kv.asked(step)] if of_kv else []),
            *(argument for name, value in step.options.items() for argument in _option(name, value)),
        ]

    async def hold(
        self, address: Address, data: DataSpec, step: Step, folder: Path, log: Path, server_pid: int | None
    ) -> HeldLoad:
        """Connect and hold between slices. Raises DriverError with dynoload's own words."""
        held = HeldProcess(self._local, f"dynoload {step.id}", log)
        watched = [] if server_pid is None else [f"--server-pid={server_pid}"]
        await held.start([*self._load(address, data, step, folder), "--slices", *watched], address.entering)
        return held

    async def run(
        self,
        address: Address,
        data: DataSpec,
        step: Step,
        folder: Path,
        log: Path,
        on_start: Callable[[int], None],
        on_progress: Callable[[Progress], None],
    ) -> DriverOutcome:
        """One step. Raises DriverError with dynoload's own words."""
        records, histograms = folder / "dynoload.jsonl", folder / "dynoload.hlog"
        for path in (records, histograms):
            path.unlink(missing_ok=True)
        command = [
            *self._load(address, data, step, folder),
            f"--warmup={step.warmup_s}s",
            f"--duration={step.measure_s}s",
            "--json=-",
            f"--hdr={histograms}",
            "--quiet",
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = await self._local.start(command, stdout=asyncio.subprocess.PIPE, entering=address.entering)
        on_start(process.pid)
        reader = _Reader(log, step.warmup_s, on_progress)
        try:
            await asyncio.wait_for(reader.read(process), step.warmup_s + step.measure_s + GRACE_S)
        except TimeoutError:
            raise DriverError(f"dynoload still ran {GRACE_S:.0f} s after its time was over and was killed") from None
        finally:
            await process.end(0.0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.exit_code not in (0, EXIT_INVALID) or reader.final is None:
            words = output.failure_of(reader.final) or _last(reader.words)
            raise DriverError(f"dynoload {step.id} failed with exit code {process.exit_code}:\n  {words}")
        said = tuple(argument for argument in command if not argument.startswith("--password-file"))
        result = output.result_of(reader.final, self.version, said).model_copy(
            update={
                "cpu_user_s": round(after.ru_utime - before.ru_utime, 3),
                "cpu_system_s": round(after.ru_stime - before.ru_stime, 3),
            }
        )
        started_unix_ns = round((reader.final["measure_unix_s"] - step.warmup_s) * 1e9)
        samples = [s for record in reader.intervals for s in output.samples_of(record, started_unix_ns, step.warmup_s)]
        latency_log = output.shifted_log(histograms.read_text(), step.id) if histograms.exists() else ()
        return DriverOutcome(result, tuple(samples), started_unix_ns, latency_log)


class _Reader:
    """Reads dynoload's lines while it runs: records are kept, anything else is its own words."""

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


def _spoken(address: Address) -> list[str]:
    """What is spoken on the connection: TLS and compression, where the address says so."""
    words = [] if address.compression == "off" else [f"--compression={address.compression}"]
    tls = address.tls
    if tls is None:
        return words
    words.append(f"--ssl-mode={tls.mode}")
    if tls.mode == "disabled":
        # MySQL's caching_sha2_password asks for a key before a password goes over an open network.
        return [*words, *([] if address.socket else ["--get-server-public-key"])]
    words += [f"--ssl-ca={tls.authority}"] if tls.authority else []
    words += [f"--tls-versions={','.join(tls.versions)}"] if tls.versions else []
    words += [f"--ssl-ciphers={','.join(tls.ciphers)}"] if tls.ciphers else []
    return [*words, f"--tls-resumption={_text(tls.resumption)}"]


def _option(name: str, value: Scalar) -> list[str]:
    """A workload option in dynoload's words; sysbench's names for the connection become its own."""
    if name == "mysql_ssl":
        return ["--ssl-mode=required" if value else "--ssl-mode=disabled"]
    if name == "mysql_compression":
        return ["--compression=zlib" if value else "--compression=off"]
    if name == "rate" and not value:
        return []
    return [f"--{RENAMED_OPTIONS.get(name, name.replace('_', '-'))}={_text(value)}"]


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _last(words: str) -> str:
    lines = [line.strip() for line in words.strip().splitlines() if line.strip()]
    return "\n  ".join(lines[-5:]) or "it said nothing"
