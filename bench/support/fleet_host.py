"""What mydyno costs on a measured host: CPU time of all its processes there while a step is loaded.

Counted are `mydyno block`, all that it has started except the server and the load program, and its parents up to sshd's
process for the session. CPU time is that of /proc/PID/task/*/schedstat, so it does not depend on what else keeps the
CPUs busy; of children that have ended, that of /proc/PID/stat in ticks. Wrong: interrupts are charged to the task that
they interrupt, and what a thread used that ended between the readings is missed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from support.programs import REPOSITORY

NAME = "fleet-bench"
WARMUP_S = 5.0
START_LIMIT_S = 900.0
"""Until the load begins: servers are unpacked, and data is made."""
EXPERIMENT = """
name = "{name}"
question = "What does mydyno cost on the measured host?"
server = {{ name = "mariadb-10.11", variables = {{ innodb_buffer_pool_size = "64M", innodb_log_file_size = "8M" }} }}
data = {{ tables = 1, rows = 1000 }}
validity = {{ steady = "report", driver_cpu = 1, steal = "99%" }}
arms = {{ control = "one", one = {{ environment = {{ MARK = "one" }} }} }}
design = {{ kind = "blocks", blocks = 1 }}
steps = [{{ workload = "oltp_point_select", connections = 1, warmup = "{warmup:.0f}s", measure = "{seconds:.0f}s" }}]
"""
# The pattern is written so that this text does not match itself.
READ_CPU = r"""
all=$(for path in /proc/[0-9]*; do
  read -r line <"$path/stat" || continue; set -- ${line##*) }; echo "${path#/proc/} $2"
done 2>/dev/null)
block=; for path in /proc/[0-9]*; do
  words=$(tr '\0' ' ' <"$path/cmdline") || continue
  case "$words" in *"mydyno.cli"" block "*"/NAME-"*) block=${path#/proc/}; break ;; esac
done 2>/dev/null
[ -n "$block" ] || exit 4
below=$(echo "$all" | awk -v root="$block" '{ parent[$1] = $2 } END { for (pid in parent) {
  for (at = pid; at > 1 && at != root && (at in parent); at = parent[at]); if (at == root) print pid } }')
above=; pid=$block
while pid=$(echo "$all" | awk -v pid="$pid" '$1 == pid { print $2 }') && [ "${pid:-0}" -gt 1 ]; do
  above="$above $pid"; read -r name <"/proc/$pid/comm"; case "$name" in sshd*) break ;; esac
done
date +%s%N
for pid in $below $above; do
  read -r name <"/proc/$pid/comm" || continue
  case "$name" in mariadbd|mysqld|dynoload) continue ;; esac
  cat "/proc/$pid/task/"*/schedstat | { n=0; while read -r used _; do n=$((n + used)); done; echo "$pid $name $n"; }
done 2>/dev/null
read -r line <"/proc/$block/stat"; set -- ${line##*) }
echo "0 ended $(( (${14} + ${15}) * 1000000000 / $(getconf CLK_TCK) ))"
""".replace("NAME", NAME)


@dataclass(frozen=True)
class Place:
    """A host to measure, and how the controller is started that reaches it."""

    address: str
    command: Sequence[str] = (sys.executable, "-m", "mydyno.cli")
    environment: Mapping[str, str] | None = None
    local: bool = False
    """Its processes are those of this host: it is a network namespace."""
    read: Sequence[str] = field(default=("sh", "-c", READ_CPU))


@contextmanager
def namespaces(folder: Path) -> Iterator[Place]:
    """A host with a real sshd in a network namespace of this one, with mydyno installed. Raises HostError."""
    sys.path.append(str(REPOSITORY))
    # Only this part needs the tests' support.
    from tests.support.real_fleet import real_fleet

    paths = replace(HostPaths.resolve(), data=folder / "data")
    (folder / "fleet").mkdir()
    with real_fleet(paths, folder / "fleet") as fleet:
        if isinstance(fleet, str):
            raise HostError(f"a host in a network namespace: {fleet}", "--host ADDRESS measures another host")
        fleet.prepare()
        program = fleet.program
        yield Place(fleet.hosts[0].address, program.command(), program.all_environment(), local=True)


async def cost(place: Place, length_s: float) -> dict[str, float]:
    """Shares of a core, in percent, over `length_s` of the load of a step. Raises HostError."""
    with tempfile.TemporaryDirectory(prefix="mydyno-bench-") as folder:
        path = Path(folder) / "experiment.toml"
        path.write_text(EXPERIMENT.format(name=NAME, warmup=WARMUP_S, seconds=length_s + 10))
        command = [*place.command, "run", str(path), "--hosts", place.address, "--studies", f"{folder}/studies"]
        with (Path(folder) / "output.txt").open("w+") as output:
            study = subprocess.Popen(command, stdout=output, stderr=output, env=place.environment)
            try:
                await _load_begins(Path(folder), study)
                await asyncio.sleep(WARMUP_S + 1)
                first = await _cpu(place)
                await asyncio.sleep(length_s)
                last = await _cpu(place)
            finally:
                study.terminate()
                await asyncio.to_thread(study.wait)
    took_s = (last.pop("at")[1] - first.pop("at")[1]) / 1e9
    used: Counter[str] = Counter()
    for pid, (name, ns) in last.items():
        used[name] += ns - first.get(pid, ("", 0))[1]
    shares = {f"{name}_pct": ns / 1e7 / took_s for name, ns in used.items()}
    return {**shares, "cpu_pct": used.total() / 1e7 / took_s, "length_s": took_s}


async def _load_begins(folder: Path, study: subprocess.Popen[Any]) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        for path in folder.glob("studies/*/live.jsonl"):
            if '"state":"step"' in path.read_text():
                return
        if study.poll() is not None:
            break
        await asyncio.sleep(0.2)
    raise HostError(f"the study did not load its server: {(folder / 'output.txt').read_text()[-800:]}")


async def _cpu(place: Place) -> dict[str, tuple[str, int]]:
    """{pid: (name, nanoseconds on a CPU so far)}, and the time under "at"."""
    if place.local:
        done = await asyncio.to_thread(subprocess.run, place.read, capture_output=True, text=True, check=False)
        code, output = done.returncode, done.stdout
    else:
        async with await SshHost.connect(place.address) as there:
            ended = await there.run(place.read, timeout_s=60)
        code, output = ended.exit_code, ended.output
    if code:
        raise HostError(f"{place.address}: no `mydyno block` runs there: {output[-300:]}")
    time_ns, *lines = output.split("\n")
    found = {"at": ("", int(time_ns))}
    for line in filter(None, lines):
        pid, name, ns = line.split(" ")
        found[pid] = (name, int(ns))
    return found
