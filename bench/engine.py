"""dynoload against sysbench 1.0.20 and against a bare epoll loop, alternately on a private MariaDB.

What is measured: CPU of the client process (user + system, from wait4(2)) per query, queries per second, peak resident
memory (VmHWM), rows per second of prepare, pacing lag. Short runs of both programs in the order ABBA; a figure is the
geometric mean of the pairs' ratios with its 95 % interval. All programs run at the same priority. A busy neighbour
changes absolute figures by 30 % and more: only the ratios of one execution mean something. Without options it takes
about eight minutes.

The server, sysbench and its libraries are unpacked from packages into the cache. The data are in memory (/dev/shm)
where there is room. Exit code 1: a target is missed, 3: this host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from support.command import Bench, Lines, Part, parser, run
from support.pairs import BEFORE_HELP, Figure, Line, Load, Target, against_before, paired
from support.programs import REPOSITORY, BenchError, Program, compiled, execute, say
from support.servers import Mariadb

HERE = Path(__file__).parent
# dynoload raises its own priority by default; what it is compared with does not.
AT_THEIR_PRIORITY = ("--priority", "normal")
PARTS = ("open", "cpu", "floor", "prepare", "recording")
TABLE_SIZE = 100_000
RECORDING_TARGET_NS = 50.0
CPU_TARGETS = {
    "oltp_point_select": {16: 0.75, 64: 0.50, 256: 0.30},
    "oltp_read_only": {16: 0.55, 64: 0.32, 256: 0.25},
    "oltp_read_write": {16: 0.60, 64: 0.30, 256: 0.25},
}
THROUGHPUT_TARGETS = {64: 1.15, 256: 1.25}
MEMORY_TARGET = 0.15
FLOOR_TARGET = 1.10
PREPARE_TARGETS = {"several tables": 2.0, "one big table": 4.0}
PREPARE_PAIRS = 4
IDLE_MEMORY_TARGET_MB = 200.0
LAG_TARGET_US = 100.0


@dataclass
class Comparison:
    """The server and the programs."""

    bench: Bench
    server: Mariadb
    dynoload: Program
    sysbench: Program
    floor: Program
    pairs: int
    seconds: int
    connections: list[int]
    idle_connections: int

    def connection(self, database: str = "sbtest") -> list[str]:
        """dynoload's options for a database."""
        server = self.server
        return [
            "--host", server.host, "--port", str(server.port), "--user", server.user, "--database", database
        ]  # fmt: skip

    def sysbench_connection(self, database: str = "sbtest") -> list[str]:
        """The same for sysbench."""
        server = self.server
        place = [f"--mysql-host={server.host}", f"--mysql-port={server.port}"]
        return [*place, f"--mysql-user={server.user}", f"--mysql-db={database}"]


def run_sysbench(comparison: Comparison, workload: str, connections: int) -> Load:
    """One run of sysbench over TCP."""
    arguments = [
        *comparison.sysbench_connection(), "--tables=1", f"--table-size={TABLE_SIZE}", f"--threads={connections}",
        f"--time={comparison.seconds}", workload, "run",
    ]  # fmt: skip
    comparison.bench.note_command("sysbench", comparison.sysbench, arguments)
    done = comparison.sysbench.execute(*arguments)
    found = re.search(r"queries:\s+(\d+)", done.output)
    measured = re.search(r"total time:\s+([\d.]+)s", done.output)
    if not found or not measured:
        raise BenchError(f"sysbench's output has no count of queries:\n{done.output}")
    return Load(float(found[1]), float(measured[1]), done.cpu_s, done.peak_rss_bytes, done.interrupts)


def run_dynoload(comparison: Comparison, workload: str, connections: int, *more: str) -> tuple[Load, dict[str, Any]]:
    """One run of dynoload over TCP, and its final record."""
    arguments = [
        "oltp", "run", *comparison.connection(), "--workload", workload, "--table-size", str(TABLE_SIZE),
        "--connections", str(connections), "--duration", f"{comparison.seconds}s", "--quiet", "--json", "-", *more,
    ]  # fmt: skip
    name = "dynoload, paced" if "--rate" in more else "dynoload against the floor" if "uniform" in more else "dynoload"
    comparison.bench.note_command(name, comparison.dynoload, arguments)
    done = comparison.dynoload.execute(*arguments)
    final = json.loads(done.output.splitlines()[-1])
    counts = final["whole_load_counts"]
    queries = counts["reads"] + counts["writes"] + counts["other"]
    return Load(queries, final["duration_s"], done.cpu_s, done.peak_rss_bytes, done.interrupts), final


def measure_dynoload(comparison: Comparison, workload: str, connections: int, *more: str) -> Load:
    """One run of dynoload over TCP, its cost only."""
    return run_dynoload(comparison, workload, connections, *more)[0]


