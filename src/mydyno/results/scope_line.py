"""Where and when a study's answer holds, as one line that is printed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mydyno.model.experiment import Experiment
from mydyno.model.quantities import format_bytes, parse_bytes
from mydyno.model.records import RunRecord, ServerRecord, StudyRecord
from mydyno.model.summary import HostGroupsRecord, Summary
from mydyno.results.host_words import claim_words
from mydyno.results.plain_words import MOST_NAMES, blocks, listing
from mydyno.results.precision import finished_blocks
from mydyno.servers.version import ServerVersion
from mydyno.workloads.data import kind_of

DURABILITY = ("innodb_flush_log_at_trx_commit", "sync_binlog")


def scope_line(summary: Summary, study: StudyRecord, records: Sequence[RunRecord]) -> str:
    """Host or hosts with what is claimed of which, server, workloads, data against buffer pool, durability, blocks,
    servers up together, dates.
    """
    experiment = study.experiment
    servers = [server for record in records for server in record.servers]
    names = tuple(dict.fromkeys(ServerVersion.parse(server.version).name for server in servers))
    hosts = _host(study) if summary.host_groups is None else hosts_scope(summary.host_groups, study)
    parts = [hosts, load_words(study), listing(names) if names else "", _load(experiment), _data(experiment, servers)]
    parts += [f"{name}={value}" for name in DURABILITY if (value := common_variable(servers, name)) is not None]
    parts.append(blocks(finished_blocks(summary)))
    if summary.design == "interleaved":
        parts.append(f"{servers_together(experiment)} servers up at the same time, one loaded at a time")
    parts.append(_dates(records))
    return "; ".join(part for part in parts if part) + "."


def load_words(study: StudyRecord) -> str:
    """Where the load ran, if it was not the servers' host: "server on a1, load from a2 and a3"."""
    groups = [group for group in study.host_groups if group.clients]
    if len(groups) == 1:
        server = str(study.host.get("hostname") or groups[0].server or "this host")
        return f"server on {server}, load from {listing(tuple(groups[0].client_names))}"
    if not groups:
        return ""
    counts = sorted({len(group.clients) for group in groups})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"each server was loaded from {many} other host{'' if counts == [1] else 's'}"


def servers_together(experiment: Experiment) -> int:
    """How many servers a block of an interleaved study starts: every arm's, and the control's second copy's."""
    return sum(experiment.instances_of(arm) for arm in experiment.arms) + experiment.instances_of(
        experiment.arm(experiment.control)
    )


def common_variable(servers: Sequence[ServerRecord], variable: str) -> str | None:
    """The variable's value where all servers that have it agree: what an arm changes is no part of the scope."""
    with_sql = [server for server in servers if server.flavour != "memcached"] or servers
    values = {server.variables[variable] for server in with_sql if variable in server.variables}
    return values.pop() if len(values) == 1 else None


def _host(study: StudyRecord) -> str:
    name = str(study.host.get("hostname") or "this host")
    known = host_size(study.host)
    return f"Host {name} ({known})" if known else f"Host {name}"


def hosts_scope(groups: HostGroupsRecord, study: StudyRecord) -> str:
    """The hosts with their size, and what is claimed of which: "2 hosts: vm01 and vm02 (16 CPUs, 64 GiB each)"."""
    names = tuple(groups.blocks)
    sizes = {name: host_size(study.hosts.get(name, {})) for name in names}
    if len(set(sizes.values())) == 1:
        each = f" ({sizes[names[0]]} each)" if sizes[names[0]] else ""
        of = f": {listing(names)}{each}" if len(names) <= MOST_NAMES else each
    elif len(names) <= MOST_NAMES:
        of = f": {listing([f'{name} ({size})' if size else name for name, size in sizes.items()])}"
    else:
        of = f" ({len(set(sizes.values()))} sizes)"
    return f"{len(names)} hosts{of}; effects are means over these hosts, and {claim_words(groups)}"


def host_size(facts: Mapping[str, Any]) -> str:
    """CPUs and memory of a host: "16 CPUs, 64 GiB"; empty if unknown."""
    cpus = facts.get("cpus_usable") or facts.get("cpus")
    memory = facts.get("memory_bytes")
    size = [f"{cpus} CPU{'' if cpus == 1 else 's'}" if cpus else ""]
    size.append(format_bytes(float(memory)) if isinstance(memory, int | float) else "")
    return ", ".join(filter(None, size))


def _load(experiment: Experiment) -> str:
    """The workloads with their levels: "oltp_read_only at 16 and 64 connections"."""
    levels: dict[tuple[str, str], list[str]] = {}
    for step in experiment.resolved_steps:
        unit = "connections" if step.rate is None else f"transactions/s on {step.connections} connections"
        levels.setdefault((step.workload, unit), []).append(
            str(step.connections) if step.rate is None else f"{step.rate:,.10g}"
        )
    words = []
    for (workload, unit), amounts in levels.items():
        one = "connection" if amounts == ["1"] and unit == "connections" else unit
        words.append(f"{workload} at {listing(tuple(dict.fromkeys(amounts)))} {one}")
    return ", ".join(words)


def _data(experiment: Experiment, servers: Sequence[ServerRecord]) -> str:
    data = experiment.data
    kind = kind_of(data)
    pool = common_variable(servers, "innodb_buffer_pool_size")
    if not pool or not pool.isdigit():
        return kind.words(data)
    size, of_pool = kind.rows_bytes(data), parse_bytes(int(pool))
    return f"{kind.words(data)}, {size / of_pool:.2g} times the buffer pool of {format_bytes(of_pool)}"


def _dates(records: Sequence[RunRecord]) -> str:
    dates = sorted(datetime.fromtimestamp(one.started_unix_ns / 1e9, UTC).date().isoformat() for one in records)
    return " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""
