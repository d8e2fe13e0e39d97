"""What this host's kernel and programs can do for a private network, tried in a temporary namespace.

Queueing disciplines are modules or built in, and /proc does not list them reliably; so each is tried on an interface of
a temporary namespace (unshare(1)), which changes nothing outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mydyno.hosts.root import HERE, HostRoot

PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "umount": "mount",
}
TRIALS = {"tbf": "tbf rate 1gbit burst 128kb latency 10ms", "htb": "htb", "netem": "netem delay 1ms"}


@dataclass(frozen=True)
class NetworkCapabilities:
    """What can be done here."""

    namespaces: bool
    veth: bool
    disciplines: frozenset[str]
    missing: str
    """Why nothing can be done at all, with a remedy; empty if something can."""

    def obstacle(self, *, bandwidth: bool, latency: bool) -> str | None:
        """Why a link with these properties cannot be made here; None if it can."""
        if self.missing:
            return self.missing
        if not self.veth:
            return "this kernel has no veth (CONFIG_VETH); load the module or use a kernel with it"
        if bandwidth and "tbf" not in self.disciplines:
            return "this kernel has no tbf for shaping (CONFIG_NET_SCH_TBF); load sch_tbf or use a kernel with it"
        if latency and "netem" not in self.disciplines:
            return (
                "this kernel has no netem to add latency with (CONFIG_NET_SCH_NETEM); "
                "load sch_netem, use a kernel with it, or omit latency"
            )
        return None


def programs_obstacle(root: HostRoot = HERE) -> str | None:
    """Why no network can be changed here at all; None if the rights and the programs are there."""
    if not root.is_root:
        return "changing the network needs root; run mydyno as root"
    absent = [program for program in PROGRAMS if root.which(program) is None]
    packages = ", ".join(sorted({PROGRAMS[program] for program in absent}))
    return f"{', '.join(absent)} not on PATH: needs {packages}" if absent else None


@cache
def network_capabilities(root: HostRoot = HERE) -> NetworkCapabilities:
    """Tried once per process."""
    missing = programs_obstacle(root)
    if missing is not None:
        return NetworkCapabilities(False, False, frozenset(), missing)
    lines = ["echo namespaces", "ip link add name dyno0 type veth peer name dyno1 && echo veth"]
    lines += [
        f"tc qdisc add dev lo root {words} && echo {name} && tc qdisc del dev lo root" for name, words in TRIALS.items()
    ]
    done = root.call(["unshare", "--net", "sh", "-c", "\n".join(lines)])
    return read_means(done.stdout, done.stderr)


def read_means(output: str, errors: str) -> NetworkCapabilities:
    """From the trial's output: one word a line for each thing that went well."""
    words = set(output.split())
    if "namespaces" not in words:
        return NetworkCapabilities(
            False, False, frozenset(), f"this kernel or container cannot create network namespaces: {errors.strip()}"
        )
    return NetworkCapabilities(True, "veth" in words, frozenset(words & set(TRIALS)), "")
