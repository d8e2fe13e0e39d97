"""libmemcached's load programs: where they come from, and how one is run to its end.

Debian 12's libmemcached-tools 1.1 calls them memcslap and memcaslap; until 1.0 they were memslap and memaslap, and so
they still call themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.drivers.base import (
    CompletedProgram,
    DriverOutcome,
    PackagedDriver,
    Reading,
    StepContext,
    closed_loop_alone,
    run_measured,
)
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import Process
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult
from mydyno.servers.sql import Address

GRACE_S = 30.0
WORDS_OF_FAILURE = re.compile(r"SERVER_ERROR|CLIENT_ERROR|^ERROR|Can't connect|Connection refused|[Ff]ail|assert", re.M)
NO_OPTION = "options.{}: {} has no such option"


class LibmemcachedProgram(PackagedDriver):
    """One of the two programs."""

    package = "libmemcached-tools"
    programs: tuple[str, ...] = ()
    """Its file by its new and its old name."""
    options: frozenset[str] = frozenset()
    """The workload options that it supports."""

    def unknown_options(self, step: Step) -> list[str]:
        """Sentences on options that it would have to ignore."""
        return [NO_OPTION.format(name, self.name) for name in step.options if name not in self.options]

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        """Raises BugError: keys are stored by dynoload, for every driver."""
        del address, folder, log, resume
        raise BugError(f"{self.name} cannot store the keys of {data.workload}")

    async def run_to_end(self, arguments: list[str], context: StepContext) -> tuple[CompletedProgram, str]:
        """Run it; returns its output too, which is kept in the log. Raises DriverError if it failed.

        Whether it failed is seen by its exit code or by its output.
        """
        host, packages = self._parts
        chunks: list[bytes] = []

        async def read(process: Process) -> None:
            output, _ = await process.streams.communicate()
            chunks.append(output)

        completed = await run_measured(
            host, self.command(arguments), context, read, grace_s=GRACE_S, environment=packages.environment
        )
        text = b"".join(chunks).decode(errors="replace")
        with context.log.open("a") as file:
            file.write(text)
        failed = WORDS_OF_FAILURE.search(text)
        if completed.exit_code or failed:
            lines = [line for line in text.splitlines() if WORDS_OF_FAILURE.search(line)] or text.splitlines()[-5:]
            raise DriverError(
                f"{self.name} {context.step.id} failed with exit code {completed.exit_code}:\n  "
                + "\n  ".join(lines[:5])
            )
        return completed, text

    def command(self, arguments: list[str]) -> list[str]:
        """The whole command line."""
        return [str(self._parts[1].find(*(f"usr/bin/{name}" for name in self.programs))), *arguments]


KEY_BYTES = 64
"""Its keys' length without a configuration file."""
_HEAD = re.compile(r"(Get|Set|Total) Statistics\b")
_PERIOD = re.compile(r"^Period\s+\d+((?:\s+[\d.]+){9})", re.M)
_GLOBAL = re.compile(r"^Global\s+(\d+)", re.M)
_COUNT = re.compile(r"^(cmd_get|cmd_set|get_misses|written_bytes|read_bytes|object_bytes): (\d+)", re.M)
_SPREAD = re.compile(r"^\s+(Min|Max|Avg|Geo|Std):\s+([\d.]+)", re.M)
_LOG2 = re.compile(r"^\s+(\d+):((?:\s+\d+){1,4})\s*$", re.M)
_ENDED = re.compile(r"^Run time: ([\d.]+)s Ops: (\d+) TPS: (\d+)", re.M)
SPREAD_NAMES = {"Min": "min_us", "Max": "max_us", "Avg": "mean_us", "Geo": "geometric_mean_us", "Std": "std_us"}


