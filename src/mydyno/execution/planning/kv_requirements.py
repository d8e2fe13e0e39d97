"""What key-value workloads require of the arms, and what a native memcached does not support."""

from __future__ import annotations

from mydyno.drivers.catalogue import DRIVERS
from mydyno.model.definition.experiment import Experiment
from mydyno.servers.catalogue import has_sql
from mydyno.servers.compiled.source import source_obstacle
from mydyno.treatments.server import server_of

OF_MEMCACHED = ("server", "memcached", "affinity")
"""Treatments that a native memcached can have; the others are proved by SQL or act on a mysqld."""
OF_SQL_PATH = ("network", "tls", "compression")
"""Treatments of the load's way to the SQL port."""


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
