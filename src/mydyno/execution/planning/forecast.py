"""The forecast of a study before it starts: time, disk, memory, changes to the host, obstacles.

What a load requires that an arm, a server, this host or client hosts do not have: key-value workloads require something
of the arms, and a native memcached does not support all. Short connections to an external server may use up the local
ports of this host; dynoload warns by the same sums. The end that closes a TCP connection keeps its port for 60 s
(TIME_WAIT), or for 1 s where net.ipv4.tcp_tw_reuse permits its reuse (1: always, 2: over loopback). Source: the
kernel's Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mydyno.drivers.catalogue import DRIVERS
from mydyno.execution.environments.builds import BuildForecast
from mydyno.execution.planning.time_plan import COPY_BYTES_PER_S, cycles_of, replay_problem, shape_of
from mydyno.hosts.limits import open_files_shortage, quota_periods, tasks_shortage, usable_cpus, usable_memory
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import HostRoot
from mydyno.hosts.tracing.bpftrace import kernel_obstacle
from mydyno.hosts.tracing.perf import counters_obstacle, perf_obstacle
from mydyno.model.definition.experiment import EXISTING, ArmSpec, Experiment, Step
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.problems import Key, format_key
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.definition.server_options import option_name, plain_name, reserved_problems
from mydyno.model.definition.special_steps import speed_of
from mydyno.model.metrics import EXECUTED
from mydyno.servers.catalogue import has_sql, known_servers
from mydyno.servers.compiled.source import source_obstacle
from mydyno.servers.dsn import parse_dsn
from mydyno.servers.my_cnf import adapt_variables
from mydyno.servers.sources.archive import how_fetched
from mydyno.servers.wait_counting import version_obstacle
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.coexistence import lasting_names, server_bytes, switched_treatments
from mydyno.treatments.server import server_of
from mydyno.treatments.variables import VariablesTreatment
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import SQL, DumpContents
from mydyno.workloads.oltp import CONNECT
from mydyno.workloads.tpcc import used_warehouses

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


RUN_OVERHEAD_S = 2.0
INSTANCE_OVERHEAD_S = 2.0
"""Restore, start, proof, stop with small data (measured: 2 to 4 s for one instance)."""
STEP_OVERHEAD_S = 0.5
ENGINE_VARIABLES = ("default_storage_engine", "enforce_storage_engine", "storage_engine")
CHARACTER_SET_VARIABLES = ("character_set_server", "collation_server", "default_character_set", "default_collation")
WIDE_CHARACTER_SETS = ("ucs2", "utf16", "utf16le", "utf32")
"""With two or four bytes for each character; dynoload refuses them too (sql/server.rs)."""
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
    disk_bytes: int
    """While it runs: the template and a copy for each instance."""
    study_bytes: int
    free_bytes: int
    host_changes: tuple[str, ...]
    obstacles: tuple[str, ...]
    """Why the study cannot run on this host; empty if it can."""
    cautions: tuple[str, ...]
    """Warnings: what it can do only imprecisely."""
    builds: BuildForecast = field(default_factory=BuildForecast)
    """The forecast for servers that are built from source."""
    dump: DumpContents | None = None
    """What the dump with the data consists of; None: there is none, or it cannot be loaded."""

    def with_obstacle(self, words: str) -> Forecast:
        """The same with one more obstacle."""
        return replace(self, obstacles=(*self.obstacles, words))

    def with_change(self, words: str) -> Forecast:
        """The same with one more change."""
        return replace(self, host_changes=(*self.host_changes, words))


def forecast(experiment: Experiment, plan: Plan, paths: HostPaths, *, apart: bool = False) -> Forecast:
    """The forecast of a study on this host; `apart`: its load comes from other hosts. Starts and fetches nothing."""
    steps = experiment.resolved_steps
    kind = kind_of(experiment.data)
    size = kind.size_bytes(experiment.data)
    store_s = 0.0 if kind.store_s is None else kind.store_s(experiment.data)
    load_s = store_s + sum(step.warmup_s + step.measure_s + STEP_OVERHEAD_S for step in steps)
    arm_s = {
        arm.name: load_s
        + experiment.instances_of(arm) * (INSTANCE_OVERHEAD_S + size / COPY_BYTES_PER_S)
        + RUN_OVERHEAD_S
        for arm in experiment.arms
    }
    interleaved = plan.design != "blocks"
    if interleaved:
        shape = shape_of(experiment)
        study_s = (experiment.design.time if plan.sequential else None) or len(plan.blocks) * shape.block_s(
            cycles_of(experiment)
        )
        most = shape.servers
    else:
        study_s = sum(arm_s[run.arm] for run in plan.runs)
        most = experiment.most_instances
    free = paths.root.free_bytes(paths.data)
    host_changes = [change for arm in experiment.arms for change in _changes_of(arm, experiment, apart)]
    obstacles = _treatment_obstacles(experiment, paths, apart)
    if apart and plan.design == "switchback" and "network" in switched_treatments(experiment):
        obstacles.append('network: only a link within this host is switched; use design.kind = "interleaved"')
    needed = int((1.15 + 1.15 * most) * size)
    if experiment.most_instances > 1 and experiment.server.dsn is not None:
        obstacles.append("instances: an external server (dsn) is one; use server.name or server.basedir")
    data_kind = experiment.data.workload
    if experiment.server.dsn is not None and data_kind not in ("oltp", SQL, EXISTING, "kv"):
        # Of kv, kv_obstacles says more.
        obstacles.append(
            f"data: {data_kind} on an external server (dsn) is not checked; use server.name or server.basedir"
        )
    obstacles += kv_obstacles(experiment)
    obstacles += _reserved_obstacles(experiment)
    obstacles += _table_obstacles(experiment)
    obstacles += _profile_obstacles(experiment, plan, paths.root)
    obstacles += _counter_obstacles(experiment, paths.root)
    obstacles += _replay_obstacles(experiment, plan)
    if needed > free and experiment.server.dsn is None:
        obstacles.append(
            f"disk: the data need about {format_bytes(needed)} (template and {_copies(most)}), "
            f"{format_bytes(free)} are free at {paths.data}"
        )
    return Forecast(
        runs=len(plan.runs),
        run_s=study_s / len(plan.runs),
        study_s=study_s,
        prepare_s=0.0 if data_kind == EXISTING else 10 + kind.prepare_s(experiment.data),
        data_bytes=size,
        disk_bytes=int((1 + most) * 1.05 * size),
        study_bytes=int((study_s if interleaved else len(plan.runs) * load_s) * STUDY_BYTES_PER_RUN_S),
        free_bytes=free,
        host_changes=tuple(dict.fromkeys(host_changes)),
        obstacles=(*obstacles, *_memory_obstacles(experiment, paths.root)),
        cautions=(*_cautions(experiment, paths), *_gate_cautions(experiment, plan)),
    )


def _counter_obstacles(experiment: Experiment, root: HostRoot) -> list[str]:
    """A question about instructions where the processor does not count them."""
    asked = [one for one in experiment.verdict.primary if one in EXECUTED]
    obstacle = counters_obstacle(root) if experiment.server.dsn is None else "the server runs elsewhere"
    return [f"verdict.primary: {one}: {obstacle}" for one in asked if obstacle]


def _replay_obstacles(experiment: Experiment, plan: Plan) -> list[str]:
    """A capture that writes and is too short for the design that was chosen."""
    problems = {
        step.id: replay_problem(experiment, number, plan.design)
        for number, step in enumerate(experiment.resolved_steps)
        if speed_of(step) is not None
    }
    return [f"{step}: {problem}" for step, problem in problems.items() if problem]


def _reserved_obstacles(experiment: Experiment) -> list[str]:
    """What belongs to mydyno alone, in a study of an earlier version or another host; a new file is refused sooner."""
    tables: list[tuple[Key, object]] = [(("server", "variables"), experiment.server.variables)]
    tables += [(("arms", arm.name, "variables"), arm.treatments.get("variables")) for arm in experiment.arms]
    return [
        f"{format_key(problem.key)} = {problem.value}: {problem.message}"
        for key, variables in tables
        for problem in reserved_problems(key, variables)
    ]


def _table_obstacles(experiment: Experiment) -> list[str]:
    """What the tables of built-in data have otherwise: a storage engine that they name, or a wide character set."""
    if experiment.data.workload not in ("oltp", "tpcc"):
        return []
    found = []
    of_arms = [(f"arm {arm.name}", arm.treatments.get("variables", {})) for arm in experiment.arms]
    for whose, variables in [("server.variables", experiment.server.variables), *of_arms]:
        for name, value in variables.items():
            words = _table_problem(plain_name(name), str(value).lower(), experiment.data.workload)
            if words is not None:
                found.append(f"{whose}: {option_name(name)} = {value}: {words}")
    return found


def _table_problem(name: str, value: str, workload: str) -> str | None:
    if name in ENGINE_VARIABLES and value != "innodb":
        return f"has no effect: data.workload = {workload!r} has tables of InnoDB; set it to InnoDB, or omit it"
    if name in CHARACTER_SET_VARIABLES and value.partition("_")[0] in WIDE_CHARACTER_SETS:
        return f"the tables of data.workload = {workload!r} need one in which ASCII has one byte"
    return None


def _changes_of(arm: ArmSpec, experiment: Experiment, apart: bool) -> list[str]:
    """What the arm's treatments change on this host."""
    return [
        change
        for treatment in treatments_of(arm)
        for change in (treatment.host_changes_apart if apart else treatment.host_changes)(experiment.server)
    ]


