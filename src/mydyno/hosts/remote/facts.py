"""Facts of another host, read with one shell command over SSH: the names are those of hosts/facts.py.

dynoprobe on the host of an external server: put there if it is not, and which process is the server's.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.hosts.remote.ssh import SshHost

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
