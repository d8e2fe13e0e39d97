"""What dynoprobe costs: its own CPU, that of the server for its replies, and the same for the usual alternatives.

What is measured: user and system CPU time of each sampler and of the children that it waited for, by wait4(2), from its
start to its end, in percent of one core; meanwhile the server's CPU time, from /proc/PID/task/*/schedstat, less what it
uses unsampled. All samplers run in each round, in the reverse order in every second one; a ratio is the geometric mean
over the rounds with its 95 % interval. Wrong: interrupts are charged to the task that they interrupt; under load
(--load) the server's own CPU time says nothing about the probe and is left out.

Without options the server is a private idle MariaDB, unpacked from packages, and it takes about seven minutes. The
alternatives: a shell loop that reads the same files and runs the server's client once a second; `pidstat` (sysstat)
where it is on the PATH. Exit code 1: the limit for dynoprobe is missed, 3: this host cannot do it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from support import programs
from support.command import Bench, Lines, Part, parser, run
from support.pairs import Figure, Line, Load, Ratio, paired
from support.programs import BenchError, Program, execute, say
from support.servers import Mariadb

PARTS = ("statements", "samplers")
LIMIT_PCT = 0.3
STATEMENTS = 1000
LOAD_START_S = 2.0

SHELL_LOOP = """
while sleep 1; do
    cat /proc/stat /proc/meminfo /proc/vmstat /proc/diskstats /proc/net/dev /proc/net/snmp /proc/pressure/* \
        /proc/{pid}/stat /proc/{pid}/status /proc/{pid}/io
    {client} -e 'SHOW GLOBAL STATUS'
done
"""


@dataclass
class Sampler:
    """One program that samples, and its costs: one number a round, in percent of one core."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    own_pct: list[float] = field(default_factory=list)
    server_pct: list[float] = field(default_factory=list)


@dataclass
class Comparison:
    """The server and the programs."""

    bench: Bench
    server: Mariadb
    probe: Program
    rounds: int
    seconds: int
    load: str | None

    @property
    def client(self) -> list[str]:
        """The server's own client with its connection; empty where there is none."""
        if self.server.client is None:
            return []
        connection = ["--no-defaults", f"-u{self.server.user}", f"-S{self.server.socket}", "-N"]
        return [*self.server.client.command, *connection]

    @property
    def client_environment(self) -> dict[str, str]:
        """Where the client finds its libraries."""
        return self.server.client.environment if self.server.client else {}


def server_cpu_ns(pid: int) -> int:
    """CPU time of all present threads in nanoseconds; a thread that ends takes its time with it."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except (OSError, IndexError):
            continue
    return total


def run_once(command: list[str], environment: dict[str, str], seconds: float, pid: int) -> tuple[float, float]:
    """Run one sampler; its own and the server's CPU time, both in percent of one core."""
    with tempfile.TemporaryFile() as sink:
        server_before, began = server_cpu_ns(pid), time.monotonic()
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        try:
            programs.sleep(seconds)
        finally:
            # The group is this child's own: the shell's loop has a client or a sleep running in it.
            os.killpg(child.pid, signal.SIGTERM)
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = 0
        elapsed, server = time.monotonic() - began, server_cpu_ns(pid) - server_before
        assert child.stdin is not None
        child.stdin.close()
    return 100 * (usage.ru_utime + usage.ru_stime) / elapsed, 100 * server / 1e9 / elapsed


def samplers(comparison: Comparison) -> list[Sampler]:
    """The probe with and without the server's status, and the alternatives that are there."""
    server, probe = comparison.server, comparison.probe.command[0]
    instance = f"1:{server.pid},socket={server.socket},user={server.user}"
    found = [
        Sampler("dynoprobe", [probe, "--instance", instance, "--disk", "/", "--output", "-"]),
        Sampler("dynoprobe, /proc only", [probe, "--instance", f"1:{server.pid}", "--disk", "/", "--output", "-"]),
    ]
    if pidstat := shutil.which("pidstat"):
        found.append(Sampler("pidstat", [pidstat, "-u", "-r", "-d", "-w", "-p", str(server.pid), "1"]))
    else:
        comparison.bench.skip("pidstat: it is not on the PATH (sysstat)")
    if comparison.client:
        loop = SHELL_LOOP.format(pid=server.pid, client=shlex.join(comparison.client))
        found.append(Sampler("shell loop with the client", ["/bin/sh", "-c", loop], comparison.client_environment))
    else:
        comparison.bench.skip("shell loop: the server's package has no client")
    for sampler in found:
        comparison.bench.commands[sampler.name] = shlex.join(sampler.command).strip()
    return found


def bench_samplers(comparison: Comparison) -> Lines:
    """CPU of the probe against its limit, and the alternatives against the probe."""
    load = None
    if comparison.load:
        load = subprocess.Popen(shlex.split(comparison.load), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        if load is not None:
            programs.sleep(LOAD_START_S)
        found = sample_all(comparison)
        if load is not None and load.poll() is not None:
            raise BenchError(f"the load ended before the measurement, with {load.returncode}")
    finally:
        if load is not None and load.poll() is None:
            os.killpg(load.pid, signal.SIGTERM)
            load.wait()
    lines: Lines = []
    for sampler in found:
        costs = [
            {"own_pct": own, "server_pct": cost} for own, cost in zip(sampler.own_pct, sampler.server_pct, strict=True)
        ]
        if sampler is found[0]:
            median = statistics.median(sampler.own_pct)
            lines.append(Figure(sampler.name, "CPU, median", median, LIMIT_PCT, "% of a core", costs))
        elif sampler is found[1]:
            continue
        else:
            ratios = [other / own for other, own in zip(sampler.own_pct, found[0].own_pct, strict=True)]
            lines.append(Line(sampler.name, "CPU / dynoprobe's", Ratio.of(ratios), runs=costs))
    for sampler in found:
        text = f"{statistics.median(sampler.own_pct):.3f} % of a core"
        if not comparison.load:
            text += f", {statistics.median(sampler.server_pct):.3f} % of the server for its replies"
        comparison.bench.settings[f"CPU of {sampler.name}, median"] = text
    return lines


def sample_all(comparison: Comparison) -> list[Sampler]:
    """All samplers in turn, round after round."""
    found = samplers(comparison)
    pid = comparison.server.pid
    for number in range(comparison.rounds):
        say(f"samplers, round {number + 1} of {comparison.rounds}")
        idle = run_once(["/bin/sleep", "86400"], {}, comparison.seconds, pid)[1]
        for sampler in found if number % 2 == 0 else reversed(found):
            own, server = run_once(sampler.command, sampler.environment, comparison.seconds, pid)
            sampler.own_pct.append(own)
            sampler.server_pct.append(server - idle)
    return found


def status_names(probe: Program) -> list[str]:
    """Status variables that the probe reads, from its own catalogue."""
    catalogue = json.loads(execute([*probe.command, "--metrics-json"]).output)
    names: set[str] = set()
    for metric in catalogue["metrics"]:
        _, found, variables = metric["source"].partition("SHOW GLOBAL STATUS: ")
        if found:
            names.update(name for name in variables.replace(",", " +").split(" + ") if name[0].isupper())
    return sorted(names)


def run_statements(comparison: Comparison, text: str) -> Load:
    """One client that sends the statements; `cpu_s` is the server's CPU time, in whole ticks (mostly 10 ms)."""
    programs.sleep(0.0)
    before = server_cpu_s(comparison.server.pid)
    began = time.monotonic()
    environment = {**os.environ, **comparison.client_environment}
    done = subprocess.run(
        comparison.client, input=text.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"{shlex.join(comparison.client)} failed:\n{done.stderr.decode(errors='replace')}")
    cpu_s = server_cpu_s(comparison.server.pid) - before
    return Load(STATEMENTS, time.monotonic() - began, cpu_s, 0.0)


def bench_statements(comparison: Comparison) -> Lines:
    """CPU of the server for the probe's status statement against that of a plain SHOW GLOBAL STATUS."""
    if comparison.load or not comparison.client:
        comparison.bench.skip("statements: they need a server without load, and its client")
        return []
    say("status statements")
    names = ",".join(f"'{name}'" for name in status_names(comparison.probe))
    where = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"
    plain = "SHOW GLOBAL STATUS;\n" * STATEMENTS
    prepared = f"PREPARE s FROM {json.dumps(where)};\n" + "EXECUTE s;\n" * STATEMENTS
    lines: Lines = []
    for name, text in (("… WHERE Variable_name IN (…)", f"{where};\n" * STATEMENTS), ("the same, prepared", prepared)):
        ours, theirs = partial(run_statements, comparison, text), partial(run_statements, comparison, plain)
        pairs = paired(comparison.rounds, ours, theirs)
        figure = "server CPU / SHOW GLOBAL STATUS's"
        lines.append(Line(name, figure, pairs.ratio("cpu_us"), runs=pairs.records()))
    return lines


def server_cpu_s(pid: int) -> float:
    """CPU time of the server, ended threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def given_server(options: argparse.Namespace) -> Mariadb:
    """A server that runs already, with its client from the PATH."""
    client = options.client or shutil.which("mariadb") or shutil.which("mysql")
    return Mariadb(
        version="a given server", host="", port=0, socket=options.socket, pid=options.pid, user=options.user,
        folder=Path(), client=Program("client", (str(client),)) if client else None,
    )  # fmt: skip


def parts_of(options: argparse.Namespace, bench: Bench) -> Mapping[str, Part]:
    """Start the server where none is given; the parts."""
    probe = bench.use(Program.at(options.probe or bench.servers.paths.program("dynoprobe")))
    given = options.socket is not None
    server = given_server(options) if given else bench.servers.mariadb()
    threads = len(list(Path(f"/proc/{server.pid}/task").iterdir()))
    settings = f"given, pid {server.pid}" if given else server.settings
    bench.settings = {
        "server": f"{settings}; {threads} threads, load: {options.load or 'none'}",
        "sampling": "one sample a second",
    }
    comparison = Comparison(bench, server, probe, options.pairs, options.seconds, options.load)
    return {
        "statements": lambda: bench_statements(comparison),
        "samplers": lambda: bench_samplers(comparison),
    }


def main() -> int:
    """Measure everything asked for."""
    command = parser(__doc__ or "", pairs=5, seconds=15, parts=PARTS)
    command.add_argument("--socket", type=Path, help="socket of a running server instead of a private one; needs --pid")
    command.add_argument("--pid", type=int, help="its process")
    command.add_argument("--user", default="root", help="its account, without a password [root]")
    command.add_argument("--client", type=Path, help="its client program [mariadb or mysql on the PATH]")
    command.add_argument("--probe", type=Path, metavar="PATH", help="another dynoprobe than the one of this tree")
    command.add_argument("--load", help="a command that loads the server meanwhile; it is ended afterwards")
    options = command.parse_args()
    if (options.socket is None) != (options.pid is None):
        command.error("--socket and --pid belong together")
    return run(options, partial(parts_of, options))


if __name__ == "__main__":
    sys.exit(main())
