"""What keys and values over memcached's protocol need of the arms, and what a native memcached cannot have."""

from __future__ import annotations

from mydyno.drivers.base import NeedsData
from mydyno.drivers.catalogue import DRIVERS
from mydyno.model.experiment import Experiment, steps_of
from mydyno.treatments.server import server_of

OF_MEMCACHED = ("server", "memcached")
"""Treatments that a native memcached can have; the others are proved by SQL or act on a mysqld."""
OF_SQL_PATH = ("network", "tls", "compression")
"""Treatments of the load's way to the SQL port."""


def kv_obstacles(experiment: Experiment) -> list[str]:
    """Sentences on arms that cannot be asked the experiment's data; empty where all is well."""
    found = []
    kv = experiment.data.workload == "kv"
    for arm in experiment.arms:
        server = server_of(arm, experiment.server)
        native = server.name == "memcached"
        if native and not kv:
            found.append(f'arm {arm.name}: memcached has no tables; say data.workload = "kv"')
        if native:
            wrong = [name for name in arm.treatments if name not in OF_MEMCACHED]
        else:
            wrong = [name for name in arm.treatments if kv and name in OF_SQL_PATH]
        found += [f"arm {arm.name}: {name} is not for the load of memcached's protocol" for name in wrong]
        if kv and not native and "memcached" not in arm.treatments:
            found.append(f'arm {arm.name}: nothing speaks memcached\'s protocol; say memcached = "innodb_only"')
        if kv and server.dsn is not None:
            found.append(f"arm {arm.name}: an external server (dsn) has no memcached of ours; use server.name")
    for name in dict.fromkeys(step.driver for step in steps_of(experiment)):
        driver = DRIVERS[name]() if kv else None
        obstacle = driver.data_obstacle(experiment.data) if isinstance(driver, NeedsData) else None
        found += [f"data: {obstacle}"] if obstacle is not None else []
    return found
