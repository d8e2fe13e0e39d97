"""dynoload: mydyno's own load engine. It uses less CPU time than the server it measures, and reports if it does not.

Its arguments: where the server is, which data it has, which load runs; one class per kind of data.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.drivers import held as output
from mydyno.drivers.base import SCHEMA, Agent, DriverOutcome, Progress, StepContext, option_text, run_measured
from mydyno.drivers.held import HeldLoad, HeldProcess, HoldingDriver
from mydyno.errors import BugError, DriverError
from mydyno.files.atomic import write_private
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Scalar, Step
from mydyno.model.stored.records import ClientLoad, DriverResult
from mydyno.servers.sql import Address

RATIOS = {"kv_set": "0:100", "kv_get": "100:0", "kv_mixed": "90:10"}
"""Gets to sets of each workload but those of YCSB."""
YCSB = "kv_ycsb_"
"""Before the letter of one of YCSB's workloads."""
STORING = ("--connections=32", "--counters=1", "--quiet")
"""Arguments for the store before a run: InnoDB commits in groups only where many wait (measured: 8 connections are 5
times slower than 32)."""

OUT_OF_MEMORY = 0x82
"""memcached refuses a set now and then where its memory is short and its evicting thread late (the binary protocol's
status; the text protocol says "SERVER_ERROR out of memory storing object"). An error that `[validity]` bounds."""


def kv_problems(step: Step) -> list[str]:
    """A workload named after its operations must run them."""
    if step.workload.startswith(YCSB):
        own = [name for name in ("ratio", "key_choice") if name in step.options]
        problems = [f"options.{name}: {step.workload} has YCSB's own" for name in own]
        if step.workload == "kv_ycsb_d" and "hit_ratio" in step.options:
            problems.append(
                "options.hit_ratio: not allowed in kv_ycsb_d: its sets store the keys that misses are taken from"
            )
        if problems:
            return problems
    if step.workload in RATIOS and step.workload != "kv_mixed" and "ratio" in step.options:
        return [f"options.ratio: {step.workload} runs {RATIOS[step.workload]}; only kv_mixed has a ratio"]
    others = ("overwrite", "execute_number")
    return [f"options.{name}: is memaslap's or memslap's" for name in others if name in step.options]


OPTIONS_OF_LOAD = frozenset(("db_ps_mode", "mysql_ignore_errors", "rand_seed", "rand_type", "rate", "threads"))
"""Options of a step with a script that are dynoload's; all others are the script's."""
SEARCH_ARGUMENTS = ("--rate=1", "--arrivals=poisson")
"""Arguments in a capacity search, where each slice has a rate of its own. Poisson arrivals queue as those of many users
do; evenly spaced ones would show a higher capacity."""
RENAMED_OPTIONS = {"random_ranges": "number-of-ranges", "mysql_ignore_errors": "ignore-errors", "rand_seed": "seed"}


class Arguments(ABC):
    """The arguments for one kind of data."""

    def endpoint(self, address: Address, folder: Path) -> list[str]:
        """Where the server is and as whom to connect; the password goes by a file in `folder`."""
        password_file = folder / "dynoload.password"
        write_private(password_file, address.password)
        tcp = [f"--host={address.host}", f"--port={address.port}"]
        where = [f"--socket={address.socket}"] if address.socket else tcp
        account = [
            f"--user={address.user}",
            f"--password-file={password_file}",
            f"--database={address.database or SCHEMA}",
        ]
        return [*where, *account, *protocol_arguments(address)]

    @abstractmethod
    def data(self, data: DataSpec) -> list[str]:
        """How much data there is, and of which shape."""

    def workload(self, step: Step) -> list[str]:  # noqa: ARG002
        """Which operations the step consists of, beside its options."""
        return []

    def preparation(self, records: Path) -> list[str]:  # noqa: ARG002
        """What `prepare` needs beside; its records go to this file where it writes any."""
        return []

    def is_prepared(self, records: Path, data: DataSpec) -> bool:  # noqa: ARG002
        """Whether the data are complete by the records of a `prepare` that ended with an error."""
        return False


class OltpArguments(Arguments):
    """sysbench's tables."""

    def data(self, data: DataSpec) -> list[str]:
        """Number, size and shape of the tables."""
        return [
            f"--tables={data.tables}",
            f"--table-size={data.rows}",
            f"--auto-inc={option_text(data.auto_inc)}",
            f"--secondary={option_text(data.secondary)}",
            *([] if data.text == "digits" else [f"--row-text={data.text}"]),
        ]

    def workload(self, step: Step) -> list[str]:
        """The workload by its name."""
        return [f"--workload={step.workload}"]


class TpccArguments(Arguments):
    """TPC-C's warehouses."""

    def data(self, data: DataSpec) -> list[str]:
        """Their number."""
        return [f"--warehouses={data.warehouses}"]


