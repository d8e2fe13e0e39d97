"""dynoload's TPC-C against tpcc-mysql and go-tpc, alternately on the same server.

What is measured: CPU of the client process (user + system, from wait4(2)) per transaction over the whole of each run,
and the time to load warehouses. tpcc-mysql runs on tables that dynoload has made, under the same names; go-tpc makes
its own, once. Each pair runs both programs one after the other, the order changing from pair to pair; the figure is
the median of the pairs' ratios. No package carries the peers: their paths are given, and a peer that is not given is
left out aloud. Loads are compared with each program's own default of threads (one for go-tpc and tpcc-mysql). To load,
tpcc-mysql's folder must hold its create_table.sql and tpcc_load too, and PYTHON must have PyMySQL.
Loads write hundreds of megabytes: with the data on a disk, or with a redo log that does not hold the load
(--innodb-log-file-size), the disk is measured, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shlex
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from support.pairs import REPOSITORY, Line, execute, measure, paired, ratio, say, show, version_of

CPU_TARGETS = {"tpcc-mysql": 0.60, "go-tpc": 0.50}
LOAD_TARGETS = {"go-tpc": 4.0, "tpcc-mysql": 8.0}
TPCC_MYSQL_LOAD = "dyno_bench_tpcc_mysql_load"
# Each is met on its own ground: tpcc-mysql asks for one item at a time, go-tpc joins.
STOCK_LEVEL = {"tpcc-mysql": "per-item", "go-tpc": "join"}


@dataclass
class Cost:
    """One execution of one program."""

    transactions: float
    cpu_s: float
    new_orders_per_minute: float

    @property
    def cpu_us_per_transaction(self) -> float:
        """CPU of the client per transaction, µs."""
        return self.cpu_s * 1e6 / max(self.transactions, 1)


@dataclass
class Place:
    """The server and the programs."""

    host: str
    port: int
    user: str
    warehouses: int
    seconds: int
    dynoload: Path
    tpcc_mysql: Path | None
    go_tpc: Path | None

    def connection(self, database: str) -> list[str]:
        """dynoload's options for a database."""
        place = ["--host", self.host, "--port", str(self.port)]
        return [*place, "--user", self.user, "--database", database]

    def go(self, command: str, *rest: str) -> list[str]:
        """go-tpc's command line."""
        place = ["-H", self.host, "-P", str(self.port), "-U", self.user, "-D", "dyno_bench_go"]
        return [str(self.go_tpc), "tpcc", command, *place, "--warehouses", str(self.warehouses), *rest]


def run_dynoload(place: Place, connections: int, pipelining: str, stock_level: str) -> Cost:
    """One run of dynoload."""
    load = ["--connections", str(connections), "--duration", f"{place.seconds}s", "--home", "random"]
    load += ["--pipelining", pipelining, "--stock-level", stock_level]
    load += ["--priority", "normal"]  # the peers' own: before the others a client wakes for every single answer
    command = [str(place.dynoload), "tpcc", "run", *place.connection("dyno_bench_tpcc"), *load]
    output, usage, _ = execute([*command, "--quiet", "--json", "-"])
    final = json.loads(output.splitlines()[-1])
    cpu_s = usage.cpu_s
    return Cost(final["whole_load_counts"]["transactions"], cpu_s, final["tpcc"]["tpmc_like"])


def run_tpcc_mysql(place: Place, connections: int) -> Cost:
    """One run of tpcc-mysql, without a ramp-up so that every transaction is in its counts."""
    output, usage, _ = execute(
        [
            str(place.tpcc_mysql), f"-h{place.host}", f"-P{place.port}", "-ddyno_bench_peer", f"-u{place.user}", "-p",
            "", f"-w{place.warehouses}", f"-c{connections}", "-r0", f"-l{place.seconds}", f"-i{place.seconds}",
        ]
    )  # fmt: skip
    exact = output.split("<Raw Results2(sum ver.)>")[-1]
    counts = [(int(done), int(late)) for done, late in re.findall(r"sc:(\d+)\s+lt:(\d+)", exact)[:5]]
    transactions = sum(done + late for done, late in counts)
    if not transactions:
        raise SystemExit(f"tpcc-mysql ran nothing:\n{output}")
    new_orders = sum(counts[0]) * 60 / place.seconds
    return Cost(transactions, usage.cpu_s, new_orders)


