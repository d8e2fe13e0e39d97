"""Which experiments are switched: one running server per block, its settings changed between slices by SET GLOBAL.

What is switched has to take effect at once, and to leave nothing behind for the slices that follow. Everything here is
known from the experiment alone; nothing is started.
"""

from __future__ import annotations

from mydyno.model.definition.experiment import ArmSpec, Experiment, Scalar
from mydyno.model.definition.server_options import option_name
from mydyno.model.memory import is_memory
from mydyno.servers.external_variables import untouched
from mydyno.servers.templates import shaping_variables
from mydyno.treatments.coexistence import driver_obstacles
from mydyno.workloads.captures import replay_writes

_AT_ONCE = """
    innodb_flush_log_at_trx_commit innodb_flush_log_at_timeout sync_binlog
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


def switched_variables(experiment: Experiment) -> dict[str, dict[str, Scalar]]:
    """{arm: {variable: value}} of the variables that are not the same in all arms. An arm without one leaves the
    server's own value."""
    own = {arm.name: _variables(arm) for arm in experiment.arms}
    first = own[experiment.control]
    names = {name for variables in own.values() for name in variables}
    alike = {name for name in names if all(variables.get(name) == first.get(name) for variables in own.values())}
    return {
        arm: {name: value for name, value in variables.items() if name not in alike} for arm, variables in own.items()
    }


def switched_names(experiment: Experiment) -> list[str]:
    """The variables in which the arms differ, in order."""
    return sorted({name for variables in switched_variables(experiment).values() for name in variables})


def _variables(arm: ArmSpec) -> dict[str, Scalar]:
    return {option_name(name): value for name, value in arm.treatments.get("variables", {}).items()}


def switching_obstacles(experiment: Experiment) -> list[str]:
    """Why the arms cannot be settings of one running server; empty if they can.

    Whether the server lets each variable be set while it runs is known from the server alone, in the first block.
    """
    found = _external_obstacles(experiment) if experiment.server.dsn is not None else []
    names = sorted({name for arm in experiment.arms for name in arm.treatments} - {"variables"})
    control = experiment.arm(experiment.control)
    for name in names:
        if any(arm.treatments.get(name) != control.treatments.get(name) for arm in experiment.arms):
            found.append(f"{name} is not the same in all arms: a running server keeps it")
    switched = switched_names(experiment)
    if shaping := shaping_variables(dict.fromkeys(switched, "")):
        found.append(f"{', '.join(shaping)}: the server's files are of one form")
    if not switched and not found:
        found.append("the arms differ in no server variable")
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
    own = [_variables(arm) for arm in experiment.arms]
    switched = switched_names(experiment)
    if alike := sorted({name for variables in own for name in variables}.difference(switched)):
        found.append(f"{', '.join(alike)}: the same in all arms, and an external server keeps its own; omit it")
    never = untouched(switched)
    found += [f"{name} is never changed on an external server: {why}" for name, why in never.items()]
    lasting = [name for name in switched if name not in SWITCHED_AT_ONCE and name not in never]
    if lasting and experiment.design.kind != "switchback":
        found.append(
            f"{', '.join(lasting)}: its effect may last longer than a slice; to try it nevertheless: "
            'design.kind = "switchback"'
        )
    if experiment.server.hooks is not None:
        found.append("server.hooks: nothing is restored or restarted between slices")
    return found


def is_switched(experiment: Experiment) -> bool:
    """Whether its blocks have one server: as demanded, or where nothing is against it and all takes effect at once.

    An external server has variables of arms in no other way.
    """
    if experiment.server.dsn is not None and any(_variables(arm) for arm in experiment.arms):
        return True
    if experiment.design.kind != "auto":
        return experiment.design.kind == "switchback"
    return SWITCHED_AT_ONCE.issuperset(switched_names(experiment)) and not switching_obstacles(experiment)
