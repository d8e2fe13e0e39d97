"""Facts of hosts, variables of servers and treatments of arms as they are compared: between studies, arms and hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mydyno.model.definition.experiment import ArmSpec
from mydyno.model.definition.quantities import format_bytes

FIRST_FACTS = ("kernel", "cpu_model", "cpus", "cpu_governor", "memory_bytes")
"""Facts that are named first where they differ."""
NOT_COMPARED = ("hostname", "load_average_before", "synced_writes_per_s")

Fact = str | bool


def comparable_facts(facts: Mapping[str, Any]) -> dict[str, Fact]:
    """The facts of one host; of the file system its type. Other facts with several parts are left out.

    Values are compared as they are printed, so that two sizes of memory that read alike are equal.
    """
    found: dict[str, Fact] = {}
    for name, value in facts.items():
        if name == "filesystem" and isinstance(value, Mapping):
            found[name] = str(value.get("type", ""))
        elif isinstance(value, bool):
            found[name] = value
        elif name.endswith("_bytes") and isinstance(value, int | float):
            found[name] = format_bytes(float(value))
        elif isinstance(value, str | int | float):
            found[name] = str(value)
    return {name: value for name, value in found.items() if value != ""}


def fact_differences(hosts: Mapping[str, Mapping[str, Any]], groups: Sequence[str]) -> dict[str, dict[str, Fact]]:
    """{fact: {group: value}} of what differs between the server hosts, kernel, CPU, governor, memory first."""
    known = {group: comparable_facts(hosts[group]) for group in groups if group in hosts}
    names = dict.fromkeys([*FIRST_FACTS, *sorted({name for facts in known.values() for name in facts})])
    found = {}
    for name in names:
        values = {group: facts[name] for group, facts in known.items() if name in facts}
        if name not in NOT_COMPARED and (len(set(values.values())) > 1 or 0 < len(values) < len(known)):
            found[name] = values
    return found


PLACES = re.compile(
    r"(_dir|_file|_path|_home|datadir|basedir|tmpdir|socket|pid_file|hostname|_uuid|timestamp|server_id)"
)
NOT_PERFORMANCE = re.compile(
    r"^(version|innodb_version|license|system_time_zone|character_sets_dir|ft_|optimizer_trace|debug|ssl_|tls_)"
)
MATTERS = re.compile(
    r"^(innodb_|binlog_|sync_|log_bin$|performance_schema$|query_cache|table_open_cache|thread_|join_buffer|sort_buffer|"
    r"read_|tmp_table|max_heap|key_buffer|transaction_|tx_isolation|optimizer_switch|large_pages|gtid_mode|"
    r"default_authentication|character_set_server|collation_server|sql_mode|storage_engine|flush)"
)
SYNCED_WRITES = (
    "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "innodb_doublewrite", "innodb_flush_method",
)  # fmt: skip
"""How often a commit waits for the disk and what it writes: what explains most, first."""
SHOWN_LETTERS = 60


def meaning_of(value: str) -> str | float:
    """A value without its spelling: 10 and 10.000000 are equal, and so are On and ON."""
    try:
        return float(value)
    except ValueError:
        return value.lower()


def shapes_performance(name: str) -> bool:
    """Whether a variable can change performance; paths, identities and versions cannot."""
    return bool(MATTERS.search(name)) and not PLACES.search(name) and not NOT_PERFORMANCE.search(name)


def treatments(arm: ArmSpec) -> dict[str, str | None]:
    """{treatment, or treatment.key: value in words} of an arm."""
    found: dict[str, str | None] = {}
    for name, value in arm.treatments.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": text_of(one) for key, one in value.items()}
        else:
            found[name] = text_of(value)
    if arm.instances is not None:
        found["instances"] = str(arm.instances)
    return found


def text_of(value: Any) -> str:
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return format_bytes(float(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
