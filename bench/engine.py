"""dynoload against sysbench 1.0.20 and against a bare epoll loop, alternately on the same server.

What is measured: CPU of the client process (user + system, from wait4(2)) per query, queries per second, peak
resident memory (VmHWM), rows per second of prepare, pacing lag. Each pair runs both programs one after the other, the
order changing from pair to pair; the figure is the median of the pairs' ratios, so a slow drift of the machine cancels
out. A busy neighbour changes absolute figures by 30 % and more: only the ratios of one go mean something.
Loads write hundreds of megabytes: with the data on a disk, or with a redo log that does not hold the load
(--innodb-log-file-size), the disk is measured, too.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from support.pairs import REPOSITORY, Line, execute, measure, paired, ratio, runs_of, say, show, version_of

HERE = Path(__file__).parent
TABLE_SIZE = 100_000
RECORDING_TARGET_NS = 50.0
CPU_TARGETS = {
    "oltp_point_select": {16: 0.92, 64: 0.78, 256: 0.65},
    "oltp_read_only": {16: 0.80, 64: 0.55, 256: 0.40},
    "oltp_read_write": {16: 0.75, 64: 0.55, 256: 0.35},
}
THROUGHPUT_TARGETS = {64: 1.15, 256: 1.25}
MEMORY_TARGET = 0.15
FLOOR_TARGET = 1.10
PREPARE_TARGETS = {"several tables": 2.0, "one big table": 4.0}
IDLE_MEMORY_TARGET_BYTES = 200e6
LAG_TARGET_US = 100.0


@dataclass
class Measure:
    """One execution of one program."""

    queries: float
    elapsed_s: float
    cpu_s: float
    rss_bytes: float

    @property
    def cpu_us_per_query(self) -> float:
        """CPU of the client per query, µs."""
        return self.cpu_s * 1e6 / max(self.queries, 1)

    @property
    def qps(self) -> float:
        """Queries per second."""
        return self.queries / self.elapsed_s


@dataclass
class Place:
    """The server and the programs."""

    host: str
    port: int
    user: str
    database: str
    sysbench: list[str]
    share: Path
    dynoload: Path
    floor: Path
    seconds: float


def run_sysbench(place: Place, workload: str, connections: int) -> Measure:
    """One run of sysbench over TCP."""
    command = [
        *place.sysbench, f"--mysql-host={place.host}", f"--mysql-port={place.port}", f"--mysql-user={place.user}",
        f"--mysql-db={place.database}", "--tables=1", f"--table-size={TABLE_SIZE}", f"--threads={connections}",
        f"--time={place.seconds:.0f}", workload, "run",
    ]  # fmt: skip
    output, usage, _ = execute(command, place.share)
    found = re.search(r"queries:\s+(\d+)", output)
    measured = re.search(r"total time:\s+([\d.]+)s", output)
    if not found or not measured:
        raise SystemExit(f"sysbench's output has no count of queries:\n{output}")
    return Measure(float(found[1]), float(measured[1]), usage.cpu_s, usage.peak_rss_bytes)


def run_dynoload(place: Place, workload: str, connections: int, *more: str) -> tuple[Measure, dict[str, Any]]:
    """One run of dynoload over TCP, and its final record."""
    command = [
        str(place.dynoload), "oltp", "run", "--host", place.host, "--port", str(place.port), "--user", place.user,
        "--database", place.database, "--workload", workload, "--table-size", str(TABLE_SIZE),
        "--connections", str(connections), "--duration", f"{place.seconds}s", "--quiet", "--json", "-", *more,
    ]  # fmt: skip
    output, usage, _ = execute(command)
    final = json.loads(output.splitlines()[-1])
    counts = final["whole_load_counts"]
    queries = counts["reads"] + counts["writes"] + counts["other"]
    cpu_s = usage.cpu_s
    return Measure(queries, final["duration_s"], cpu_s, usage.peak_rss_bytes), final


def measure_dynoload(place: Place, workload: str, connections: int, *more: str) -> Measure:
    """One run of dynoload over TCP, its cost only."""
    return run_dynoload(place, workload, connections, *more)[0]


def run_floor(place: Place, connections: int) -> Measure:
    """One run of the bare epoll loop."""
    command = [
        str(place.floor), place.host, str(place.port), place.user, place.database, str(TABLE_SIZE), str(connections),
        str(place.seconds),
    ]  # fmt: skip
    output, usage, _ = execute(command)
    result = json.loads(output)
    return Measure(result["queries"], result["elapsed_s"], usage.cpu_s, usage.peak_rss_bytes)


def bench_cpu(place: Place, pairs: int, connections: list[int]) -> list[Line]:
    """CPU per query, throughput and memory against sysbench."""
    lines = []
    for workload, targets in CPU_TARGETS.items():
        for count in connections:
            say(f"{workload}, {count} connections, against sysbench")
            result = paired(
                pairs,
                partial(measure_dynoload, place, workload, count),
                partial(run_sysbench, place, workload, count),
            )
            name = f"{workload}, {count} connections"
            value = ratio(result, "cpu_us_per_query")
            lines.append(
                Line(name, "CPU a query / sysbench's", value, targets[count], "lower", "ratio", runs_of(result))
            )
            if workload == "oltp_read_only" and count in THROUGHPUT_TARGETS:
                value, target = ratio(result, "qps"), THROUGHPUT_TARGETS[count]
                lines.append(Line(name, "queries a second / sysbench's", value, target, "higher", "ratio"))
            if workload == "oltp_read_only" and count == 256:
                value = ratio(result, "rss_bytes")
                lines.append(Line(name, "memory / sysbench's", value, MEMORY_TARGET, "lower", "ratio"))
    return lines


def bench_floor(place: Place, pairs: int, connections: list[int]) -> list[Line]:
    """CPU per point select against the bare epoll loop."""
    lines = []
    for count in connections:
        say(f"oltp_point_select, {count} connections, against the floor")
        result = paired(
            pairs,
            # As the floor: one thread, at the priority that it was given.
            partial(
                measure_dynoload,
                place,
                "oltp_point_select",
                count,
                "--rand-type",
                "uniform",
                "--threads",
                "1",
                "--priority",
                "normal",
            ),
            partial(run_floor, place, count),
        )
        value = ratio(result, "cpu_us_per_query")
        name = f"oltp_point_select, {count} connections"
        lines.append(
            Line(name, "CPU a query / bare epoll loop's", value, FLOOR_TARGET, "lower", "ratio", runs_of(result))
        )
    return lines


def prepare_times(place: Place, tables: int, rows: int) -> tuple[float, float]:
    """Seconds of one prepare by each program, on fresh tables."""
    database = ["--user", place.user, "--host", place.host, "--port", str(place.port), "--database", "dyno_bench"]
    drop = [str(place.dynoload), "oltp", "cleanup", *database, "--tables", str(tables)]
    make = [str(place.dynoload), "oltp", "prepare", *database, "--tables", str(tables), "--table-size", str(rows)]
    theirs = [
        *place.sysbench, f"--mysql-host={place.host}", f"--mysql-port={place.port}", f"--mysql-user={place.user}",
        "--mysql-db=dyno_bench", f"--tables={tables}", f"--table-size={rows}", f"--threads={tables}",
        "oltp_read_write", "prepare",
    ]  # fmt: skip
    _, _, ours_s = execute(make)
    execute(drop)
    _, _, theirs_s = execute(theirs, place.share)
    execute(drop)
    return ours_s, theirs_s


def bench_prepare(place: Place, pairs: int) -> list[Line]:
    """Rows per second of prepare, several tables and one big one."""
    lines = []
    for name, tables, rows in (("several tables", 4, 250_000), ("one big table", 1, 1_000_000)):
        say(f"prepare, {name}")
        times = [prepare_times(place, tables, rows) for _ in range(pairs)]
        value = statistics.median(theirs_s / ours_s for ours_s, theirs_s in times)
        runs = [{"ours_s": ours_s, "theirs_s": theirs_s} for ours_s, theirs_s in times]
        label = f"prepare {tables} x {rows:,} rows"
        lines.append(Line(label, "rows a second / sysbench's", value, PREPARE_TARGETS[name], "higher", "ratio", runs))
    return lines


def bench_open_loop(place: Place, pairs: int, idle_connections: int) -> list[Line]:
    """Pacing lag at 20,000 a second, and memory and lag with many mostly idle connections."""
    say("pacing at 20,000 a second")
    paced = [run_dynoload(place, "oltp_point_select", 32, "--rate", "20000", "--warmup", "1s")[1] for _ in range(pairs)]
    spun = [
        run_dynoload(place, "oltp_point_select", 32, "--rate", "20000", "--warmup", "1s", "--pacing", "spin")[1]
        for _ in range(pairs)
    ]
    lines = []
    for name, finals in (("sleeping pacer", paced), ("spinning pacer", spun)):
        value = statistics.median(final["lag"]["p99_us"] for final in finals)
        runs = [{"lag_p50_us": final["lag"]["p50_us"], "lag_p99_us": final["lag"]["p99_us"]} for final in finals]
        lines.append(Line(f"20,000/s, {name}", "lag p99", value, LAG_TARGET_US, "lower", "us", runs))
    say(f"{idle_connections} mostly idle connections")
    measure, final = run_dynoload(place, "oltp_point_select", idle_connections, "--rate", "2000", "--warmup", "1s")
    name = f"{idle_connections:,} connections, 2,000/s"
    lines.append(Line(name, "memory", measure.rss_bytes, IDLE_MEMORY_TARGET_BYTES, "lower", "bytes"))
    lines.append(Line(name, "lag p99", final["lag"]["p99_us"], LAG_TARGET_US, "lower", "us"))
    return lines


def bench_recording(place: Place) -> list[Line]:
    """Cost of recording one operation, from the engine's own micro-benchmark, without and with its clock reading."""
    say("recording")
    output, _, _ = execute([str(place.dynoload.parent / "examples" / "recording")])
    cost = json.loads(output)
    return [
        Line("recording", "ns an operation, records", cost["records_ns"], RECORDING_TARGET_NS, "lower", "ns"),
        Line("recording", "ns with the clock read", cost["ns_per_operation"], RECORDING_TARGET_NS, "lower", "ns"),
    ]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="a server whose account has no password")
    parser.add_argument("--user", default="root")
    parser.add_argument("--database", default="sbtest")
    parser.add_argument("--sysbench", default="sysbench", help="command that runs sysbench 1.0.20")
    parser.add_argument("--sysbench-share", type=Path, default=Path("/usr/share/sysbench"))
    parser.add_argument("--dynoload", type=Path, default=REPOSITORY / "engine/target/release/dynoload")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run")
    parser.add_argument("--connections", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--idle-connections", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=["cpu", "floor", "prepare", "open", "recording"])
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def main() -> int:
    """Measure everything asked for; exit code 1 when a target is missed."""
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        floor = Path(folder) / "floor"
        subprocess.run(["cc", "-O2", "-o", str(floor), str(HERE / "floor.c")], check=True)
        place = Place(
            options.host, options.port, options.user, options.database, shlex.split(options.sysbench),
            options.sysbench_share, options.dynoload, floor, options.seconds,
        )  # fmt: skip
        parts: dict[str, Callable[[], list[Line]]] = {
            "recording": lambda: bench_recording(place),
            "open": lambda: bench_open_loop(place, options.pairs, options.idle_connections),
            "cpu": lambda: bench_cpu(place, options.pairs, options.connections),
            "floor": lambda: bench_floor(place, options.pairs, options.connections),
            "prepare": lambda: bench_prepare(place, options.pairs),
        }
        connection = [
            "--host",
            place.host,
            "--port",
            str(place.port),
            "--user",
            place.user,
            "--database",
            place.database,
        ]
        execute([str(place.dynoload), "oltp", "cleanup", *connection])
        execute([str(place.dynoload), "oltp", "prepare", *connection, "--table-size", str(TABLE_SIZE)])
        lines, failed = measure(parts, options.only)
    if options.json:
        versions = {"dynoload": version_of([str(place.dynoload)]), "sysbench": version_of(place.sysbench)}
        record = {
            "bench": "engine",
            "versions": versions,
            "pairs": options.pairs,
            "seconds": options.seconds,
            "command": shlex.join(sys.argv),
            "failed": failed,
            "lines": [line.record() for line in lines],
        }
        print(json.dumps(record, indent=1))
    elif lines:
        show(lines)
    return 0 if not failed and all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
