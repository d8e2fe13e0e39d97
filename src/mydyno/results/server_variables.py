"""Variables of a server that can change performance, and what their values mean."""

from __future__ import annotations

import re

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
