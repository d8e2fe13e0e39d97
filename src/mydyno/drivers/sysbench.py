"""sysbench 1.0.20: the field's standard, as the second opinion and for comparison with published studies.

One process per step: its warm-up ends at a --report-checkpoints, which resets all counters, so that totals, latency and
histogram are of the measured window alone. The password is passed in a config file that only mydyno can read, so it is
not visible in `ps`.

sysbench 1.0.x's output, read into numbers. Pure functions on text.

Measured: per second and per window counts by sysbench itself; latency from its own histogram (its buckets are about
1.7 % wide). Wrong when: sysbench is starved of CPU, for latency then contains its own wait; and with --rate, where the
time in its queue is added.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno import clock
from mydyno.drivers.base import (
    SCHEMA,
    DriverOutcome,
    PackagedDriver,
    Progress,
    Reading,
    StepContext,
    closed_loop_alone,
    option_text,
    run_measured,
)
from mydyno.errors import DriverError
from mydyno.files.atomic import write_private
from mydyno.hosts.limits import whole_cpus
from mydyno.hosts.local import Process
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult
from mydyno.servers.sql import Address

_INTERVAL = re.compile(
    r"^\[ (?P<t>\d+)s \] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+) "
    r"\(r/w/o: (?P<read>[\d.]+)/(?P<write>[\d.]+)/(?P<other>[\d.]+)\) "
    r"lat \(ms,(?P<percentile>\d+)%\): (?P<latency>[\d.]+) err/s:? (?P<errors>[\d.]+) reconn/s: (?P<reconnects>[\d.]+)"
)
_HISTOGRAM = re.compile(r"^\s+([\d.]+) \|\**\s+(\d+)\s*$")
_COUNTS = {
    "read": re.compile(r"^\s+read:\s+(\d+)", re.MULTILINE),
    "write": re.compile(r"^\s+write:\s+(\d+)", re.MULTILINE),
    "other": re.compile(r"^\s+other:\s+(\d+)", re.MULTILINE),
    "queries": re.compile(r"^\s+total:\s+(\d+)", re.MULTILINE),
    "transactions": re.compile(r"^\s+transactions:\s+(\d+)", re.MULTILINE),
    "ignored_errors": re.compile(r"^\s+ignored errors:\s+(\d+)", re.MULTILINE),
    "reconnects": re.compile(r"^\s+reconnects:\s+(\d+)", re.MULTILINE),
}
_TOTAL_TIME = re.compile(r"^\s+total time:\s+([\d.]+)s", re.MULTILINE)
_LATENCY = {
    "min": re.compile(r"^\s+min:\s+([\d.]+)", re.MULTILINE),
    "mean": re.compile(r"^\s+avg:\s+([\d.]+)", re.MULTILINE),
    "max": re.compile(r"^\s+max:\s+([\d.]+)", re.MULTILINE),
}


@dataclass(frozen=True)
class Interval:
    """One line of --report-interval."""

    t_s: int
    tps: float
    qps: float
    latency_ms: float
    percentile: int
    errors_per_s: float
    reconnects_per_s: float


@dataclass(frozen=True)
class Report:
    """One cumulative report: sysbench's counts since the last checkpoint."""

    counts: dict[str, int]
    total_time_s: float
    latency_ms: dict[str, float]


def parse_interval(line: str) -> Interval | None:
    """The interval report in a line, or None."""
    match = _INTERVAL.match(line)
    if match is None:
        return None
    return Interval(
        t_s=int(match["t"]),
        tps=float(match["tps"]),
        qps=float(match["qps"]),
        latency_ms=float(match["latency"]),
        percentile=int(match["percentile"]),
        errors_per_s=float(match["errors"]),
        reconnects_per_s=float(match["reconnects"]),
    )


def parse_reports(output: str) -> list[Report]:
    """Every cumulative report in the output: those of checkpoints, then the final one."""
    reports = []
    for text in output.split("SQL statistics:")[1:]:
        counts = {name: int(match[1]) for name, pattern in _COUNTS.items() if (match := pattern.search(text))}
        total = _TOTAL_TIME.search(text)
        if total is None or set(_COUNTS) - set(counts):
            continue
        latency = {name: float(match[1]) for name, pattern in _LATENCY.items() if (match := pattern.search(text))}
        reports.append(Report(counts, float(total[1]), latency))
    return reports


def parse_histogram(output: str) -> list[tuple[float, int]]:
    """(upper bound of the bucket in ms, count), ascending; of the window after the last checkpoint."""
    _, _, text = output.rpartition("Latency histogram")
    return [(float(match[1]), int(match[2])) for line in text.splitlines() if (match := _HISTOGRAM.match(line))]


