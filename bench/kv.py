"""dynoload kv against memcaslap (libmemcached-tools) and against a bare epoll loop, alternately on memcached.

What is measured: CPU of the client process (user + system, from wait4(2)) per operation, and operations per second,
at 32 connections with 90 % get and 10 % set of 1 KB through one memcached thread. Each pair runs both programs one
after the other on a memcached of its own, the order changing from pair to pair; the figure is the median of the
pairs' ratios, so a slow drift of the machine cancels out. dynoload keeps latencies of every operation, compares 1 %
of the values, and judges itself while it does so. A busy neighbour changes absolute figures by 30 % and more: only
the ratios of one go mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from support.pairs import REPOSITORY, Line, execute, measure, paired, ratio, runs_of, say, show, version_of

HERE = Path(__file__).parent
KEYS = 10_000
KEY_BYTES = 64
VALUE_BYTES = 1024
PEER_CPU_TARGET = 0.85
PEER_THROUGHPUT_TARGET = 1.15
FLOOR_CPU_TARGET = 1.10


@dataclass
class Measure:
    """One execution of one program."""

    operations: float
    elapsed_s: float
    cpu_s: float

    @property
    def cpu_us_per_operation(self) -> float:
        """CPU of the client per operation, µs."""
        return self.cpu_s * 1e6 / max(self.operations, 1)

    @property
    def operations_per_s(self) -> float:
        """Operations per second."""
        return self.operations / self.elapsed_s


@dataclass
class Place:
    """The programs, and how they are run."""

    memcached: list[str]
    memaslap: list[str]
    dynoload: Path
    floor: Path
    connections: int
    seconds: float
    protocol: str


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def server(place: Place) -> Iterator[int]:
    """A fresh memcached with one thread; its port."""
    port = free_port()
    command = [*place.memcached, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", "-m", "1024"]
    if os.geteuid() == 0:
        command += ["-u", "nobody"]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{shlex.join(command)} does not answer: {error}") from error
                time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def run_memaslap(place: Place) -> Measure:
    """One run of memcaslap with its own defaults: 90/10, keys of 64 B, values of 1024 B, windows of 10k."""
    with server(place) as port:
        command = [
            *place.memaslap, "-s", f"127.0.0.1:{port}", "-t", f"{place.seconds:.0f}s", "-c", str(place.connections),
            "-T", "1",
        ]  # fmt: skip
        output, usage, _ = execute(command)
    found = re.search(r"Run time: ([\d.]+)s Ops: (\d+) TPS", output)
    if not found:
        raise SystemExit(f"memcaslap's output has no last line:\n{output}")
    return Measure(float(found[2]), float(found[1]), usage.cpu_s)


def run_dynoload(place: Place, *more: str) -> Measure:
    """One run of dynoload kv."""
    with server(place) as port:
        command = [
            str(place.dynoload), "kv", "run", "--port", str(port), "--connections", str(place.connections),
            "--protocol", place.protocol, "--duration", f"{place.seconds}s", "--threads", "1", "--quiet", "--json", "-",
            *more,
        ]  # fmt: skip
        output, usage, _ = execute(command)
    final = json.loads(output.splitlines()[-1])
    operations = final["whole_load_counts"]["transactions"]
    operations += sum(part["counts"]["transactions"] for part in final["parts"])
    if final["kv"]["counts"]["wrong_values"] or final["kv"]["counts"]["get_misses"]:
        raise SystemExit(f"wrong values or misses in {final['kv']['counts']}")
    return Measure(operations, final["duration_s"], usage.cpu_s)


def run_window(place: Place) -> Measure:
    """One run of dynoload with memaslap's preset."""
    return run_dynoload(place, "--preset", "memaslap")


def run_filled(place: Place) -> Measure:
    """One run of dynoload on the keys and sizes of the floor; its CPU includes storing them."""
    more = ["--fill", "100%", "--keys", str(KEYS), "--key-size", str(KEY_BYTES), "--value-size", str(VALUE_BYTES)]
    return run_dynoload(place, *more)


def run_floor(place: Place) -> Measure:
    """One run of the bare epoll loop."""
    with server(place) as port:
        command = [
            str(place.floor), "127.0.0.1", str(port), str(place.connections), str(place.seconds), "10", str(KEYS),
            str(KEY_BYTES), str(VALUE_BYTES),
        ]  # fmt: skip
        output, _, _ = execute(command)
    result = json.loads(output)
    return Measure(result["operations"], result["elapsed_s"], result["cpu_s"])


def bench_peer(place: Place, pairs: int) -> list[Line]:
    """CPU per operation and operations a second against memcaslap."""
    say("against memcaslap")
    result = paired(pairs, partial(run_window, place), partial(run_memaslap, place))
    name = f"90/10, {place.connections} connections, {VALUE_BYTES} B"
    cpu, throughput = ratio(result, "cpu_us_per_operation"), ratio(result, "operations_per_s")
    return [
        Line(name, "CPU an operation / memcaslap's", cpu, PEER_CPU_TARGET, "lower", runs=runs_of(result)),
        Line(name, "operations a second / memcaslap's", throughput, PEER_THROUGHPUT_TARGET, "higher"),
    ]


def bench_floor(place: Place, pairs: int) -> list[Line]:
    """CPU per operation against the bare epoll loop."""
    say("against the floor")
    result = paired(pairs, partial(run_filled, place), partial(run_floor, place))
    name = f"90/10, {place.connections} connections, {VALUE_BYTES} B"
    value = ratio(result, "cpu_us_per_operation")
    return [Line(name, "CPU an operation / bare epoll loop's", value, FLOOR_CPU_TARGET, "lower", runs=runs_of(result))]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memcached", default="memcached", help="command that runs memcached")
    parser.add_argument("--memaslap", default="memcaslap", help="command that runs memcaslap (memaslap)")
    parser.add_argument("--dynoload", type=Path, default=REPOSITORY / "engine/target/release/dynoload")
    parser.add_argument("--protocol", default="text", choices=["text", "binary", "meta"])
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run")
    parser.add_argument("--only", nargs="+", choices=["peer", "floor"])
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    return parser.parse_args()


def main() -> int:
    """Measure everything asked for; exit code 1 when a target is missed."""
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        floor = Path(folder) / "floor_kv"
        subprocess.run(["cc", "-O2", "-o", str(floor), str(HERE / "floor_kv.c")], check=True)
        place = Place(
            shlex.split(options.memcached), shlex.split(options.memaslap), options.dynoload, floor,
            options.connections, options.seconds, options.protocol,
        )  # fmt: skip
        parts = {
            "peer": lambda: bench_peer(place, options.pairs),
            "floor": lambda: bench_floor(place, options.pairs),
        }
        lines, failed = measure(parts, options.only)
    if options.json:
        versions = {
            name: version_of(command)
            for name, command in (("dynoload", [str(place.dynoload)]), ("memcached", place.memcached),
                                  ("memcaslap", place.memaslap))
        }  # fmt: skip
        record = {
            "bench": "kv",
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
