"""dynoload's TPC-C against tpcc-mysql and go-tpc, alternately on a private MariaDB.

What is measured: CPU of the client process (user + system, from wait4(2)) per transaction over the whole of each run,
and the time to load warehouses. tpcc-mysql runs on tables that dynoload has made, under the same names; go-tpc makes
its own, once. Short runs of both programs in the order ABBA; a figure is the geometric mean of the pairs' ratios with
its 95 % interval. No package has the peers: their paths are given (--tpcc-mysql, --go-tpc), and a peer that is not
given is skipped, aloud. dynoload with pipelining is always compared with dynoload without. Loads are compared with each
program's own default of threads (one for go-tpc and tpcc-mysql). To load, the folder of tpcc_start must have
create_table.sql and tpcc_load, too. The data are in memory (/dev/shm) where there is room. Without options it takes
about three minutes. Exit code 1: a target is missed, 3: this host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pymysql

from support.command import Bench, Lines, Part, parser, run
from support.pairs import BEFORE_HELP, Line, Load, Target, against_before, paired
from support.programs import BenchError, Program, execute, say
from support.servers import Mariadb

PARTS = ("pipelining", "cpu", "load")
CPU_TARGETS = {"tpcc-mysql": 0.60, "go-tpc": 0.50}
LOAD_TARGETS = {"go-tpc": 4.0, "tpcc-mysql": 8.0}
LOAD_PAIRS = 2
DATABASE = "dyno_bench_tpcc"
PEER_DATABASE = "dyno_bench_peer"
LOAD_DATABASE = "dyno_bench_load"
GO_DATABASE = "dyno_bench_go"
TPCC_MYSQL_LOAD = "dyno_bench_tpcc_mysql_load"
# Each is met on its own ground: tpcc-mysql executes a statement for each item, go-tpc joins.
STOCK_LEVEL = {"tpcc-mysql": "per-item", "go-tpc": "join"}


@dataclass
class Comparison:
    """The server and the programs."""

    bench: Bench
    server: Mariadb
    dynoload: Program
    tpcc_mysql: Program | None
    go_tpc: Program | None
    pairs: int
    seconds: int
    warehouses: int
    connections: list[int]

    @property
    def peers(self) -> dict[str, Callable[[Comparison, int], Load]]:
        """What runs each peer that is there."""
        found: dict[str, Callable[[Comparison, int], Load]] = {}
        if self.tpcc_mysql:
            found["tpcc-mysql"] = run_tpcc_mysql
        if self.go_tpc:
            found["go-tpc"] = run_go_tpc
        return found

    def connection(self, database: str) -> list[str]:
        """dynoload's options for a database."""
        server = self.server
        return ["--host", server.host, "--port", str(server.port), "--user", server.user, "--database", database]

    def prepare(self, database: str) -> None:
        """Make dynoload's tables."""
        say(f"tables of {self.warehouses} warehouses in {database}")
        make = ["tpcc", "prepare", *self.connection(database), "--warehouses", str(self.warehouses)]
        self.dynoload.execute(*make)

    def cleanup(self, database: str) -> None:
        """Drop them."""
        self.dynoload.execute("tpcc", "cleanup", *self.connection(database))

    def go(self, command: str, *more: str) -> list[str]:
        """go-tpc's arguments."""
        server = self.server
        place = ["-H", server.host, "-P", str(server.port), "-U", server.user, "-D", GO_DATABASE]
        return ["tpcc", command, *place, "--warehouses", str(self.warehouses), *more]


def run_dynoload(comparison: Comparison, connections: int, pipelining: str, stock_level: str) -> Load:
    """One run of dynoload."""
    arguments = [
        "tpcc", "run", *comparison.connection(DATABASE), "--connections", str(connections),
        "--duration", f"{comparison.seconds}s", "--home", "random", "--pipelining", pipelining,
        "--stock-level", stock_level,
        # The peers' own: at a raised priority a client wakes up for every single answer.
        "--priority", "normal", "--quiet", "--json", "-",
    ]  # fmt: skip
    comparison.bench.note_command(f"dynoload, pipelining {pipelining}", comparison.dynoload, arguments)
    done = comparison.dynoload.execute(*arguments)
    final = json.loads(done.output.splitlines()[-1])
    transactions = final["whole_load_counts"]["transactions"]
    return Load(transactions, final["duration_s"], done.cpu_s, done.peak_rss_bytes)