def percentile(histogram: list[tuple[float, int]], share: float) -> float:
    """The bucket bound below which `share` of the counts lie. Raises ValueError for an empty histogram."""
    total = sum(count for _, count in histogram)
    if not total:
        raise ValueError("empty histogram")
    cumulative = 0
    for bound, count in histogram:
        cumulative += count
        if cumulative >= share * total:
            return bound
    return histogram[-1][0]


def fatal_words(output: str) -> list[str]:
    """sysbench's error messages: its FATAL and error lines, each once, the first five."""
    words = [
        line.strip()
        for line in output.splitlines()
        if line.startswith(("FATAL:", "ALERT:", "PANIC:", "Error", "error:")) or "failed:" in line
    ]
    return list(dict.fromkeys(words))[:5]


GRACE_S = 60.0
"""How long after the planned end a hanging sysbench is waited for before it is killed."""
LONGEST_LINE_BYTES = 255
"""Of a config file: sysbench takes what follows for another line."""
PREPARE_TIMEOUT_S = 24 * 3600.0
SINGLE_WRITES = ("oltp_delete", "oltp_insert", "oltp_update_index", "oltp_update_non_index")
"""Workloads of one write without BEGIN and COMMIT: sysbench counts as "other" only those that changed no row."""
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999}


class Sysbench(PackagedDriver):
    """The sysbench driver."""

    name = "sysbench"
    package = "sysbench"

    def check(self, step: Step) -> list[str]:
        """Whole seconds, at least one, and no rate: sysbench 1.0.20's --rate is not an open loop."""
        problems = closed_loop_alone(self.name, step)
        for name, value in (("warmup", step.warmup_s), ("measure", step.measure_s)):
            if value != int(value):
                problems.append(f"{name} = {value:g} s: sysbench counts in whole seconds")
        if step.measure_s < 1:
            problems.append("measure must be at least 1 s with sysbench")
        return problems

    def _command(self, workload: str, arguments: list[str], verb: str) -> tuple[list[str], Path]:
        _, packages = self._parts
        script = packages.find(f"usr/share/sysbench/{workload}.lua")
        return [str(packages.find("usr/bin/sysbench")), *arguments, script.name, verb], script.parent

    def _config_file(self, address: Address, folder: Path) -> Path:
        path = folder / "sysbench.conf"
        if address.tls is not None and address.tls.of_load is not None:
            # Its --mysql-ssl=on continues in plain text where the server has no TLS, and it takes no version or suite.
            raise DriverError('sysbench 1.0.20 cannot prove TLS; use driver = "dynoload"')
        if address.compression not in ("off", "zlib"):
            raise DriverError(f'sysbench 1.0.20 cannot compress by {address.compression}; use driver = "dynoload"')
        values: dict[str, str | bytes] = {
            "user": address.user,
            "db": address.database or SCHEMA,
            "password": address.password,
        }
        if address.socket:
            values["socket"] = str(address.socket)
        else:
            values |= {"host": address.host, "port": str(address.port)}
        if address.compression == "zlib":
            values["compression"] = "on"
        write_private(path, b"".join(_config_line(name, value) for name, value in values.items()))
        return path

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        """Create and fill the tables, several at once. Raises DriverError with sysbench's message."""
        if resume:
            raise DriverError("sysbench cannot complete tables that are there; drop them, or use the driver dynoload")
        host, packages = self._parts
        threads = min(data.tables, 2 * whole_cpus())
        arguments = [
            f"--config-file={self._config_file(address, folder)}",
            f"--tables={data.tables}",
            f"--table-size={data.rows}",
            f"--threads={threads}",
            f"--secondary={option_text(data.secondary)}",
            f"--auto-inc={option_text(data.auto_inc)}",
        ]
        command, cwd = self._command("oltp_read_write", arguments, "prepare")
        done = await host.run(command, environment=packages.environment, cwd=cwd, timeout_s=PREPARE_TIMEOUT_S)
        with log.open("a") as file:
            file.write(done.output)
        if done.exit_code or fatal_words(done.output):
            raise _failure("prepare", done.exit_code, done.output)

    async def run(self, context: StepContext) -> DriverOutcome:
        """One step. Raises DriverError with sysbench's message."""
        host, packages = self._parts
        data, step = context.data, context.step
        arguments = [
            f"--config-file={self._config_file(context.address, context.folder)}",
            f"--tables={data.tables}",
            f"--table-size={data.rows}",
            f"--threads={step.connections}",
            f"--time={int(step.warmup_s + step.measure_s)}",
            "--events=0",
            "--report-interval=1",
            "--percentile=99",
            "--histogram=on",
            *([f"--report-checkpoints={int(step.warmup_s)}"] if step.warmup_s else []),
            *(f"--{name.replace('_', '-')}={option_text(value)}" for name, value in step.options.items()),
            f"--secondary={option_text(data.secondary)}",
            f"--auto-inc={option_text(data.auto_inc)}",
        ]
        command, cwd = self._command(step.workload, arguments, "run")
        reader = _Reader(context.log, context.on_progress)
        completed = await run_measured(
            host, command, context, reader.read, grace_s=GRACE_S, environment=packages.environment, cwd=cwd
        )
        result = self._result(command, step, completed.exit_code, "".join(reader.lines))
        return DriverOutcome(completed.with_cpu(result), tuple(reader.readings), reader.started_unix_ns)

    def _result(self, command: list[str], step: Step, exit_code: int, text: str) -> DriverResult:
        reports = parse_reports(text)
        words = fatal_words(text)
        if exit_code or words or len(reports) != (2 if step.warmup_s else 1):
            raise _failure(step.id, exit_code, text)
        final = reports[-1]
        if final.counts["transactions"] == 0:
            raise DriverError(f"{step.id}: sysbench finished no transaction in {final.total_time_s:.0f} s")
        histogram = parse_histogram(text)
        latency_us = {name: value * 1000 for name, value in final.latency_ms.items()}
        latency_us |= {name: percentile(histogram, share) * 1000 for name, share in PERCENTILES.items()}
        names = ("transactions", "read", "write", "other")
        whole = {name: sum(report.counts[name] for report in reports) for name in names}
        if step.workload in SINGLE_WRITES:
            whole["unchanged"] = whole["other"]
        return DriverResult(
            driver=self.name,
            version=self.version,
            command=tuple(argument for argument in command if not argument.startswith("--config-file")),
            transactions=final.counts["transactions"],
            queries=final.counts["queries"],
            queries_read=final.counts["read"],
            queries_write=final.counts["write"],
            queries_other=final.counts["other"],
            ignored_errors=final.counts["ignored_errors"],
            reconnects=final.counts["reconnects"],
            duration_s=max(final.total_time_s - step.warmup_s, 0.001),
            latency_us=latency_us,
            latency_histogram_us=tuple((bound * 1000, count) for bound, count in histogram),
            whole=whole,
        )


