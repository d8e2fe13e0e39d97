"""Which experiments can be interleaved: all servers of a block up at the same time, one loaded at a time; or switched.

A switched experiment has one running server per block, its settings changed between slices. What is
switched has to take effect at once, and to leave nothing behind for the slices that follow. Everything here is known
from the experiment and the host's memory and disk; nothing is started.
"""

from __future__ import annotations

from mydyno.hosts.limits import usable_memory
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HostRoot
from mydyno.model.definition.experiment import ArmSpec, Experiment, Scalar
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.definition.server_options import option_name, variables_of
from mydyno.model.definition.special_steps import is_memory
from mydyno.servers.catalogue import has_sql
from mydyno.servers.external_variables import untouched
from mydyno.servers.memcached import MIB
from mydyno.servers.templates import shaping_variables
from mydyno.treatments.base import Treatment
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.server import server_of
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import replay_writes

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
_AT_ONCE = """
    innodb_flush_log_at_trx_commit sync_binlog
    binlog_group_commit_sync_delay binlog_group_commit_sync_no_delay_count
    binlog_commit_wait_count binlog_commit_wait_usec
    optimizer_switch optimizer_search_depth optimizer_prune_level optimizer_use_condition_selectivity
    eq_range_index_dive_limit range_optimizer_max_mem_size join_cache_level max_length_for_sort_data
    join_buffer_size sort_buffer_size read_buffer_size read_rnd_buffer_size
    tmp_table_size max_heap_table_size big_tables internal_tmp_mem_storage_engine
    innodb_spin_wait_delay innodb_sync_spin_loops innodb_thread_concurrency innodb_concurrency_tickets
    innodb_thread_sleep_delay innodb_deadlock_detect innodb_lock_wait_timeout innodb_prefix_index_cluster_optimization
    slow_query_log long_query_time log_queries_not_using_indexes log_slow_verbosity log_slow_rate_limit
    min_examined_row_limit general_log userstat transaction_isolation tx_isolation
"""
SWITCHED_AT_ONCE = frozenset(_AT_ONCE.split())
"""Variables that a running server takes over within the washout, and that leave nothing behind: no cache that fills or
empties, no pages that are written later. "auto" switches these, "switchback" any that SET GLOBAL takes."""


SLICE_S, WASHOUT_S = 1.0, 0.3
"""Of the design switchback, unless the experiment sets them. The noise of one server averages within a slice, so that
longer ones cost no width, and more of what it does once a second, as its flushes, is in the slices of its own arm."""


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


def _all_variables(arm: ArmSpec, experiment: Experiment) -> dict[str, Scalar]:
    specified = {option_name(name): value for name, value in experiment.server.variables.items()}
    return specified | variables_of(arm)


def server_bytes(arm: ArmSpec, experiment: Experiment) -> int:
    """Memory that one server of the arm is expected to take: its buffer pool or cache, and the rest."""
    cache = sum(treatment.server_memory_bytes for treatment in treatments_of(arm))
    if not has_sql(server_of(arm, experiment.server)):
        return (cache or 64 * MIB) + MEMCACHED_REST_BYTES
    pool = _size(_all_variables(arm, experiment), "innodb_buffer_pool_size", DEFAULT_POOL_BYTES)
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
    redo = sum(count * _redo_bytes(_all_variables(arm, experiment)) for arm, count in _servers(experiment))
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


def switched_variables(experiment: Experiment) -> dict[str, dict[str, Scalar]]:
    """{arm: {variable: value}} of the variables that are not the same in all arms. An arm without one leaves the
    server's own value."""
    own = {arm.name: variables_of(arm) for arm in experiment.arms}
    first = own[experiment.control]
    names = {name for variables in own.values() for name in variables}
    alike = {name for name in names if all(variables.get(name) == first.get(name) for variables in own.values())}
    return {
        arm: {name: value for name, value in variables.items() if name not in alike} for arm, variables in own.items()
    }


def switched_names(experiment: Experiment) -> list[str]:
    """The variables in which the arms differ, in order."""
    return sorted({name for variables in switched_variables(experiment).values() for name in variables})