def run_floor(comparison: Comparison, connections: int) -> Load:
    """One run of the bare epoll loop."""
    server = comparison.server
    arguments = [
        server.host, str(server.port), server.user, "sbtest", str(TABLE_SIZE), str(connections),
        str(comparison.seconds),
    ]  # fmt: skip
    comparison.bench.note_command("floor", comparison.floor, arguments)
    done = comparison.floor.execute(*arguments)
    result = json.loads(done.output)
    return Load(result["queries"], result["elapsed_s"], done.cpu_s, done.peak_rss_bytes, done.interrupts)


def bench_cpu(comparison: Comparison) -> Lines:
    """CPU per query, throughput and memory against sysbench."""
    lines: Lines = []
    for workload, targets in CPU_TARGETS.items():
        for count in comparison.connections:
            name = f"{workload}, {count} connections"
            say(f"{name}, against sysbench")
            pairs = paired(
                comparison.pairs,
                partial(measure_dynoload, comparison, workload, count, *AT_THEIR_PRIORITY),
                partial(run_sysbench, comparison, workload, count),
            )
            limit = targets.get(count)
            target = Target(limit) if limit else None
            cpu, state = pairs.ratio("cpu_us"), pairs.mean_interrupts()
            lines.append(Line(name, "CPU a query / sysbench's", cpu, target, pairs.records(), state))
            if workload == "oltp_read_only" and count in THROUGHPUT_TARGETS:
                target = Target(THROUGHPUT_TARGETS[count], at_most=False)
                lines.append(Line(name, "queries a second / sysbench's", pairs.ratio("per_s"), target))
            if workload == "oltp_read_only" and count == 256:
                lines.append(Line(name, "memory / sysbench's", pairs.ratio("rss_bytes"), Target(MEMORY_TARGET)))
    return lines


def bench_floor(comparison: Comparison) -> Lines:
    """CPU per point select against the bare epoll loop."""
    lines: Lines = []
    like_the_floor = ("--rand-type", "uniform", "--threads", "1", *AT_THEIR_PRIORITY)
    for count in comparison.connections:
        name = f"oltp_point_select, {count} connections"
        say(f"{name}, against the bare epoll loop")
        pairs = paired(
            comparison.pairs,
            partial(measure_dynoload, comparison, "oltp_point_select", count, *like_the_floor),
            partial(run_floor, comparison, count),
        )
        figure = "CPU a query / bare epoll loop's"
        ratio, state = pairs.ratio("cpu_us"), pairs.mean_interrupts()
        lines.append(Line(name, figure, ratio, Target(FLOOR_TARGET), pairs.records(), state))
    return lines


def prepare_by_dynoload(comparison: Comparison, tables: int, rows: int) -> Load:
    """One prepare on fresh tables, which are dropped afterwards."""
    size = ["--tables", str(tables), "--table-size", str(rows)]
    database = comparison.connection("dyno_bench")
    done = comparison.dynoload.execute("oltp", "prepare", *database, *size)
    drop(comparison, tables)
    return Load(tables * rows, done.elapsed_s, done.cpu_s, done.peak_rss_bytes)


def prepare_by_sysbench(comparison: Comparison, tables: int, rows: int) -> Load:
    """The same by sysbench, with a thread for each table."""
    size = [f"--tables={tables}", f"--table-size={rows}", f"--threads={tables}"]
    database = comparison.sysbench_connection("dyno_bench")
    done = comparison.sysbench.execute(*database, *size, "oltp_read_write", "prepare")
    drop(comparison, tables)
    return Load(tables * rows, done.elapsed_s, done.cpu_s, done.peak_rss_bytes)


def drop(comparison: Comparison, tables: int) -> None:
    """Drop the tables of a prepare."""
    comparison.dynoload.execute("oltp", "cleanup", *comparison.connection("dyno_bench"), "--tables", str(tables))


def bench_prepare(comparison: Comparison) -> Lines:
    """Rows per second of prepare, several tables and one big one."""
    lines: Lines = []
    # The first makes the database; it is not measured.
    prepare_by_dynoload(comparison, 1, 1000)
    for kind, tables, rows in (("several tables", 4, 100_000), ("one big table", 1, 400_000)):
        say(f"prepare, {kind}")
        pairs = paired(
            min(PREPARE_PAIRS, comparison.pairs),
            partial(prepare_by_dynoload, comparison, tables, rows),
            partial(prepare_by_sysbench, comparison, tables, rows),
        )
        target = Target(PREPARE_TARGETS[kind], at_most=False)
        name = f"prepare {tables} x {rows:,} rows"
        lines.append(Line(name, "rows a second / sysbench's", pairs.ratio("per_s"), target, pairs.records()))
    return lines


