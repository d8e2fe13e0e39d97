"""Which experiments can be interleaved: all servers of a block up at the same time, one loaded at a time.

Everything here is known from the experiment and the host's memory and disk; nothing is started.
"""

from __future__ import annotations

from mydyno.hosts.limits import usable_memory
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HostRoot
from mydyno.model.definition.experiment import ArmSpec, Experiment, Scalar
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.definition.server_options import option_name
from mydyno.servers.catalogue import has_sql
from mydyno.servers.memcached import MIB
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.server import server_of
from mydyno.workloads.data import kind_of

HOLDING_DRIVERS = ("dynoload",)
"""Load programs that keep their connections while they are on hold."""
MEMORY_SHARE = 0.70
"""Share of the usable memory for all servers of a block; the rest is for load programs, page cache and the system."""
MYSQLD_REST_BYTES = 400 * MIB
"""What a mysqld takes beside its buffer pool: code, caches, performance schema, some hundred connections."""
MEMCACHED_REST_BYTES = 64 * MIB
"""What a memcached takes beside its items: hash table and connections."""
DEFAULT_POOL_BYTES = 128 * MIB
COPY_SHARE = 1.15
"""Space for a copy of the data while it is loaded, in terms of the prepared data."""


def interleaving_obstacles(experiment: Experiment, paths: HostPaths) -> list[str]:
    """Why the servers of all arms and their copies cannot be up at the same time here.

    Sentences for plan; empty if the experiment can be interleaved.
    """
    if experiment.server.dsn is not None:
        found = [*_treatments_alone(experiment), *_incomplete_arms(experiment), *driver_obstacles(experiment)]
        if any("network" in arm.treatments for arm in experiment.arms):
            found.append("network: the speed of a network card is in force for the whole host")
        if experiment.server.hooks is not None:
            found.append("server.hooks: the server is restored or restarted before each run")
        return found
    return [
        *_treatments_alone(experiment),
        *_incomplete_arms(experiment),
        *driver_obstacles(experiment),
        *shortages(experiment, paths),
    ]


def shortages(experiment: Experiment, paths: HostPaths) -> list[str]:
    """The obstacles that a larger host would not have."""
    return [*_memory(experiment, paths.root), *_disk(experiment, paths)]


def _treatments_alone(experiment: Experiment) -> list[str]:
    """Treatments that hold for every server of the host; what several arms have is reported once, with their names."""
    found: dict[str, list[str]] = {}
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            if not treatment.coexists:
                found.setdefault(f"{treatment.name}: {treatment.alone_because}", []).append(arm.name)
    return [f"{_arms(arms)}: {words}" for words, arms in found.items()]


def _incomplete_arms(experiment: Experiment) -> list[str]:
    """Treatments with a host-wide side that some arms do not have, and would get nevertheless."""
    found: dict[tuple[str, str], set[str]] = {}
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            if treatment.needed_in_every_arm_because and treatment.coexists:
                found.setdefault((treatment.name, treatment.needed_in_every_arm_because), set()).add(arm.name)
    lacking = {
        key: [arm.name for arm in experiment.arms if key[0] not in arm.treatments and arm.name not in having]
        for key, having in found.items()
    }
    return [f"{_arms(arms)}: without {name}, but {words}" for (name, words), arms in lacking.items() if arms]


def driver_obstacles(experiment: Experiment) -> list[str]:
    """Load programs that cannot be held between slices."""
    names = dict.fromkeys(step.driver for step in experiment.resolved_steps if step.driver not in HOLDING_DRIVERS)
    return [
        f"{name} keeps the block design: it cannot hold its connections between slices; set driver = "
        f'"{HOLDING_DRIVERS[0]}" in [[steps]]'
        for name in names
    ]


def _servers(experiment: Experiment) -> list[tuple[ArmSpec, int]]:
    """(arm, servers of it in a block), copies among them."""
    return [(arm, experiment.instances_of(arm) * experiment.copies_of(arm)) for arm in experiment.arms]


def _variables(arm: ArmSpec, experiment: Experiment) -> dict[str, Scalar]:
    specified = {option_name(name): value for name, value in experiment.server.variables.items()}
    return specified | {option_name(name): value for name, value in arm.treatments.get("variables", {}).items()}


def server_bytes(arm: ArmSpec, experiment: Experiment) -> int:
    """Memory that one server of the arm is expected to take: its buffer pool or cache, and the rest."""
    cache = sum(treatment.server_memory_bytes for treatment in treatments_of(arm))
    if not has_sql(server_of(arm, experiment.server)):
        return (cache or 64 * MIB) + MEMCACHED_REST_BYTES
    pool = _size(_variables(arm, experiment), "innodb_buffer_pool_size", DEFAULT_POOL_BYTES)
    return pool + MYSQLD_REST_BYTES + cache


def _size(variables: dict[str, Scalar], name: str, otherwise: int) -> int:
    try:
        return parse_bytes(variables[name])
    except (KeyError, ValueError):
        return otherwise  # not said, or the server will refuse it in its own words


def _memory(experiment: Experiment, root: HostRoot) -> list[str]:
    servers = _servers(experiment)
    needed = sum(count * server_bytes(arm, experiment) for arm, count in servers)
    memory = usable_memory(root)
    if needed <= MEMORY_SHARE * memory.amount:
        return []
    return [
        f"memory: {sum(count for _, count in servers)} servers at the same time need about {format_bytes(needed)}, "
        f"and {MEMORY_SHARE:.0%} of {format_bytes(memory.amount)}{memory.where} are available; use fewer arms or a "
        "smaller innodb_buffer_pool_size"
    ]


def _redo_bytes(variables: dict[str, Scalar]) -> int:
    try:
        files = int(variables.get("innodb_log_files_in_group", 1))
    except ValueError:
        files = 1
    return _size(variables, "innodb_log_file_size", 0) * files


def _disk(experiment: Experiment, paths: HostPaths) -> list[str]:
    size = kind_of(experiment.data).size_bytes(experiment.data)
    of_servers = [
        (count, size * COPY_SHARE if has_sql(server_of(arm, experiment.server)) else 0)
        for arm, count in _servers(experiment)
    ]
    redo = sum(count * _redo_bytes(_variables(arm, experiment)) for arm, count in _servers(experiment))
    templates = len({server_of(arm, experiment.server).model_dump_json() for arm in experiment.arms})
    needed = int(sum(count * copy for count, copy in of_servers) + redo + templates * size * COPY_SHARE)
    free = paths.root.free_bytes(paths.data)
    if needed <= free:
        return []
    copies = sum(count for count, copy in of_servers if copy)
    return [
        f"disk: {copies} copies of the data at the same time need about {format_bytes(needed)}, "
        f"{format_bytes(free)} are free at {paths.data}"
    ]


def _arms(names: list[str]) -> str:
    return f"arm{'s' if len(names) > 1 else ''} {', '.join(names)}"