def run_go_tpc(place: Place, connections: int) -> Cost:
    """One run of go-tpc."""
    output, usage, _ = execute(place.go("run", "-T", str(connections), "--time", f"{place.seconds}s"))
    summary = re.findall(r"\[Summary\] (\w+) - .*?Count: (\d+)", output)
    transactions = sum(int(count) for name, count in summary if not name.endswith("_ERR"))
    if not transactions:
        raise SystemExit(f"go-tpc ran nothing:\n{output}")
    found = re.search(r"tpmC: ([\d.]+)", output)
    return Cost(transactions, usage.cpu_s, float(found[1]) if found else 0.0)


def bench_cpu(place: Place, peers: list[str], pairs: int, connections: list[int]) -> list[Line]:
    """CPU per transaction against each peer."""
    runners = {"tpcc-mysql": run_tpcc_mysql, "go-tpc": run_go_tpc}
    lines = []
    for count, peer, pipelining in itertools.product(connections, peers, ("off", "on")):
        say(f"{count} connections, pipelining {pipelining}, against {peer}")
        ours = partial(run_dynoload, place, count, pipelining, STOCK_LEVEL[peer])
        costs = paired(pairs, ours, partial(runners[peer], place, count))
        runs = [
            {
                "ours_cpu_us": mine.cpu_us_per_transaction,
                "theirs_cpu_us": other.cpu_us_per_transaction,
                "ours_new_orders_per_minute": mine.new_orders_per_minute,
                "theirs_new_orders_per_minute": other.new_orders_per_minute,
            }
            for mine, other in costs
        ]
        name = f"{place.warehouses} warehouses, {count} connections, pipelining {pipelining}"
        figure = f"CPU a transaction / {peer}'s"
        lines.append(
            Line(name, figure, ratio(costs, "cpu_us_per_transaction"), CPU_TARGETS[peer], "lower", "ratio", runs)
        )
    return lines


def timed(command: list[str]) -> float:
    """How long a command takes, s."""
    start = time.monotonic()
    execute(command)
    return time.monotonic() - start


def load_by_go_tpc(place: Place) -> float:
    """Seconds of go-tpc's load, with its own default of one thread."""
    execute(place.go("cleanup"))
    return timed(place.go("prepare", "--no-check"))


