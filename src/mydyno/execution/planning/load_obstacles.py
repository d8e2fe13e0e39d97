"""What a load requires that an arm, a server, this host or client hosts do not have.

Key-value workloads require something of the arms, and a native memcached does not support all. Short connections to an
external server may use up the local ports of this host; dynoload warns by the same sums. The end that closes a TCP
connection keeps its port for 60 s (TIME_WAIT), or for 1 s where net.ipv4.tcp_tw_reuse permits its reuse (1: always, 2:
over loopback). Source: the kernel's Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mydyno.drivers.catalogue import DRIVERS
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.servers.catalogue import has_sql
from mydyno.servers.compiled.source import source_obstacle
from mydyno.treatments.server import server_of
from mydyno.workloads.oltp import CONNECT

OF_MEMCACHED = ("server", "memcached", "affinity")
"""Treatments that a native memcached can have; the others are proved by SQL or act on a mysqld."""
OF_SQL_PATH = ("network", "tls", "compression")
"""Treatments of the load's way to the SQL port."""
SETTINGS = Path("/proc/sys/net/ipv4")
MODEST_PER_S = 200.0
"""New connections a second that one connection of a closed loop makes at least."""


def kv_obstacles(experiment: Experiment) -> list[str]:
    """Sentences on arms that cannot run the experiment's workload; empty if all can."""
    found = []
    kv = experiment.data.workload == "kv"
    for arm in experiment.arms:
        server = server_of(arm, experiment.server)
        if server.build is not None and source_obstacle(server.build) is not None:
            continue  # which is named; what the source would be is not known
        native = not has_sql(server)
        if native and not kv:
            found.append(f'arm {arm.name}: memcached has no tables; set data.workload = "kv"')
        if native:
            wrong = [name for name in arm.treatments if name not in OF_MEMCACHED]
        else:
            wrong = [name for name in arm.treatments if kv and name in OF_SQL_PATH]
        found += [f"arm {arm.name}: {name} is not for the load of memcached's protocol" for name in wrong]
        if kv and not native and "memcached" not in arm.treatments:
            found.append(f'arm {arm.name}: no server with memcached\'s protocol; set memcached = "innodb_only"')
        if kv and server.dsn is not None:
            found.append(f"arm {arm.name}: the memcached of an external server (dsn) is not supported; use server.name")
    for name in dict.fromkeys(step.driver for step in experiment.resolved_steps):
        obstacle = DRIVERS[name]().data_obstacle(experiment.data) if kv else None
        found += [f"data: {obstacle}"] if obstacle is not None else []
    return found


def port_caution(steps: Sequence[Step], host: str, settings: Path = SETTINGS) -> str | None:
    """A caution about the first step that needs more local ports than there are; None if none does, or if unknown."""
    try:
        first, last = map(int, (settings / "ip_local_port_range").read_text().split())
        reuse = int((settings / "tcp_tw_reuse").read_text())
    except (OSError, ValueError):
        return None
    is_reused = reuse == 1 or (reuse == 2 and (host == "localhost" or host.startswith("127.") or host == "::1"))
    kept_s = 1.0 if is_reused else 60.0
    for step in steps:
        per_s = step.rate or float(step.options.get("rate") or 0) or MODEST_PER_S * step.connections
        needed = per_s * min(kept_s, step.warmup_s + step.measure_s)
        if step.workload == CONNECT and needed > last - first + 1:
            return (
                f"{step.id}: {per_s:.0f} new connections a second need {needed:.0f} local ports, for each is kept for "
                f"{kept_s:.0f} s; there are {last - first + 1} (net.ipv4.ip_local_port_range is {first} to {last}, "
                f"net.ipv4.tcp_tw_reuse is {reuse}): the load ends when none is left"
            )
    return None


DRIVER = "dynoload"
"""The only load program with agents."""


def load_host_obstacles(experiment: Experiment) -> list[str]:
    """Sentences; empty if the load can come from client hosts."""
    drivers = dict.fromkeys(step.driver for step in experiment.resolved_steps if step.driver != DRIVER)
    return [f'steps: {driver} has no agents on other hosts; set driver = "{DRIVER}"' for driver in drivers]