def switched_treatments(experiment: Experiment) -> dict[str, list[Treatment]]:
    """{name: those of the arms that have it} of the treatments besides variables that are not the same in all arms."""
    control = experiment.arm(experiment.control).treatments
    names = sorted({name for arm in experiment.arms for name in arm.treatments} - {"variables"})
    every = [one for arm in experiment.arms for one in treatments_of(arm)]
    return {
        name: [one for one in every if one.name == name]
        for name in names
        if any(arm.treatments.get(name) != control.get(name) for arm in experiment.arms)
    }


def lasting_names(experiment: Experiment) -> list[str]:
    """What the arms differ in and whose effect may last longer than a slice: then it is in the slices of all arms."""
    lasting = [name for name, own in switched_treatments(experiment).items() if any(one.lasts for one in own)]
    return [*lasting, *(name for name in switched_names(experiment) if name not in SWITCHED_AT_ONCE)]


def switching_obstacles(experiment: Experiment) -> list[str]:
    """Why the arms cannot be settings of one running server; empty if they can.

    Whether the server lets each variable be set while it runs is known from the server alone, in the first block.
    """
    found = _external_obstacles(experiment) if experiment.server.dsn is not None else []
    treatments = switched_treatments(experiment)
    for name, own in treatments.items():
        if not all(one.switches for one in own):
            found.append(f"{name} is not the same in all arms: a running server keeps it")
        elif any(one.begins_with_server for one in own) and len(own) < len(experiment.arms):
            found.append(f"{name} is not in all arms: a server that was started with it cannot drop it")
    switched = switched_names(experiment)
    shaping = shaping_variables(dict.fromkeys(switched, ""))
    if experiment.server.dsn is not None:
        shaping.pop("use_stat_tables", None)  # statements also read what is there, or do not
    if shaping:
        found.append(f"{', '.join(shaping)}: data are made once, with one value")
    if not switched and not treatments and not found:
        found.append("the arms are all the same")
    if experiment.most_instances > 1:
        found.append("instances: a block has one server")
    memory = [name for name in experiment.verdict.primary if is_memory(name)]
    if memory:
        found.append(f"verdict.primary: {', '.join(memory)}: the arms of one server share its memory")
    if experiment.is_search:
        found.append("steps.search: every arm needs a server of its own")
    if experiment.compares_statements:
        found.append("steps.statements: each statement is executed on all servers in turn")
    if any(replay_writes(step) for step in experiment.resolved_steps):
        found.append("steps.replay: a capture that writes is played once on its data: every arm needs data of its own")
    return [*found, *driver_obstacles(experiment)]


def _external_obstacles(experiment: Experiment) -> list[str]:
    """What an external server cannot have between slices."""
    found = []
    own = [variables_of(arm) for arm in experiment.arms]
    switched = switched_names(experiment)
    if alike := sorted({name for variables in own for name in variables}.difference(switched)):
        found.append(f"{', '.join(alike)}: the same in all arms, and an external server keeps its own; omit it")
    never = untouched(switched)
    found += [f"{name} is never changed on an external server: {why}" for name, why in never.items()]
    lasting = [name for name in lasting_names(experiment) if name not in never]
    if lasting and experiment.design.kind != "switchback":
        found.append(
            f"{', '.join(lasting)}: its effect may last longer than a slice; to try it nevertheless: "
            'design.kind = "switchback"'
        )
    if "network" in switched_treatments(experiment):
        found.append("network: only a link within this host is switched")
    if experiment.server.hooks is not None:
        found.append("server.hooks: nothing is restored or restarted between slices")
    return found


def is_switched(experiment: Experiment) -> bool:
    """Whether its blocks have one server: as demanded, or where nothing is against it and all takes effect at once.

    An external server has variables of arms in no other way.
    """
    if experiment.server.dsn is not None and any(variables_of(arm) for arm in experiment.arms):
        return True
    if experiment.design.kind != "auto":
        return experiment.design.kind == "switchback"
    return not lasting_names(experiment) and not switching_obstacles(experiment)


def with_slices(experiment: Experiment) -> Experiment:
    """The experiment; where its blocks have one server, with the slices of that design unless it has its own."""
    design = experiment.design
    usual = {"slice": SLICE_S, "washout": WASHOUT_S}
    update = {name: value for name, value in usual.items() if name not in design.model_fields_set}
    if not update or not is_switched(experiment):
        return experiment
    return experiment.model_copy(update={"design": design.model_copy(update=update)})