def run_tpcc_mysql(comparison: Comparison, connections: int) -> Load:
    """One run of tpcc-mysql, without a ramp-up so that every transaction is in its counts."""
    assert comparison.tpcc_mysql is not None
    server = comparison.server
    arguments = [
        f"-h{server.host}", f"-P{server.port}", f"-d{PEER_DATABASE}", f"-u{server.user}", "-p", "",
        f"-w{comparison.warehouses}", f"-c{connections}", "-r0", f"-l{comparison.seconds}",
        f"-i{comparison.seconds}",
    ]  # fmt: skip
    comparison.bench.note_command("tpcc-mysql", comparison.tpcc_mysql, arguments)
    done = comparison.tpcc_mysql.execute(*arguments)
    exact = done.output.split("<Raw Results2(sum ver.)>")[-1]
    counts = [(int(ended), int(late)) for ended, late in re.findall(r"sc:(\d+)\s+lt:(\d+)", exact)[:5]]
    transactions = sum(ended + late for ended, late in counts)
    if not transactions:
        raise BenchError(f"tpcc-mysql executed nothing:\n{done.output}")
    return Load(transactions, comparison.seconds, done.cpu_s, done.peak_rss_bytes)


def run_go_tpc(comparison: Comparison, connections: int) -> Load:
    """One run of go-tpc."""
    assert comparison.go_tpc is not None
    arguments = comparison.go("run", "-T", str(connections), "--time", f"{comparison.seconds}s")
    comparison.bench.note_command("go-tpc", comparison.go_tpc, arguments)
    done = comparison.go_tpc.execute(*arguments)
    summary = re.findall(r"\[Summary\] (\w+) - .*?Count: (\d+)", done.output)
    transactions = sum(int(count) for name, count in summary if not name.endswith("_ERR"))
    if not transactions:
        raise BenchError(f"go-tpc executed nothing:\n{done.output}")
    return Load(transactions, comparison.seconds, done.cpu_s, done.peak_rss_bytes)


def bench_pipelining(comparison: Comparison) -> Lines:
    """dynoload with pipelining against dynoload without."""
    lines: Lines = []
    for count in comparison.connections:
        name = f"{comparison.warehouses} warehouses, {count} connections"
        say(f"{name}, pipelining on against off")
        pairs = paired(
            comparison.pairs,
            partial(run_dynoload, comparison, count, "on", "per-item"),
            partial(run_dynoload, comparison, count, "off", "per-item"),
        )
        lines.append(Line(name, "CPU a transaction, pipelining on / off", pairs.ratio("cpu_us"), runs=pairs.records()))
        lines.append(Line(name, "transactions a second, on / off", pairs.ratio("per_s")))
    return lines


def bench_cpu(comparison: Comparison) -> Lines:
    """CPU per transaction against each peer."""
    lines: Lines = []
    if "tpcc-mysql" in comparison.peers:
        comparison.prepare(PEER_DATABASE)
    if comparison.go_tpc:
        say("go-tpc's tables")
        comparison.go_tpc.execute(*comparison.go("prepare", "--no-check"))
    for peer, run_peer in comparison.peers.items():
        for count in comparison.connections:
            for pipelining in ("off", "on"):
                name = f"{comparison.warehouses} warehouses, {count} connections, pipelining {pipelining}"
                say(f"{name}, against {peer}")
                ours = partial(run_dynoload, comparison, count, pipelining, STOCK_LEVEL[peer])
                pairs = paired(comparison.pairs, ours, partial(run_peer, comparison, count))
                target = Target(CPU_TARGETS[peer])
                figure = f"CPU a transaction / {peer}'s"
                lines.append(Line(name, figure, pairs.ratio("cpu_us"), target, pairs.records()))
    return lines


def load_by_dynoload(comparison: Comparison) -> Load:
    """One load by dynoload into tables that were dropped before."""
    comparison.cleanup(LOAD_DATABASE)
    began = time.monotonic()
    comparison.prepare(LOAD_DATABASE)
    return Load(comparison.warehouses, time.monotonic() - began, 0.0, 0.0)


def load_by_go_tpc(comparison: Comparison) -> Load:
    """One load by go-tpc, with its own default of one thread."""
    assert comparison.go_tpc is not None
    comparison.go_tpc.execute(*comparison.go("cleanup"))
    done = comparison.go_tpc.execute(*comparison.go("prepare", "--no-check"))
    return Load(comparison.warehouses, done.elapsed_s, done.cpu_s, done.peak_rss_bytes)