def _copies(count: int) -> str:
    return "a copy" if count == 1 else f"{count} copies"


def _treatment_obstacles(experiment: Experiment, paths: HostPaths, apart: bool) -> list[str]:
    """What each arm's treatments lack here; what several arms lack is one sentence with their names."""
    drivers = list(dict.fromkeys(step.driver for step in experiment.resolved_steps))
    built_in = experiment.data.workload != "kv" and any(step.file is None for step in experiment.resolved_steps)
    found: dict[str, list[str]] = {}
    for arm in experiment.arms:
        server = server_of(arm, experiment.server)
        variables = {**server.variables, **arm.treatments.get("variables", {})}
        server = server.model_copy(update={"variables": variables})
        for treatment in treatments_of(arm):
            obstacles = [
                treatment.statements_obstacle() if built_in else None,
                (treatment.obstacle_apart if apart else treatment.obstacle)(experiment.server),
                *(treatment.driver_obstacle(driver) for driver in drivers),
                treatment.server_obstacle(server),
                treatment.disk_obstacle(paths.data),
                treatment.cache_obstacle(paths.cache),
            ]
            if experiment.instances_of(arm) > 1 and treatment.is_proved_for_one_instance_only:
                obstacles.append("is proved for one instance only; set instances = 1")
            for obstacle in obstacles:
                if obstacle is not None:
                    found.setdefault(f"{treatment.name}: {obstacle}", []).append(arm.name)
    of_all = VariablesTreatment(dict(experiment.server.variables)).obstacle(experiment.server)
    return [f"server.variables: {of_all}"] * (of_all is not None) + [
        f"{_whose(arms, experiment)}: {words}" for words, arms in found.items()
    ]