class Memaslap(LibmemcachedProgram):
    """memaslap (Debian: memcaslap), a second opinion on kv_mixed: nine gets to one set on a window of keys of its own.

    Its keys are not those that mydyno stored: each connection has a window of 10,240 keys that begins empty and is
    filled by its own sets, so a cache must hold connections × 10,240 values. It prints neither percentiles nor the
    measured window alone: mean, least and greatest latency are of the seconds after the warm-up, the spread and the
    distribution of the whole step.

    Its output (libmemcached 1.0 and 1.1) has, each second, a block of statistics for gets, sets and both, with escape
    codes that clear the screen before it; at the end the whole run's counts and its distribution over powers of two of
    microseconds. It has no warm-up: what is measured is the sum of the seconds after it.
    """

    name = "memaslap"
    programs = ("memcaslap", "memaslap")
    options = frozenset(("threads", "overwrite", "protocol"))

    def check(self, step: Step) -> list[str]:
        """Whole seconds, and connections that its threads can share evenly."""
        problems = self.unknown_options(step) + closed_loop_alone(self.name, step)
        for name, value in (("warmup", step.warmup_s), ("measure", step.measure_s)):
            if value != int(value):
                problems.append(f"{name} = {value:g} s: memaslap counts in whole seconds")
        if step.measure_s < 1:
            problems.append("measure must be at least 1 s with memaslap")
        threads = int(step.options.get("threads", 1))
        if step.connections % threads:
            problems.append(f"connections = {step.connections} is not a multiple of memaslap's {threads} threads")
        return problems

    def data_obstacle(self, data: DataSpec) -> str | None:
        """Keys of another length would need a configuration file, and then be other keys than the driver's own."""
        if data.key_bytes != KEY_BYTES:
            return f"memaslap's keys have {KEY_BYTES} bytes; set data.key_bytes = {KEY_BYTES}, or use dynoload"
        return None

    async def run(self, context: StepContext) -> DriverOutcome:
        """One step. Raises DriverError with memaslap's message."""
        address, data, step = context.address, context.data, context.step
        arguments = [
            f"--servers={address.host}:{address.port}",
            f"--time={int(step.warmup_s + step.measure_s)}s",
            "--stat_freq=1s",
            f"--threads={step.options.get('threads', 1)}",
            f"--concurrency={step.connections}",
            f"--fixed_size={data.value_bytes}",
            *([f"--overwrite={step.options['overwrite']}"] if "overwrite" in step.options else []),
            *(["--binary"] if step.options.get("protocol") == "binary" else []),
        ]
        completed, text = await self.run_to_end(arguments, context)
        report = parse(text)
        if report is None or not report.seconds["Total"]:
            raise DriverError(f"memaslap {step.id} printed no report:\n  " + "\n  ".join(text.splitlines()[-5:]))
        result = completed.with_cpu(result_of_memaslap(report, step, self.version, tuple(self.command(arguments))))
        started_unix_ns = completed.started_unix_ns
        return DriverOutcome(result, tuple(readings_of(report, started_unix_ns)), started_unix_ns)


def result_of_memaslap(report: Report, step: Step, version: str, command: tuple[str, ...]) -> DriverResult:
    """The seconds after the warm-up; latency percentiles are unavailable."""
    total, gets, sets = (
        [second for second in report.seconds[name] if second.t_s > step.warmup_s] for name in ("Total", "Get", "Set")
    )
    operations = sum(second.ops for second in total)
    if operations == 0:
        raise DriverError(f"memaslap {step.id} finished not one operation after its warm-up")
    got, missed = sum(second.ops for second in gets), sum(second.get_misses for second in gets)
    busy = [second for second in total if second.ops]
    whole = report.counts
    return DriverResult(
        driver="memaslap",
        version=version,
        command=command,
        transactions=operations,
        queries=operations,
        queries_read=got,
        queries_write=sum(second.ops for second in sets),
        duration_s=float(len(total)),
        latency_us={
            "mean": sum(second.mean_us * second.ops for second in total) / operations,
            "min": min(second.min_us for second in busy),
            "max": max(second.max_us for second in busy),
        },
        whole={
            "transactions": whole["cmd_get"] + whole["cmd_set"],
            "cmd_get": whole["cmd_get"],
            "cmd_set": whole["cmd_set"],
            "get_hits": whole["cmd_get"] - whole["get_misses"],
            "get_misses": whole["get_misses"],
        },
        key_values={
            "cmd_get": float(got),
            "cmd_set": float(operations - got),
            "get_hits": float(got - missed),
            "get_misses": float(missed),
            **report.spread_us,
        },
        latency_log2_us=report.log2_us,
    )


