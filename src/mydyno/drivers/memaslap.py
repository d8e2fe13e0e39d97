"""memaslap (Debian: memcaslap), a second opinion on kv_mixed: nine gets to one set on a window of keys of its own.

Its keys are not those that mydyno stored: each connection has a window of 10,240 keys that begins empty and is filled
by its own sets, so a cache must hold connections × 10,240 values. It prints neither percentiles nor the measured window
alone: mean, least and greatest latency are of the seconds after the warm-up, the spread and the distribution of the
whole step.

Its output (libmemcached 1.0 and 1.1) has, each second, a block of statistics for gets, sets and both, with escape codes
that clear the screen before it; at the end the whole run's counts and its distribution over powers of two of
microseconds. It has no warm-up: what is measured is the sum of the seconds after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.drivers.base import DriverOutcome, Reading, StepContext, closed_loop_alone
from mydyno.drivers.libmemcached import LibmemcachedProgram
from mydyno.errors import DriverError
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult

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
    """The memaslap driver."""

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
        result = completed.with_cpu(result_of(report, step, self.version, tuple(self.command(arguments))))
        started_unix_ns = completed.started_unix_ns
        return DriverOutcome(result, tuple(readings_of(report, started_unix_ns)), started_unix_ns)


def result_of(report: Report, step: Step, version: str, command: tuple[str, ...]) -> DriverResult:
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