def _whose(arms: Sequence[str], experiment: Experiment) -> str:
    if 2 < len(arms) == len(experiment.arms):
        return "every arm"
    return f"arm{'s' if len(arms) > 1 else ''} {', '.join(arms)}"


def _profile_obstacles(experiment: Experiment, plan: Plan, root: HostRoot) -> list[str]:
    wanted = [f"profile.{name}" for name in experiment.profile.kinds]
    if wanted and plan.design == "blocks":
        why = f"this study has the design blocks ({plan.why})"
        return [f"{name}: only interleaved studies have profiled slices; {why}" for name in wanted]
    if experiment.is_search:
        why = "a capacity search has another load in each slice; set connections or a rate near the capacity instead"
        return [f"{name}: {why}" for name in wanted]
    if experiment.compares_statements:
        return [f"{name}: with steps.statements there are no slices to profile" for name in wanted]
    if experiment.server.dsn is not None:
        return [f"{name}: an external server (dsn) runs elsewhere, and is not configured for it" for name in wanted]
    found = []
    if experiment.profile.kernel and (obstacle := kernel_obstacle(root)) is not None:
        found.append(f"profile.kernel: {obstacle}")
    return found + (_waits_obstacles(experiment) if experiment.profile.waits else [])


def _waits_obstacles(experiment: Experiment) -> list[str]:
    """Servers without performance_schema, and settings that switch it off."""
    found = []
    for arm in experiment.arms:
        known = known_servers().get(server_of(arm, experiment.server).name or "")
        obstacle = None if known is None else version_obstacle(known.version)
        variables = {**experiment.server.variables, **arm.treatments.get("variables", {})}
        value = {option_name(name): value for name, value in variables.items()}.get("performance_schema", True)
        if obstacle is not None:
            found.append(f"profile.waits: {obstacle}")
        elif str(value).upper() in ("FALSE", "OFF", "0"):
            found.append(f"profile.waits: arm {arm.name} has performance_schema off; set it to true or omit it")
    return list(dict.fromkeys(found))