def bench_open_loop(comparison: Comparison) -> Lines:
    """Pacing lag at 20,000 a second, and memory and lag with many mostly idle connections."""
    lines: Lines = []
    for name, pacing in (("sleeping pacer", "sleep"), ("spinning pacer", "spin")):
        say(f"pacing at 20,000 a second, {name}")
        more = ("--rate", "20000", "--warmup", "1s", "--pacing", pacing)
        lags = [
            run_dynoload(comparison, "oltp_point_select", 32, *more)[1]["lag"]
            for _ in range(max(comparison.pairs // 2, 1))
        ]
        value = statistics.median(lag["p99_us"] for lag in lags)
        runs = [{"lag_p50_us": lag["p50_us"], "lag_p99_us": lag["p99_us"]} for lag in lags]
        lines.append(Figure(f"20,000/s, {name}", "lag p99", value, LAG_TARGET_US, "µs", runs))
    count = comparison.idle_connections
    say(f"{count:,} mostly idle connections")
    load, final = run_dynoload(comparison, "oltp_point_select", count, "--rate", "2000", "--warmup", "1s")
    name = f"{count:,} connections, 2,000/s"
    lines.append(Figure(name, "memory", load.rss_bytes / 1e6, IDLE_MEMORY_TARGET_MB, "MB"))
    lines.append(Figure(name, "lag p99", final["lag"]["p99_us"], LAG_TARGET_US, "µs"))
    return lines


def bench_recording(bench: Bench) -> Lines:
    """Cost of recording one operation, from the engine's own micro-benchmark, without and with its clock reading."""
    if shutil.which("cargo") is None:
        bench.skip("recording: it is an example of the engine, and there is no cargo to build it")
        return []
    say("recording: building the example")
    target = Path(os.environ.get("MYDYNO_CACHE", REPOSITORY)) / "engine" / "target"
    build = [
        "cargo", "build", "--manifest-path", str(REPOSITORY / "engine" / "Cargo.toml"), "--release", "--locked",
        "--quiet", "--package", "dyno-load", "--example", "recording", "--target-dir", str(target),
    ]  # fmt: skip
    execute(build)
    cost = json.loads(execute([str(target / "release" / "examples" / "recording")]).output)
    return [
        Figure("recording", "an operation, records alone", cost["records_ns"], RECORDING_TARGET_NS, "ns"),
        Figure("recording", "with the clock read", cost["ns_per_operation"], RECORDING_TARGET_NS, "ns"),
    ]


def bench_before(comparison: Comparison, before: Program) -> Lines:
    """CPU per query against an earlier dynoload."""

    def measure(program: Program, workload: str, connections: int) -> Load:
        earlier = replace(comparison, dynoload=program)
        return measure_dynoload(earlier, workload, connections, *AT_THEIR_PRIORITY)

    return [
        against_before(
            comparison.pairs, f"{workload}, {count} connections",
            partial(measure, workload=workload, connections=count), comparison.dynoload, before,
        )
        for workload in CPU_TARGETS
        for count in comparison.connections
    ]  # fmt: skip


def comparison_of(options: argparse.Namespace, bench: Bench) -> Comparison:
    """Start the server and make the tables."""
    dynoload = bench.use(Program.at(options.dynoload) if options.dynoload else bench.servers.dynoload())
    sysbench = bench.use(bench.servers.package("sysbench", "usr/bin/sysbench", cwd="usr/share/sysbench"))
    floor = bench.use(compiled(HERE / "floor.c", bench.folder))
    server = bench.servers.mariadb()
    bench.settings = {
        "server": server.settings,
        "data": f"1 table of {TABLE_SIZE:,} rows; connections over TCP loopback",
    }
    comparison = Comparison(
        bench, server, dynoload, sysbench, floor, options.pairs, options.seconds, options.connections,
        options.idle_connections,
    )  # fmt: skip
    dynoload.execute("oltp", "prepare", *comparison.connection(), "--table-size", str(TABLE_SIZE))
    return comparison


def parts_of(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """The parts that can be measured."""
    comparison = comparison_of(options, bench)
    if options.before:
        before = bench.use(Program.at(options.before, "dynoload before"))
        return {"before": lambda: bench_before(comparison, before)}
    return {
        "open": lambda: bench_open_loop(comparison),
        "cpu": lambda: bench_cpu(comparison),
        "floor": lambda: bench_floor(comparison),
        "prepare": lambda: bench_prepare(comparison),
        "recording": lambda: bench_recording(bench),
    }


def main() -> int:
    """Measure everything asked for."""
    command = parser(__doc__ or "", pairs=6, seconds=2, parts=PARTS)
    command.add_argument("--before", type=Path, metavar="PATH", help=BEFORE_HELP)
    command.add_argument("--connections", type=int, nargs="+", default=[16, 64, 256], help="[16 64 256]")
    command.add_argument("--idle-connections", type=int, default=10_000, help="[10000]")
    options = command.parse_args()
    return run(options, partial(parts_of, options))


if __name__ == "__main__":
    sys.exit(main())
