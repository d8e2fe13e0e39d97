"""If arms run different servers: the settings that still differ between them, as the servers report them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mydyno.model.stored.records import RunRecord

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
EXPLAINING = (
    *SYNCED_WRITES, "innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size",
    "innodb_log_files_in_group", "innodb_log_buffer_size", "innodb_io_capacity", "innodb_flush_neighbors",
    "innodb_adaptive_hash_index", "performance_schema", "query_cache_type", "transaction_isolation", "tx_isolation",
)  # fmt: skip
"""Settings in the order of what they can explain; others follow, those of InnoDB first."""
SHOWN_LETTERS = 60


def server_differences(runs: Sequence[RunRecord]) -> dict[str, dict[str, str | None]]:
    """{variable: {arm: value; None if that server has no such variable}}; empty if all were started by mydyno from one
    version.

    Only variables that shape performance and differ between two servers that both have them; a variable that one
    version alone has cannot be set alike, and there are hundreds. Paths and identities are left out. Of an arm with
    several servers, the values of all of them.
    """
    variables: dict[str, dict[str, dict[str, None]]] = {}
    versions = set()
    apart = any(one.treatment == "dsn" for run in runs for one in run.evidence)
    for run in runs:
        for server in run.servers[:1]:
            of_arm = variables.setdefault(run.arm, {})
            for name, value in server.variables.items():
                of_arm.setdefault(name.lower(), {})[value] = None
            versions.add(server.version)
    if len(versions) < 2 and not apart:
        return {}
    names = sorted({name for of_arm in variables.values() for name in of_arm if shapes_performance(name)})
    differing = {}
    for name in names:
        values = {arm: list(of_arm.get(name, ())) for arm, of_arm in sorted(variables.items())}
        if len({meaning_of(value) for found in values.values() for value in found}) > 1:
            shown = {arm: " or ".join(found)[:SHOWN_LETTERS] for arm, found in values.items()}
            differing[name] = {arm: text if values[arm] else None for arm, text in shown.items()}
    return differing


def most_explaining(names: Iterable[str]) -> list[str]:
    """The settings in the order of what they can explain."""
    rank = {name: index for index, name in enumerate(EXPLAINING)}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), not name.startswith("innodb_"), name))


def meaning_of(value: str) -> str | float:
    """A value without its spelling: 10 and 10.000000 are equal, and so are On and ON."""
    try:
        return float(value)
    except ValueError:
        return value.lower()


def shapes_performance(name: str) -> bool:
    """Whether a variable can change performance; paths, identities and versions cannot."""
    return bool(MATTERS.search(name)) and not PLACES.search(name) and not NOT_PERFORMANCE.search(name)
