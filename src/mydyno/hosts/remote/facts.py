"""Facts of another host, read with one shell command over SSH: the names are those of hosts/facts.py."""

from __future__ import annotations

import re
from collections.abc import Callable
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
