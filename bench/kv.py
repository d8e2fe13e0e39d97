"""dynoload kv against memcaslap (libmemcached-tools) and against a bare epoll loop, alternately on memcached.

What is measured: CPU of the client process (user + system, from wait4(2)) per operation, and operations per second, at
32 connections with 90 % get and 10 % set of 1 KB through one memcached thread. Every run has a fresh memcached. Short
runs of both programs in the order ABBA; a figure is the geometric mean of the pairs' ratios with its 95 % interval.
All programs run at the same priority (dynoload's own default is a raised one). dynoload records the latency of every
operation, compares 1 % of the values, and judges itself meanwhile. A busy neighbour changes absolute figures by 30 %
and more: only the ratios of one execution mean something. Without options it takes about two minutes. memcached and
memcaslap are unpacked from packages into the cache. Exit code 1: a target is missed, 3: this host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from support.command import Bench, Lines, Part, parser, run
from support.pairs import BEFORE_HELP, Line, Load, Target, against_before, paired
from support.programs import BenchError, Program, compiled, say

HERE = Path(__file__).parent
PARTS = ("peer", "floor")
KEYS = 10_000
KEY_BYTES = 64
VALUE_BYTES = 1024
PEER_CPU_TARGET = 0.85
PEER_THROUGHPUT_TARGET = 1.15
FLOOR_CPU_TARGET = 1.10


@dataclass
class Comparison:
    """The programs, and how they are run."""

    bench: Bench
    dynoload: Program
    memcaslap: Program
    floor: Program
    pairs: int
    seconds: int
    connections: int
    protocol: str

    @property
    def name(self) -> str:
        """What every line is about."""
        return f"90/10, {self.connections} connections, {VALUE_BYTES} B"


def run_memcaslap(comparison: Comparison) -> Load:
    """One run of memcaslap with its own defaults: 90/10, keys of 64 B, values of 1024 B, windows of 10k."""
    with comparison.bench.servers.memcached() as port:
        arguments = [
            "-s", f"127.0.0.1:{port}", "-t", f"{comparison.seconds}s", "-c", str(comparison.connections), "-T", "1"
        ]  # fmt: skip
        comparison.bench.note_command("memcaslap", comparison.memcaslap, arguments)
        done = comparison.memcaslap.execute(*arguments)
    found = re.search(r"Run time: ([\d.]+)s Ops: (\d+) TPS", done.output)
    if not found:
        raise BenchError(f"memcaslap's output has no last line:\n{done.output}")
    return Load(float(found[2]), float(found[1]), done.cpu_s, done.peak_rss_bytes, done.interrupts)


def run_dynoload(comparison: Comparison, against: str, *more: str) -> Load:
    """One run of dynoload kv."""
    with comparison.bench.servers.memcached() as port:
        arguments = [
            "kv", "run", "--port", str(port), "--connections", str(comparison.connections),
            "--protocol", comparison.protocol, "--duration", f"{comparison.seconds}s", "--threads", "1",
            "--priority", "normal", "--quiet", "--json", "-", *more,
        ]  # fmt: skip
        comparison.bench.note_command(f"dynoload against {against}", comparison.dynoload, arguments)
        done = comparison.dynoload.execute(*arguments)
    final = json.loads(done.output.splitlines()[-1])
    operations = final["whole_load_counts"]["transactions"]
    operations += sum(part["counts"]["transactions"] for part in final["parts"])
    if final["kv"]["counts"]["wrong_values"] or final["kv"]["counts"]["get_misses"]:
        raise BenchError(f"wrong values or misses in {final['kv']['counts']}")
    return Load(operations, final["duration_s"], done.cpu_s, done.peak_rss_bytes, done.interrupts)


def run_floor(comparison: Comparison) -> Load:
    """One run of the bare epoll loop; its CPU time is that of the loop, without storing the keys."""
    with comparison.bench.servers.memcached() as port:
        arguments = [
            "127.0.0.1", str(port), str(comparison.connections), str(comparison.seconds), "10", str(KEYS),
            str(KEY_BYTES), str(VALUE_BYTES),
        ]  # fmt: skip
        comparison.bench.note_command("floor", comparison.floor, arguments)
        done = comparison.floor.execute(*arguments)
    result = json.loads(done.output)
    return Load(result["operations"], result["elapsed_s"], result["cpu_s"], done.peak_rss_bytes, done.interrupts)


def bench_peer(comparison: Comparison) -> Lines:
    """CPU per operation and operations a second against memcaslap."""
    say("against memcaslap")
    ours = partial(run_dynoload, comparison, "memcaslap", "--preset", "memaslap")
    pairs = paired(comparison.pairs, ours, partial(run_memcaslap, comparison))
    cpu, throughput = Target(PEER_CPU_TARGET), Target(PEER_THROUGHPUT_TARGET, at_most=False)
    return [
        Line(
            comparison.name,
            "CPU an operation / memcaslap's",
            pairs.ratio("cpu_us"),
            cpu,
            pairs.records(),
            pairs.mean_interrupts(),
        ),
        Line(comparison.name, "operations a second / memcaslap's", pairs.ratio("per_s"), throughput),
    ]


def bench_floor(comparison: Comparison) -> Lines:
    """CPU per operation against the bare epoll loop, on its keys and sizes; dynoload's CPU includes storing them."""
    say("against the bare epoll loop")
    more = ["--fill", "100%", "--keys", str(KEYS), "--key-size", str(KEY_BYTES), "--value-size", str(VALUE_BYTES)]
    ours = partial(run_dynoload, comparison, "the floor", *more)
    pairs = paired(comparison.pairs, ours, partial(run_floor, comparison))
    figure = "CPU an operation / bare epoll loop's"
    ratio, state = pairs.ratio("cpu_us"), pairs.mean_interrupts()
    return [Line(comparison.name, figure, ratio, Target(FLOOR_CPU_TARGET), pairs.records(), state)]


def bench_before(comparison: Comparison, before: Program) -> Lines:
    """CPU per operation against an earlier dynoload."""

    def measure(program: Program) -> Load:
        return run_dynoload(replace(comparison, dynoload=program), "an earlier one", "--preset", "memaslap")

    return [against_before(comparison.pairs, comparison.name, measure, comparison.dynoload, before)]


def parts_of(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """The programs from packages; the parts."""
    dynoload = bench.use(Program.at(options.dynoload) if options.dynoload else bench.servers.dynoload())
    memcaslap = bench.use(bench.servers.package("libmemcached-tools", "usr/bin/memcaslap", "usr/bin/memaslap"))
    floor = bench.use(compiled(HERE / "floor_kv.c", bench.folder))
    bench.settings = {"server": f"{bench.servers.memcached_version()}, fresh for each run, TCP loopback"}
    comparison = Comparison(
        bench, dynoload, memcaslap, floor, options.pairs, options.seconds, options.connections, options.protocol
    )
    if options.before:
        before = bench.use(Program.at(options.before, "dynoload before"))
        return {"before": lambda: bench_before(comparison, before)}
    return {"peer": lambda: bench_peer(comparison), "floor": lambda: bench_floor(comparison)}


def main() -> int:
    """Measure everything asked for."""
    command = parser(__doc__ or "", pairs=10, seconds=2, parts=PARTS)
    command.add_argument("--before", type=Path, metavar="PATH", help=BEFORE_HELP)
    command.add_argument("--protocol", default="text", choices=["text", "binary", "meta"], help="[text]")
    command.add_argument("--connections", type=int, default=32, help="[32]")
    options = command.parse_args()
    return run(options, partial(parts_of, options))


if __name__ == "__main__":
    sys.exit(main())