class KvArguments(Arguments):
    """Keys and values over memcached's protocol; the same for every server but the port."""

    def endpoint(self, address: Address, folder: Path) -> list[str]:  # noqa: ARG002 - there is no account
        """Host and port."""
        return [f"--host={address.host}", f"--port={address.port}"]

    def data(self, data: DataSpec) -> list[str]:
        """The key space and the values' size."""
        return [f"--keys={data.keys}", f"--key-size={data.key_bytes}", f"--value-size={data.value_bytes}"]

    def workload(self, step: Step) -> list[str]:
        """The share of gets and sets, and which errors are ignored, if the step's options do not set them."""
        if step.workload.startswith(YCSB):
            shares = [f"--ycsb={step.workload.removeprefix(YCSB)}"]
        else:
            shares = [] if "ratio" in step.options else [f"--ratio={RATIOS[step.workload]}"]
        if "hit_ratio" not in step.options:
            shares.append("--hit-ratio=any")  # judged by validity.not_found, which an experiment on evictions may raise
        return [*shares, *([] if "ignore_errors" in step.options else [f"--ignore-errors={OUT_OF_MEMORY}"])]

    def preparation(self, records: Path) -> list[str]:
        """How the keys are stored, with a record of how many were."""
        return [*STORING, f"--json={records}"]

    def is_prepared(self, records: Path, data: DataSpec) -> bool:
        """Whether dynoload's own record says that every key was stored; then it does not matter that it called the time
        that this took invalid (a busy host)."""
        if not records.is_file():
            return False
        lines = records.read_text().split("\n")
        final = [json.loads(line) for line in lines if line.startswith('{"record":"final"')]
        if not final or final[-1]["counts"]["errors"]:
            return False
        counts = final[-1]["kv"]["counts"]
        return bool(counts["cmd_set"] >= data.keys and counts["not_stored"] == 0)


class FileArguments(Arguments):
    """Tables that a script or the TOML file beside an SQL file makes."""

    def data(self, data: DataSpec) -> list[str]:
        """The file, and a script's options or the scale."""
        if data.sql is not None:
            return [data.sql, *(f"--{name}={value}" for name, value in data.options.items())]
        return [str(data.script), *(script_option(name, value) for name, value in data.options.items())]


class StepFileArguments(Arguments):
    """A step that is a file of the user's, on any tables."""

    def data(self, data: DataSpec) -> list[str]:
        """A script learns of sysbench's tables if it has options for them, and gets the options that made its own."""
        made = dict(data.options)
        if data.workload == "oltp":
            made = {"tables": data.tables, "table_size": data.rows, "auto_inc": data.auto_inc, **made}
        return [f"--script-option=?{name}={option_text(value)}" for name, value in made.items()]

    def workload(self, step: Step) -> list[str]:
        """The file."""
        return [str(step.file)]

    def step_data(self, data: DataSpec, step: Step) -> list[str]:
        """As data(), for a script alone."""
        return self.data(data) if step.script is not None else []


ARGUMENTS: dict[str, Arguments] = {
    "oltp": OltpArguments(),
    "tpcc": TpccArguments(),
    "kv": KvArguments(),
    "script": FileArguments(),
    "sql": FileArguments(),
}
"""data.workload → its arguments."""
OF_FILE = StepFileArguments()
"""The arguments of a step that is a file, whatever its data."""


def load_of_file(step: Step, data: DataSpec) -> list[str]:
    """The load of a step that is a script, a file of SQL or a capture, without its server."""
    own = {
        name: value for name, value in step.options.items() if step.script is not None and name not in OPTIONS_OF_LOAD
    }
    return [
        *(["script"] if step.script is not None else ["sql", "run"]),
        *OF_FILE.workload(step),
        *load_level(step),
        *OF_FILE.step_data(data, step),
        *(script_option(name, value) for name, value in own.items()),
        *(
            argument
            for name, value in step.options.items()
            if name not in own
            for argument in option_arguments(name, value)
        ),
    ]


def load_level(step: Step) -> list[str]:
    """How much load a step is."""
    return [
        f"--connections={step.connections}",
        *([] if step.rate is None else [f"--rate={step.rate:.10g}"]),
        *(SEARCH_ARGUMENTS if step.search is not None and step.search.of == "rate" else []),
    ]


def script_option(name: str, value: Scalar) -> str:
    """An option of a script."""
    return f"--script-option={name}={option_text(value)}"


def protocol_arguments(address: Address) -> list[str]:
    """TLS and compression, where the address has them."""
    arguments = [] if address.compression == "off" else [f"--compression={address.compression}"]
    tls = address.tls
    if tls is None:
        return arguments
    arguments.append(f"--ssl-mode={tls.mode}")
    if tls.mode in ("disabled", "preferred") and not address.socket:
        # MySQL's caching_sha2_password needs a key before a password goes over an open network.
        arguments.append("--get-server-public-key")
    if tls.mode == "disabled":
        return arguments
    for option, path in (("--ssl-ca", tls.authority), ("--ssl-cert", tls.certificate), ("--ssl-key", tls.key)):
        arguments += [f"{option}={path}"] if path else []
    arguments += [f"--tls-versions={','.join(tls.versions)}"] if tls.versions else []
    arguments += [f"--ssl-ciphers={','.join(tls.ciphers)}"] if tls.ciphers else []
    return [*arguments, f"--tls-resumption={option_text(tls.resumption)}"]


def option_arguments(name: str, value: Scalar) -> list[str]:
    """A workload option by dynoload's name; sysbench's options of the connection become dynoload's."""
    if name == "mysql_ssl":
        return ["--ssl-mode=required" if value else "--ssl-mode=disabled"]
    if name == "mysql_compression":
        return ["--compression=zlib" if value else "--compression=off"]
    if name == "rate" and not value:
        return []
    return [f"--{RENAMED_OPTIONS.get(name, name.replace('_', '-'))}={option_text(value)}"]


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
