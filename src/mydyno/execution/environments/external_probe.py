"""The samplers of a run on an external server whose host is reached by SSH: of its host and process, and of this host.

The server's host is the measured one: its metrics have the scope "host", those of its process "instance:1". This
host is where the load comes from, with the scope client:NAME; what its network card carries towards the server stays
in "host", since on the server's host other clients' traffic would be counted too.

dynoprobe is put on the server's host if it is not there. That host's facts are read with one shell command over SSH:
the names are those of hosts/facts.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.execution.environments.probe import CLIENT_SCOPE, INTERVAL_MS, FarSamples, Sampler
from mydyno.hosts.remote.ssh import RemoteProcess, SshHost
from mydyno.hosts.telemetry import STATUS, unread_families
from mydyno.store.samples import Sample

_SCRIPT = """
say() { printf '%s\\t%s\\n' "$1" "$2"; }
say hostname "$(uname -n)"
say kernel "$(uname -r)"
say architecture "$(uname -m)"
say distribution "$(. /etc/os-release 2>/dev/null; printf %s "$PRETTY_NAME")"
say cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null)"
say cpus_usable "$(nproc 2>/dev/null)"
say cpu_model "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
say memory_kib "$(sed -n 's/^MemTotal:[[:space:]]*\\([0-9]*\\) kB$/\\1/p' /proc/meminfo 2>/dev/null)"
say transparent_hugepages "$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
say cpu_governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
say swappiness "$(cat /proc/sys/vm/swappiness 2>/dev/null)"
say clock_source "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null)"
"""
TIMEOUT_S = 30.0
_NAMES = set(re.findall(r"^say (\w+) ", _SCRIPT, re.MULTILINE))
FOLDER = ".cache/mydyno/hosts"
"""Below the home directory; `mydyno hosts prepare --remove` removes it."""
SERVER_NAMES = ("mysqld", "mariadbd")


async def remote_facts(host: SshHost) -> dict[str, Any]:
    """What the host says of itself; what it does not know is absent. Raises HostError if no shell answers."""
    done = await host.run(["sh", "-c", _SCRIPT], timeout_s=TIMEOUT_S)
    if done.exit_code:
        raise HostError(f"{host.name}: the facts of the host cannot be read: {done.output.strip()[-300:]}")
    return parse_facts(done.output)


def parse_facts(text: str) -> dict[str, Any]:
    """Facts from lines of a name, a tab and a value."""
    facts: dict[str, Any] = {}
    for line in text.splitlines():
        name, _, value = line.partition("\t")
        value = value.strip()
        if not value or name not in _NAMES:
            continue
        if name == "memory_kib":
            facts["memory_bytes"] = int(value) * 1024
        else:
            facts[name] = _VALUES.get(name, str)(value)
    return {name: value for name, value in facts.items() if value is not None}


def _selected(value: str) -> str | None:
    """The bracketed word of "always [madvise] never"."""
    found = re.search(r"\[(\w+)\]", value)
    return found[1] if found else None


_VALUES: dict[str, Callable[[str], Any]] = {"cpus": int, "cpus_usable": int, "transparent_hugepages": _selected}


async def put_probe(host: SshHost, program: Path) -> str:
    """The absolute path of this dynoprobe on the host; copied once. Raises HostError if it does not run there."""
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    there = f"{await host.home()}/{FOLDER}/telemetry-{digest}/dynoprobe"
    if (await host.run(["test", "-x", there], timeout_s=60)).exit_code:
        await host.put(program, there)
    done = await host.run([there, "--version"], timeout_s=60)
    if done.exit_code:
        raise HostError(
            f"{host.name}: dynoprobe does not run: {done.output.strip()[-300:]}",
            "its architecture and glibc must fit this host's; without server.ssh the server is sampled by SQL alone",
        )
    return there


async def server_pid(host: SshHost, pid_file: str, data_folder: str) -> int:
    """The server's process: by its pid file, or, where that cannot be read, the only mysqld or mariadbd of the host.

    Raises HostError where neither names one.
    """
    path = pid_file if pid_file.startswith("/") else f"{data_folder.rstrip('/')}/{pid_file}"
    names = "|".join(SERVER_NAMES)
    script = (
        f"pid=$(cat {shlex.quote(path)} 2>/dev/null); case $(cat /proc/$pid/comm 2>/dev/null) in {names}) echo $pid; "
        "exit;; esac; for file in /proc/[0-9]*/comm; do case $(cat $file 2>/dev/null) in "
        f"{names}) file=${{file#/proc/}}; echo ${{file%/comm}};; esac; done"
    )
    done = await host.run(["sh", "-c", script], timeout_s=60)
    found = [word for word in done.output.split() if word.isdigit()]
    if len(found) == 1:
        return int(found[0])
    what = "has no mysqld or mariadbd" if not found else f"runs {len(found)} database servers"
    raise HostError(
        f"{host.name} {what}, and the server's pid file {path} cannot be read there",
        "is server.ssh the host of server.dsn, and may this user read the pid file?",
    )


END_TIMEOUT_S = 10.0
NETWORK = "network_"


class ExternalSampler:
    """Both samplers as one."""

    def __init__(self, own: Sampler, host: SshHost, program: str, pid: int, data_folder: str) -> None:
        self._own = own
        self._host = host
        self._command = [program, f"--instance=1:{pid}", f"--disk={data_folder}", "--output=-"]
        self._process: RemoteProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._far = FarSamples(lambda scope, name: "" if scope == "host" and name.startswith(NETWORK) else scope)
        self._words: list[str] = []
        self._ends: list[str] = []
        """Header, footer and first sample of the stream."""

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample on both hosts; of this one alone if the server's host is lost."""
        await self._own.start(interval_ms)
        try:
            self._process = await self._host.start([*self._command, f"--interval-ms={interval_ms}"])
        except HostError as error:
            self._words.append(error.message)
            return
        self._reading = asyncio.create_task(self._read(self._process))

    def send(self, command: str) -> None:
        """To the sampler of this host."""
        self._own.send(command)

    async def speed(self) -> tuple[int, int] | None:
        """No speed meter runs on a server's host that others use."""
        return None

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """The newest sample of this host."""
        return self._own.newest()

    def so_far(self) -> list[Sample]:
        """The samples of both hosts, on this host's clock."""
        return [*map(_of_load_host, self._own.so_far()), *self._far.ours()]

    async def stop(self) -> list[str]:
        """End both."""
        words = await self._own.stop()
        if self._process is not None and self._reading is not None:
            self._process.close_stdin()
            try:
                await asyncio.wait_for(self._reading, END_TIMEOUT_S)
            except TimeoutError:
                pass  # what came so far counts
            except HostError as error:
                self._words.append(error.message)
        if not self._far and self._process is not None:
            tail = self._process.stderr_tail.strip()[-200:]
            self._words.append(f"no samples came from {self._host.name}: {tail}")
        return [*words, *dict.fromkeys(self._words)]

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled; after stop()."""
        own, warnings = self._own.samples()
        return [*map(_of_load_host, own), *self._far.ours()], warnings

    def unsampled(self) -> Mapping[str, str]:
        """On the server's host, and by SQL from here."""
        by_sql = {name: why for name, why in self._own.unsampled().items() if name.startswith(STATUS)}
        return by_sql | {name: why for name, why in unread_families(self._ends).items() if name != "host_speed"}

    async def _read(self, process: RemoteProcess) -> None:
        async for line in process.lines():
            any_before = bool(self._far)
            record = self._far.take(line)
            if record and (record.get("record") in ("header", "footer") or not any_before):
                self._ends.append(line)
            if record.get("record") == "error":
                self._words.append(f"dynoprobe on {self._host.name}: {record.get('family')}: {record.get('message')}")


def _of_load_host(sample: Sample) -> Sample:
    if sample.scope != "host" or sample.metric.startswith(NETWORK):
        return sample
    return replace(sample, scope=f"{CLIENT_SCOPE}:{socket.gethostname()}")
