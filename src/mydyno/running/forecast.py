"""What a study will take and change, known before it starts: time, disk, memory, obstacles."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.settings import Settings
from mydyno.model.experiment import Experiment, steps_of
from mydyno.model.plan import Plan
from mydyno.model.quantities import format_bytes, parse_bytes
from mydyno.servers.catalogue import CATALOGUE
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.oltp import data_bytes

RUN_OVERHEAD_S = 4.0
"""Restore, start, proof, stop of one run with small data (measured: 2 to 4 s)."""
STEP_OVERHEAD_S = 0.5
COPY_BYTES_PER_S = 400e6
PREPARE_ROWS_PER_S = 60_000.0
"""sysbench prepare into MariaDB on two cores (measured: 40,000 to 180,000)."""
STUDY_BYTES_PER_RUN_S = 9_000
"""Samples, logs and histograms (measured)."""


@dataclass(frozen=True)
class Forecast:
    """Estimates, and what stands in the way."""

    runs: int
    run_s: float
    study_s: float
    prepare_s: float
    data_bytes: int
    study_bytes: int
    free_bytes: int
    host_changes: tuple[str, ...]
    obstacles: tuple[str, ...]
    """Why the study cannot be done here; empty where it can."""
    cautions: tuple[str, ...]
    """What it can do, but not well."""


def forecast(experiment: Experiment, plan: Plan, settings: Settings) -> Forecast:
    """The forecast of a study on this host. Starts nothing and fetches nothing."""
    steps = steps_of(experiment)
    size = data_bytes(experiment.data)
    load_s = sum(step.warmup_s + step.measure_s + STEP_OVERHEAD_S for step in steps)
    run_s = RUN_OVERHEAD_S + size / COPY_BYTES_PER_S + load_s
    free = _free_bytes(settings.data)
    host_changes = [change for arm in experiment.arms for t in treatments_of(arm) for change in t.host_changes()]
    obstacles = [
        f"arm {arm.name}: {treatment.name}: {obstacle}"
        for arm in experiment.arms
        for treatment in treatments_of(arm)
        if (obstacle := treatment.obstacle(experiment.server)) is not None
    ]
    needed = int(2.3 * size)
    if needed > free and experiment.server.dsn is None:
        obstacles.append(
            f"disk: the data need about {format_bytes(needed)} (template and a copy), "
            f"{format_bytes(free)} are free at {settings.data}"
        )
    return Forecast(
        runs=len(plan.runs),
        run_s=run_s,
        study_s=run_s * len(plan.runs),
        prepare_s=10 + experiment.data.tables * experiment.data.rows / PREPARE_ROWS_PER_S,
        data_bytes=size,
        study_bytes=int(len(plan.runs) * load_s * STUDY_BYTES_PER_RUN_S),
        free_bytes=free,
        host_changes=tuple(dict.fromkeys(host_changes)),
        obstacles=(*obstacles, *_memory_obstacles(experiment)),
        cautions=tuple(_cautions(experiment, settings)),
    )


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _memory_obstacles(experiment: Experiment) -> list[str]:
    pool = experiment.server.variables.get("innodb_buffer_pool_size")
    if pool is None:
        return []
    try:
        pool_bytes = parse_bytes(pool)
    except ValueError:
        return []  # the server will say it better
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if pool_bytes < memory * 0.9:
        return []
    return [
        f"memory: innodb_buffer_pool_size is {format_bytes(pool_bytes)}, this host has {format_bytes(memory)}; "
        "say less with --set server.variables.innodb_buffer_pool_size=…, or take another scale"
    ]


def _cautions(experiment: Experiment, settings: Settings) -> list[str]:
    cautions = []
    cpus = len(os.sched_getaffinity(0))
    most = max(step.connections for step in steps_of(experiment))
    if experiment.server.dsn is None:
        cautions.append(
            f"the driver and the server share this host's {cpus} CPUs: the driver's cost is in every number"
        )
    if most > 2000:
        cautions.append(f"{most} connections need as many threads in server and driver")
    load = os.getloadavg()[0]
    if load > 0.5 * cpus:
        cautions.append(f"the host is busy: load average {load:.1f} on {cpus} CPUs")
    name = experiment.server.name
    if name in CATALOGUE and not (settings.cache / "debian").is_dir():
        cautions.append(
            f"{CATALOGUE[name].title} will be downloaded (about {CATALOGUE[name].download_bytes / 1e6:.0f} MB)"
        )
    return cautions
