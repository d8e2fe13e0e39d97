"""What a study's counters cost the server: slices of load with the sampling of a study, alternately with none at all.

What is measured: queries per second and the server's CPU time per query of slices of load on a private MariaDB. In one
slice of each pair dynoprobe samples as in a study, once a second: the host, the server's process, its status and
InnoDB's metrics, with the speed meter. In the other one it is stopped (SIGSTOP). The other counters of a study are read
between slices, when no server is loaded. The order is ABBA; a ratio is the geometric mean over the pairs with its 95 %
interval, and is "with counters / without". By default it takes about fifteen minutes.

Exit code 1: the limit is missed, 3: this host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from support import programs
from support.command import Bench, Lines, Part, parser, run
from support.pairs import Line, Load, Target, paired
from support.programs import BenchError, Program, say
from support.servers import Mariadb

WORKLOADS = ("oltp_read_only", "oltp_read_write")
CONNECTIONS = 16
TABLE_SIZE = 100_000
WASHOUT_MS = 300
LEAST_SHARE = 0.995
"""Least throughput with counters, as a share of that without."""


@dataclass
class Counters:
    """dynoprobe, which samples while it is not stopped."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    @contextmanager
    def of(cls, probe: Program, server: Mariadb, folder: Path) -> Iterator[Counters]:
        """Started with the options that a study gives it, and stopped; it ends with the context."""
        command = [
            *probe.command, "--interval-ms=1000", f"--output={folder / 'probe.jsonl'}", "--disk=/",
            f"--instance=1:{server.pid},socket={server.socket},user={server.user}", "--speed-meter",
        ]  # fmt: skip
        log = folder / "probe.log"
        with log.open("wb") as errors, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:
            made = cls(process, log)
            try:
                made.stop()
                yield made
            finally:
                process.kill()

    def go_on(self) -> None:
        """Sample from now on. Raises BenchError if dynoprobe has ended."""
        if self.process.poll() is not None:
            raise BenchError(f"dynoprobe ended with {self.process.returncode}: {self.log.read_text().strip()}")
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """No sample until it goes on."""
        self.process.send_signal(signal.SIGSTOP)


@dataclass
class HeldLoad:
    """dynoload with its connections open; each slice is asked for."""

    command: list[str]
    asks: IO[str]
    answers: IO[str]
    _number: int = field(default=0)

    @classmethod
    @contextmanager
    def of(cls, command: list[str]) -> Iterator[HeldLoad]:
        """The load program; it ends with the context. Raises BenchError if it cannot connect."""
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            try:
                made = cls(command, process.stdin, process.stdout)
                if not made._record("ready"):
                    raise BenchError(f"{shlex.join(command)} failed:\n{process.stderr.read()}")
                yield made
            finally:
                process.kill()

    def _record(self, kind: str) -> dict[str, Any]:
        """The next record of this kind; empty at the end of the output."""
        for line in self.answers:
            record: dict[str, Any] = json.loads(line)
            if record["record"] == kind:
                return record
        return {}

    def slice(self, counters: Counters, seconds: int, counted: bool) -> Load:
        """One slice; `cpu_s` is the server's. Raises BenchError if the load failed."""
        programs.sleep(0.0)
        self._number += 1
        if counted:
            counters.go_on()
        # Both slices of a pair have the same stream of random numbers.
        self.asks.write(f"go {self._number} {(self._number + 1) // 2} {WASHOUT_MS} {1000 * seconds}\n")
        self.asks.flush()
        record = self._record("slice")
        counters.stop()
        if not record or record["length_s"] <= 0:
            raise BenchError(f"{shlex.join(self.command)}: slice {self._number} failed: {record}")
        return Load(record["queries"], record["length_s"], record["server_cpu_us"] / 1e6, 0.0)


@dataclass
class Comparison:
    """The server and the programs."""

    bench: Bench
    server: Mariadb
    dynoload: Program
    probe: Program
    pairs: int
    seconds: int


def connection(server: Mariadb) -> list[str]:
    """dynoload's options for the server."""
    return [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", "--database=sbtest"]


def measure(comparison: Comparison, workload: str) -> Lines:
    """Throughput and the server's CPU time per query of one workload."""
    server, seconds = comparison.server, comparison.seconds
    command = [
        *comparison.dynoload.command, "oltp", "run", *connection(server), f"--workload={workload}",
        f"--table-size={TABLE_SIZE}", f"--connections={CONNECTIONS}", "--slices", f"--server-pid={server.pid}",
    ]  # fmt: skip
    comparison.bench.commands[workload] = shlex.join(command)
    name = f"{workload}, {CONNECTIONS} connections"
    say(name)
    with Counters.of(comparison.probe, server, comparison.bench.folder) as counters, HeldLoad.of(command) as load:
        with_counters, without = (partial(load.slice, counters, seconds, counted) for counted in (True, False))
        with_counters()  # fills caches
        without()
        made = paired(comparison.pairs, with_counters, without)
    target = Target(LEAST_SHARE, at_most=False)
    return [
        Line(name, "queries a second, with / without", made.ratio("per_s"), target, made.records()),
        Line(name, "server CPU a query, with / without", made.ratio("cpu_us")),
    ]


def parts_of(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """Start the server and make the table; a part for each workload."""
    dynoload = bench.use(Program.at(options.dynoload) if options.dynoload else bench.servers.dynoload())
    probe = bench.use(Program.at(bench.servers.paths.program("dynoprobe")))
    server = bench.servers.mariadb()
    bench.settings = {
        "server": server.settings,
        "data": f"1 table of {TABLE_SIZE:,} rows; connections over TCP loopback",
    }
    dynoload.execute("oltp", "prepare", *connection(server), f"--table-size={TABLE_SIZE}")
    comparison = Comparison(bench, server, dynoload, probe, options.pairs, options.seconds)
    return {workload: partial(measure, comparison, workload) for workload in WORKLOADS}


def main() -> int:
    """Measure both workloads."""
    options = parser(__doc__ or "", pairs=150, seconds=1, parts=WORKLOADS).parse_args()
    return run(options, partial(parts_of, options))


if __name__ == "__main__":
    sys.exit(main())