def load_by_tpcc_mysql(place: Place) -> float:
    """Seconds of tpcc-mysql's load into its own tables, without the indexes and foreign keys that it adds later."""
    import pymysql

    assert place.tpcc_mysql is not None
    folder = place.tpcc_mysql.parent
    with pymysql.connect(host=place.host, port=place.port, user=place.user, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute(f"DROP DATABASE IF EXISTS {TPCC_MYSQL_LOAD}")
        cursor.execute(f"CREATE DATABASE {TPCC_MYSQL_LOAD}")
        cursor.execute(f"USE {TPCC_MYSQL_LOAD}")
        for statement in (folder / "create_table.sql").read_text().split(";"):
            if statement.strip():
                cursor.execute(statement)
        load = [str(folder / "tpcc_load"), f"-h{place.host}", f"-P{place.port}", f"-d{TPCC_MYSQL_LOAD}"]
        elapsed_s = timed([*load, f"-u{place.user}", "-p", "", f"-w{place.warehouses}"])
        cursor.execute(f"DROP DATABASE {TPCC_MYSQL_LOAD}")
    return elapsed_s


def bench_load(place: Place, peers: list[str], pairs: int) -> list[Line]:
    """Time to load the warehouses, indexes included, against each peer's."""
    database = place.connection("dyno_bench_load")
    make = [str(place.dynoload), "tpcc", "prepare", *database, "--warehouses", str(place.warehouses)]
    loaders = {"go-tpc": load_by_go_tpc, "tpcc-mysql": load_by_tpcc_mysql}
    times: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
    for _ in range(pairs):
        for peer in peers:
            say(f"load of {place.warehouses} warehouses, against {peer}")
            execute([str(place.dynoload), "tpcc", "cleanup", *database])
            times[peer].append((timed(make), loaders[peer](place)))
    execute([str(place.dynoload), "tpcc", "cleanup", *database])
    if "go-tpc" in peers:
        execute(place.go("cleanup"))
    return [
        Line(
            f"load of {place.warehouses} warehouses",
            f"speed / {peer}'s",
            statistics.median(theirs_s / ours_s for ours_s, theirs_s in pairs_of),
            LOAD_TARGETS[peer],
            "higher",
            runs=[{"ours_s": ours_s, "theirs_s": theirs_s} for ours_s, theirs_s in pairs_of],
        )
        for peer, pairs_of in times.items()
    ]


def prepare(place: Place, peers: list[str]) -> None:
    """Make what is not there: tables for dynoload, the same for tpcc-mysql, go-tpc's own."""
    databases = ["dyno_bench_tpcc", *(["dyno_bench_peer"] if "tpcc-mysql" in peers else [])]
    for database in databases:
        say(f"tables in {database}")
        make = ["tpcc", "prepare", "--warehouses", str(place.warehouses)]
        execute([str(place.dynoload), *make, *place.connection(database)])
    if "go-tpc" in peers:
        say("go-tpc's tables")
        execute(place.go("prepare", "--no-check"))


def clean(place: Place, peers: list[str]) -> None:
    """Drop the tables."""
    for database in ["dyno_bench_tpcc", *(["dyno_bench_peer"] if "tpcc-mysql" in peers else [])]:
        execute([str(place.dynoload), "tpcc", "cleanup", *place.connection(database)])
    if "go-tpc" in peers:
        execute(place.go("cleanup"))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="a server whose account has no password")
    parser.add_argument("--user", default="root")
    parser.add_argument("--tpcc-mysql", type=Path, help="the built program tpcc_start")
    parser.add_argument("--go-tpc", type=Path, help="the built program go-tpc")
    parser.add_argument("--dynoload", type=Path, default=REPOSITORY / "engine/target/release/dynoload")
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="length of each run")
    parser.add_argument("--connections", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--only", nargs="+", choices=["cpu", "load"], default=["cpu", "load"])
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def main() -> int:
    """Measure everything asked for; exit code 1 when a target is missed."""
    options = arguments()
    place = Place(
        options.host, options.port, options.user, options.warehouses, options.seconds, options.dynoload,
        options.tpcc_mysql, options.go_tpc,
    )  # fmt: skip
    given = {"tpcc-mysql": place.tpcc_mysql, "go-tpc": place.go_tpc}
    peers = [name for name, path in given.items() if path]
    absent = [name for name, path in given.items() if not path]
    say(f"peers: {', '.join(peers) or 'none'}; not given: {', '.join(absent) or 'none'}")
    if not peers:
        say("nothing to compare with: give --tpcc-mysql or --go-tpc")
        return 2

    def cpu() -> list[Line]:
        prepare(place, peers)
        try:
            return bench_cpu(place, peers, options.pairs, options.connections)
        finally:
            clean(place, peers)

    parts = {"cpu": cpu, "load": lambda: bench_load(place, peers, options.pairs)}
    lines, failed = measure(parts, options.only)
    if options.json:
        record = {"bench": "tpcc", "dynoload": version_of([str(place.dynoload)]), "peers": peers, "absent": absent,
                  "failed": failed, "pairs": options.pairs, "seconds": options.seconds, "command": shlex.join(sys.argv),
                  "lines": [line.record() for line in lines]}  # fmt: skip
        print(json.dumps(record, indent=1))
    elif lines:
        show(lines)
    return 0 if not failed and all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