def readings_of(report: Report, started_unix_ns: int) -> list[Reading]:
    """Each second at its end."""
    gets = {second.t_s: second for second in report.seconds["Get"]}
    readings = []
    for second in report.seconds["Total"]:
        values = {"ops": float(second.ops), "tps": float(second.ops), **_hits(gets.get(second.t_s))}
        at_ns = started_unix_ns + second.t_s * 1_000_000_000
        readings += [Reading(at_ns, name, value) for name, value in values.items()]
    return readings


def _hits(gets: Second | None) -> dict[str, float]:
    if gets is None or not gets.ops:
        return {}
    return {"kv_misses_per_s": float(gets.get_misses), "kv_hit_pct": 100.0 * (gets.ops - gets.get_misses) / gets.ops}


@dataclass(frozen=True)
class Second:
    """One second's operations of one kind."""

    t_s: int
    ops: int
    get_misses: int
    min_us: float
    max_us: float
    mean_us: float


@dataclass(frozen=True)
class Report:
    """Everything that one run printed."""

    seconds: dict[str, tuple[Second, ...]]
    """Get, Set and Total → each second."""
    counts: dict[str, int]
    """Counts over the whole run: cmd_get, cmd_set, get_misses, written_bytes, read_bytes, object_bytes."""
    spread_us: dict[str, float]
    """Latency of all operations of the whole run: min_us, max_us, mean_us, std_us, geometric_mean_us."""
    log2_us: tuple[tuple[float, int], ...]
    """(upper bound in µs, count) of all operations of the whole run."""
    run_s: float


def parse(text: str) -> Report | None:
    """The report; None if the run did not end normally."""
    ended = _ENDED.search(text)
    counts = {name: int(value) for name, value in _COUNT.findall(text)}
    if ended is None or not {"cmd_get", "cmd_set", "get_misses"} <= counts.keys():
        return None
    seconds: dict[str, list[Second]] = {"Get": [], "Set": [], "Total": []}
    heads = list(_HEAD.finditer(text))
    last = ""
    for head, end in zip(heads, [*(one.start() for one in heads[1:]), len(text)], strict=True):
        block = text[head.end() : end]
        period, whole = _PERIOD.search(block), _GLOBAL.search(block)
        if period is not None and whole is not None:
            seconds[head[1]].append(_second(int(whole[1]), period[1].split()))
        elif head[1] == "Total":
            last = block
    return Report(
        seconds={name: tuple(found) for name, found in seconds.items()},
        counts=counts,
        spread_us={SPREAD_NAMES[name]: float(value) for name, value in _SPREAD.findall(last)},
        log2_us=tuple(_log2(last)),
        run_s=float(ended[1]),
    )


def _second(t_s: int, columns: Sequence[str]) -> Second:
    ops, _, _, misses, least, most, mean = columns[:7]
    return Second(t_s, int(ops), int(misses), float(least), float(most), float(mean))


def _log2(block: str) -> list[tuple[float, int]]:
    """Rows of four counts; the row's number is the first one's length in bits: 4 is 8 to 15 µs."""
    found = []
    for first, counts in _LOG2.findall(block):
        for offset, count in enumerate(counts.split()):
            found.append((float(1 << (int(first) + offset)), int(count)))
    return found


VALUE_BYTES = 400
EXECUTE_NUMBER = 10_000
"""Operations of each thread if the step does not set them: memslap's own default."""
_TIME = re.compile(r"^\s*Time to (set|get)\s+(\d+) keys by\s+(\d+) threads:\s+([\d.]+) seconds", re.M)
_STORED = re.compile(r"^\s*Time to set\s+(\d+) keys:", re.M)