def _memory_obstacles(experiment: Experiment, root: HostRoot) -> list[str]:
    """The first arm whose servers alone do not fit."""
    if experiment.server.dsn is not None:
        return []
    memory = usable_memory(root)
    for arm in sorted(experiment.arms, key=experiment.instances_of, reverse=True):
        count, each = experiment.instances_of(arm), server_bytes(arm, experiment)
        if count * each < memory.amount * 0.9:
            continue
        servers = f"{count} servers need about {format_bytes(each)} each" if count > 1 else (
            f"its server needs about {format_bytes(each)}")  # fmt: skip
        return [
            f"memory: arm {arm.name}: {servers} (buffer pool and the rest), {format_bytes(memory.amount)} are usable "
            f"here{memory.where}; reduce it with --set server.variables.innodb_buffer_pool_size=…, or use another scale"
        ]
    return []


def shared_host_caution(experiment: Experiment, root: HostRoot) -> str:
    """The caution for a study whose load comes from the server's host."""
    cpus = usable_cpus(root).amount
    all_ = f"this host's {cpus:g} CPU{'s' * (cpus != 1)}"
    where = f"{all_}: every figure includes the driver's cost"
    affinities = {arm.treatments.get("affinity") for arm in experiment.arms}
    if affinities == {"one"}:
        where = f"one of {all_}: throughput is that of one CPU, and includes the driver's cost"
    elif affinities == {"apart"}:
        where = f"this host, each on CPUs of its own: neither can use all of its {cpus:g} CPUs"
    return f"the driver and the server share {where}"


def _gate_cautions(experiment: Experiment, plan: Plan) -> list[str]:
    lasting = lasting_names(experiment) if experiment.thresholds and plan.design == "switchback" else []
    if not lasting:
        return []
    return [
        f"thresholds: an effect of {', '.join(lasting)} may last longer than a slice, so the gate cannot pass; set "
        'design.kind = "interleaved" or "blocks"'
    ]


def _cautions(experiment: Experiment, paths: HostPaths) -> list[str]:
    cautions = []
    usable = usable_cpus(paths.root)
    cpus = usable.amount
    most = experiment.most_instances * max(step.connections for step in experiment.resolved_steps)
    if experiment.server.dsn is None:
        cautions.append(shared_host_caution(experiment, paths.root))
    if experiment.most_instances > max(1, cpus):
        cautions.append(f"{experiment.most_instances} instances share {cpus:g} CPUs: some get no CPU of their own")
    data = experiment.data
    if (used := used_warehouses(data, experiment.resolved_steps)) < data.warehouses:
        cautions.append(
            f"{used} terminals at fixed homes use {used} of {data.warehouses} warehouses: set options.home "
            f'of the steps to "random", or data.warehouses to {used}'
        )
    if most > 2000:
        cautions.append(f"{most} connections need as many threads in server and driver")
    if quota_periods(paths.root):
        cautions.append(
            f"a CPU quota of {cpus:g} CPUs{usable.where}: a load level in which it is used up does not count"
        )
    load = os.getloadavg()[0]
    if load > 0.5 * cpus:
        cautions.append(f"the host is busy: load average {load:.1f} on {cpus:g} CPUs")
    if experiment.server.dsn is None:
        cautions += filter(None, [open_files_shortage(), tasks_shortage(paths.root)])
        cautions += _server_cautions(experiment, paths)
    elif (server := parse_dsn(experiment.server.dsn)).socket is None:
        ports = port_caution(experiment.resolved_steps, server.host)
        cautions += [] if ports is None else [ports]
    if experiment.profile.cpu and (obstacle := perf_obstacle(paths.root)) is not None:
        instead = "kernel stacks are sampled from /proc instead, without functions of the server"
        cautions.append(f"profile.cpu: {instead}: {obstacle}")
    return cautions


def _server_cautions(experiment: Experiment, paths: HostPaths) -> list[str]:
    """What will be downloaded, and which of the experiment's variables each server renames or lacks."""
    cautions = []
    names = [server_of(arm, experiment.server).name for arm in experiment.arms]
    for name in dict.fromkeys(name for name in names if name is not None):
        entry = known_servers().get(name)
        if entry is None:
            cautions.append(how_fetched(name))
            continue
        if entry.source.present(paths.cache) is None:
            cautions.append(f"{entry.title} will be downloaded (about {entry.source.download_bytes / 1e6:.0f} MB)")
        if not entry.version.has_sql:
            continue  # it has no variables
        variables = {option_name(key): value for key, value in experiment.server.variables.items()}
        cautions += [f"{name}: {note}" for note in adapt_variables(variables, entry.version).notes]
    return cautions