def _config_line(name: str, value: str | bytes) -> bytes:
    """One option of MySQL in a config file, in quotes, which are not escaped. Raises DriverError where that fails."""
    content = value.encode() if isinstance(value, str) else value
    quote = b"'" if b'"' in content else b'"'
    line = b"mysql-%b=%b%b%b\n" % (name.encode(), quote, content, quote)
    if len(line) > LONGEST_LINE_BYTES or quote in content or b"\n" in content:
        raise DriverError(
            f"sysbench 1.0.20 cannot read a {name} with both kinds of quotes, a line break or more than 230 bytes; "
            'use driver = "dynoload"'
        )
    return line


class _Reader:
    """Reads sysbench's output line by line while it runs: keeps it, logs it, reports progress, makes readings."""

    def __init__(self, log: Path, on_progress: Callable[[Progress], None]) -> None:
        self.lines: list[str] = []
        self.readings: list[Reading] = []
        self.started_unix_ns = clock.unix_ns()
        self._log = log
        self._on_progress = on_progress

    async def read(self, process: Process) -> None:
        stream = process.streams.stdout
        assert stream is not None
        with self._log.open("a", buffering=1) as log:  # line by line: it is whole when mydyno is killed
            while line := (await stream.readline()).decode(errors="replace"):
                self.lines.append(line)
                log.write(line)
                if line.startswith("Threads started!"):
                    self.started_unix_ns = clock.unix_ns()
                interval = parse_interval(line)
                if interval is not None:
                    self._take(interval)
        await process.wait()

    def _take(self, interval: Interval) -> None:
        unix_ns = self.started_unix_ns + interval.t_s * 1_000_000_000
        values = {
            "qps": interval.qps,
            "tps": interval.tps,
            "errors_per_s": interval.errors_per_s,
            "reconnects_per_s": interval.reconnects_per_s,
        }
        if interval.latency_ms > 0:  # a checkpoint in the same second has emptied the histogram: not known, not zero
            values[f"latency_p{interval.percentile}_us"] = interval.latency_ms * 1000
        self.readings += [Reading(unix_ns, metric, value) for metric, value in values.items()]
        with contextlib.suppress(Exception):  # a progress bar must never end a measurement
            latency_us = {f"p{interval.percentile}": 1000 * interval.latency_ms}
            self._on_progress(Progress(interval.t_s, interval.qps, interval.tps, latency_us, interval.errors_per_s))


def _failure(what: str, exit_code: int, text: str) -> DriverError:
    words = fatal_words(text) or text.strip().splitlines()[-5:]
    return DriverError(f"sysbench {what} failed with exit code {exit_code}:\n  " + "\n  ".join(words))