class Memslap(LibmemcachedProgram):
    """memslap (Debian: memcslap), a second opinion on kv_set and kv_get: so many operations of each thread, and their
    time.

    Keys of 100 bytes and values of 400, its own; all threads set the same keys in the same order. It prints how many
    were done and one time, no misses: so what it did less than it was asked counts as errors (seen once, on a busy
    host: MySQL's plugin stored 1,570 of 2,000), the server's counters must show that every get found its key, and the
    step's rate is one figure, said at the end of its load. `measure` is the longest that it may take.
    """

    name = "memslap"
    programs = ("memcslap", "memslap")
    options = frozenset(("execute_number", "protocol"))

    def check(self, step: Step) -> list[str]:
        """It has no warm-up."""
        problems = self.unknown_options(step) + closed_loop_alone(self.name, step)
        if step.warmup_s:
            problems.append('memslap has no warm-up; set warmup = "0s"')
        return problems

    def data_obstacle(self, data: DataSpec) -> str | None:
        """The table must be as wide as its values."""
        if data.value_bytes < VALUE_BYTES:
            return f"memslap's values have {VALUE_BYTES} bytes; set data.value_bytes = {VALUE_BYTES} or more"
        return None

    async def run(self, context: StepContext) -> DriverOutcome:
        """One step. Raises DriverError with memslap's message, and where it took longer than `measure`."""
        address, step = context.address, context.step
        arguments = [
            f"--servers={address.host}:{address.port}",
            f"--concurrency={step.connections}",
            f"--execute-number={step.options.get('execute_number', EXECUTE_NUMBER)}",
            f"--test={step.workload.removeprefix('kv_')}",
            *(["--binary"] if step.options.get("protocol") == "binary" else []),
        ]
        completed, text = await self.run_to_end(arguments, context)
        result = completed.with_cpu(result_of_memslap(text, step, self.version, tuple(self.command(arguments))))
        rate = result.queries / result.duration_s
        at_ns = completed.started_unix_ns + round(min(result.duration_s, step.measure_s) * 1e9)
        readings = tuple(Reading(at_ns, name, rate) for name in ("ops", "tps"))
        return DriverOutcome(result, readings, completed.started_unix_ns)


def result_of_memslap(text: str, step: Step, version: str, command: tuple[str, ...]) -> DriverResult:
    """Operations and their time; of gets, the keys stored before them are counted among the sets."""
    match = _TIME.search(text)
    if match is None or f"kv_{match[1]}" != step.workload or float(match[4]) <= 0:
        raise DriverError(f"memslap {step.id} printed no time:\n  " + "\n  ".join(text.splitlines()[-5:]))
    count, took_s = int(match[2]), float(match[4])
    if took_s > step.measure_s:
        raise DriverError(
            f"memslap {step.id} took {took_s:.1f} s, measure is {step.measure_s:g} s",
            "set a longer measure, or a smaller options.execute_number",
        )
    stored = _STORED.search(text)
    requested = step.connections * int(step.options.get("execute_number", EXECUTE_NUMBER))
    gets, sets = (count, 0) if match[1] == "get" else (0, count)
    whole = {"cmd_get": gets, "cmd_set": sets + (int(stored[1]) if stored else 0)}
    return DriverResult(
        driver="memslap",
        version=version,
        command=command,
        transactions=count,
        queries=count,
        queries_read=gets,
        queries_write=sets,
        errors=max(requested - count, 0),
        duration_s=took_s,
        latency_us={"mean": took_s * 1e6 * step.connections / count},
        # It takes every reply for a hit: the server must have counted none missed.
        whole={"transactions": count, **whole, "get_hits": gets, "get_misses": 0},
        key_values={"cmd_get": float(gets), "cmd_set": float(sets), "get_hits": float(gets), "get_misses": 0.0},
    )