def load_by_tpcc_mysql(comparison: Comparison) -> Load:
    """One load by tpcc-mysql into its own tables, without the indexes and foreign keys that it adds later."""
    assert comparison.tpcc_mysql is not None
    folder = Path(comparison.tpcc_mysql.command[0]).parent
    server = comparison.server
    with pymysql.connect(host=server.host, port=server.port, user=server.user, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP DATABASE IF EXISTS {TPCC_MYSQL_LOAD}")
        cursor.execute(f"CREATE DATABASE {TPCC_MYSQL_LOAD}")
        cursor.execute(f"USE {TPCC_MYSQL_LOAD}")
        for statement in (folder / "create_table.sql").read_text().split(";"):
            if statement.strip():
                cursor.execute(statement)
        place = [f"-h{server.host}", f"-P{server.port}", f"-d{TPCC_MYSQL_LOAD}", f"-u{server.user}", "-p", ""]
        done = execute([str(folder / "tpcc_load"), *place, f"-w{comparison.warehouses}"])
        cursor.execute(f"DROP DATABASE {TPCC_MYSQL_LOAD}")
    return Load(comparison.warehouses, done.elapsed_s, done.cpu_s, done.peak_rss_bytes)


def bench_load(comparison: Comparison) -> Lines:
    """Time to load the warehouses, indexes included, against that of each peer."""
    lines: Lines = []
    loaders = {"go-tpc": load_by_go_tpc, "tpcc-mysql": load_by_tpcc_mysql}
    for peer in comparison.peers:
        say(f"load of {comparison.warehouses} warehouses, against {peer}")
        count = min(LOAD_PAIRS, comparison.pairs)
        pairs = paired(count, partial(load_by_dynoload, comparison), partial(loaders[peer], comparison))
        name = f"load of {comparison.warehouses} warehouses"
        target = Target(LOAD_TARGETS[peer], at_most=False)
        lines.append(Line(name, f"speed / {peer}'s", pairs.ratio("per_s"), target, pairs.records()))
    return lines


def bench_before(comparison: Comparison, before: Program) -> Lines:
    """CPU per transaction against an earlier dynoload."""

    def measure(program: Program, connections: int) -> Load:
        return run_dynoload(replace(comparison, dynoload=program), connections, "on", "per-item")

    return [
        against_before(
            comparison.pairs, f"{comparison.warehouses} warehouses, {count} connections",
            partial(measure, connections=count), comparison.dynoload, before,
        )
        for count in comparison.connections
    ]  # fmt: skip


def parts_of(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """Start the server and make dynoload's tables; the parts."""
    given = {"tpcc-mysql": options.tpcc_mysql, "go-tpc": options.go_tpc}
    for name, path in given.items():
        if path is None:
            bench.skip(f"{name}: no path is given (--{name} PATH)")
    dynoload = bench.use(Program.at(options.dynoload) if options.dynoload else bench.servers.dynoload())
    peers = {name: bench.use(Program.at(path, name)) for name, path in given.items() if path is not None}
    server = bench.servers.mariadb()
    bench.settings = {"server": server.settings, "data": f"{options.warehouses} warehouses"}
    comparison = Comparison(
        bench, server, dynoload, peers.get("tpcc-mysql"), peers.get("go-tpc"), options.pairs, options.seconds,
        options.warehouses, options.connections,
    )  # fmt: skip
    comparison.prepare(DATABASE)
    if options.before:
        before = bench.use(Program.at(options.before, "dynoload before"))
        return {"before": lambda: bench_before(comparison, before)}
    return {
        "pipelining": lambda: bench_pipelining(comparison),
        "cpu": lambda: bench_cpu(comparison),
        "load": lambda: bench_load(comparison),
    }


def main() -> int:
    """Measure everything asked for."""
    command = parser(__doc__ or "", pairs=6, seconds=4, parts=PARTS)
    command.add_argument("--before", type=Path, metavar="PATH", help=BEFORE_HELP)
    command.add_argument("--tpcc-mysql", type=Path, metavar="PATH", help="the built program tpcc_start")
    command.add_argument("--go-tpc", type=Path, metavar="PATH", help="the built program go-tpc")
    command.add_argument("--warehouses", type=int, default=2, help="[2]")
    command.add_argument("--connections", type=int, nargs="+", default=[8, 32], help="[8 32]")
    options = command.parse_args()
    return run(options, partial(parts_of, options))


if __name__ == "__main__":
    sys.exit(main())
