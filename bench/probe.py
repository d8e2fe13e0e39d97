"""What dynoprobe costs: its own CPU, the server's CPU for answering it, and the same for what people use instead.

Measured: user and system CPU time of each sampler and of the children it waited for, by wait4(2), from its start to
its end, in percent of one core; the server's CPU time meanwhile, from /proc/PID/task/*/schedstat, less what it uses
unsampled. Samplers take turns, round after round, so that a busy neighbour hits all of them. Wrong: interrupts are
charged to whoever runs; with a load (--load) the server's own CPU says nothing of the probe and is left out.

Peers: `pidstat` (sysstat) when it is on the PATH; a shell loop that reads the same files and runs the server's client
once a second.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent / "engine"
LIMIT_PCT = 0.3
STATEMENTS = 1000

SHELL_LOOP = """
while sleep 1; do
    cat /proc/stat /proc/meminfo /proc/vmstat /proc/diskstats /proc/net/dev /proc/net/snmp /proc/pressure/* \
        /proc/{pid}/stat /proc/{pid}/status /proc/{pid}/io
    {client} -e 'SHOW GLOBAL STATUS'
done
"""


@dataclass
class Sampler:
    """One program that samples, and its costs: one number a run, in percent of one core."""

    name: str
    command: list[str]
    own_pct: list[float] = field(default_factory=list)
    server_pct: list[float] = field(default_factory=list)


def server_cpu_ns(pid: int) -> int:
    """CPU time of all present threads in nanoseconds; a thread that ends takes its time with it."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except (OSError, IndexError):
            continue
    return total


def run_once(command: list[str], seconds: float, pid: int) -> tuple[float, float]:
    """Runs one sampler and gives its own and the server's CPU time, both in percent of one core."""
    with tempfile.TemporaryFile() as sink:
        server_before, began = server_cpu_ns(pid), time.monotonic()
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(seconds)
        # The group is this child's own: the shell's loop has a client or a sleep running in it.
        os.killpg(child.pid, 15)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        elapsed, server = time.monotonic() - began, server_cpu_ns(pid) - server_before
        assert child.stdin is not None
        child.stdin.close()
    return 100 * (usage.ru_utime + usage.ru_stime) / elapsed, 100 * server / 1e9 / elapsed


def samplers(arguments: argparse.Namespace) -> list[Sampler]:
    """The probe with and without the server's status, and the peers that are here."""
    pid, probe = arguments.pid, str(arguments.probe)
    instance = f"1:{pid},socket={arguments.socket},user={arguments.user}"
    found = [
        Sampler("dynoprobe", [probe, "--instance", instance, "--disk", "/", "--output", "-"]),
        Sampler("dynoprobe, /proc only", [probe, "--instance", f"1:{pid}", "--disk", "/", "--output", "-"]),
    ]
    if pidstat := shutil.which("pidstat"):
        found.append(Sampler("pidstat -u -r -d -w 1", [pidstat, "-u", "-r", "-d", "-w", "-p", str(pid), "1"]))
    if arguments.client:
        client = (
            f"{arguments.client} --no-defaults -u{shlex.quote(arguments.user)} -S{shlex.quote(arguments.socket)} -N"
        )
        loop = SHELL_LOOP.format(pid=pid, client=client)
        found.append(Sampler("shell loop with the client", ["/bin/sh", "-c", loop]))
    return found


def spread(values: list[float]) -> str:
    """Median, least and greatest."""
    return f"{statistics.median(values):7.3f}  ({min(values):.3f} to {max(values):.3f})"


def measure_samplers(arguments: argparse.Namespace) -> bool:
    """Prints the table of costs; true when the probe's median keeps the limit."""
    found = samplers(arguments)
    idle: list[float] = []
    for number in range(arguments.runs):
        idle.append(run_once(["/bin/sleep", "86400"], arguments.seconds, arguments.pid)[1])
        for sampler in found:
            own, server = run_once(sampler.command, arguments.seconds, arguments.pid)
            sampler.own_pct.append(own)
            sampler.server_pct.append(server - idle[-1])
        print(f"round {number + 1} of {arguments.runs}", file=sys.stderr)
    print(
        f"\nCPU of one core in percent, median of {arguments.runs} runs of {arguments.seconds:g} s (least to greatest),"
    )
    print(
        f"one sample a second; server pid {arguments.pid}, "
        f"{len(list(Path(f'/proc/{arguments.pid}/task').iterdir()))} threads\n"
    )
    print(f"{'sampler':<30}{'its own CPU':<30}" + ("" if arguments.load else "CPU of the server for it"))
    for sampler in found:
        server_text = "" if arguments.load else spread(sampler.server_pct)
        print(f"{sampler.name:<30}{spread(sampler.own_pct):<30}{server_text}")
    median = statistics.median(found[0].own_pct)
    for peer in found[2:]:
        print(f"{peer.name}: {statistics.median(peer.own_pct) / median:.1f} times dynoprobe's")
    print(f"limit for dynoprobe {LIMIT_PCT} %: {'kept' if median <= LIMIT_PCT else 'BROKEN'}")
    return median <= LIMIT_PCT


def status_names(probe: Path) -> list[str]:
    """Status variables that the probe asks for, from its own catalogue."""
    catalogue = json.loads(subprocess.run([probe, "--metrics-json"], check=True, capture_output=True).stdout)
    names: set[str] = set()
    for metric in catalogue["metrics"]:
        _, found, variables = metric["source"].partition("SHOW GLOBAL STATUS: ")
        if found:
            names.update(name for name in variables.replace(",", " +").split(" + ") if name[0].isupper())
    return sorted(names)


def measure_statements(arguments: argparse.Namespace) -> None:
    """Prints what each way to ask for the status costs the server and the client (the server's own client program)."""
    names = ",".join(f"'{name}'" for name in status_names(arguments.probe))
    where = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"
    prepared = f"PREPARE s FROM {json.dumps(where)};\n"
    forms = {
        "SHOW GLOBAL STATUS": "SHOW GLOBAL STATUS;\n" * STATEMENTS,
        "… WHERE Variable_name IN (…)": f"{where};\n" * STATEMENTS,
        "the same, prepared": prepared + "EXECUTE s;\n" * STATEMENTS,
    }
    costs: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in forms}
    command = [arguments.client, "--no-defaults", f"-u{arguments.user}", f"-S{arguments.socket}", "-N"]
    # One connection waits first: its thread then serves none of the counted ones, and threads are cached from here on.
    for _ in range(arguments.runs):
        for name, text in forms.items():
            before = server_ticks(arguments.pid)
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            assert child.stdin is not None
            child.stdin.write(text.encode())
            child.stdin.close()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                sys.exit(f"bench/probe.py: {shlex.join(command)} failed with {child.returncode}")
            costs[name][0].append((server_ticks(arguments.pid) - before) / STATEMENTS)
            costs[name][1].append((usage.ru_utime + usage.ru_stime) * 1e6 / STATEMENTS)
    print(f"\nOne status statement, CPU in µs, median of {arguments.runs} runs of {STATEMENTS} statements\n")
    print(f"{'statement':<34}{'server':<30}client")
    for name, (server, client) in costs.items():
        print(f"{name:<34}{spread(server):<30}{spread(client)}")


def server_ticks(pid: int) -> float:
    """CPU time of the server in µs, ended threads included, in whole ticks (mostly 10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/run probe", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--socket", required=True, help="socket of a running server")
    parser.add_argument("--pid", type=int, required=True, help="its process")
    parser.add_argument("--user", default="root", help="its account, without password")
    parser.add_argument("--client", default=shutil.which("mariadb") or shutil.which("mysql"), help="its client program")
    parser.add_argument("--probe", type=Path, default=ENGINE / "target/release/dynoprobe")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of one run")
    parser.add_argument("--load", help="a command that loads the server meanwhile; it is ended afterwards")
    return parser.parse_args()


def main() -> int:
    """0 when the probe keeps its limit, 1 when it does not."""
    arguments = parse()
    version = subprocess.run([arguments.probe, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{version}, {os.cpu_count()} CPUs, Linux {os.uname().release}, server under load: {arguments.load or 'no'}")
    if not arguments.load:
        if arguments.client:
            measure_statements(arguments)
        return 0 if measure_samplers(arguments) else 1
    load = subprocess.Popen(shlex.split(arguments.load), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(2)
        kept = measure_samplers(arguments)
        if load.poll() is not None:
            sys.exit(f"bench/probe.py: the load ended before the measurement did, with {load.returncode}")
    finally:
        if load.poll() is None:
            os.killpg(load.pid, 15)
        load.wait()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
