"""Which variables of a running server are changed, and how values are written."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.servers.external_variables import sql_value, untouched
from mydyno.treatments.coexistence import SWITCHED_AT_ONCE

NEVER = """
    read_only super_read_only offline_mode server_id gtid_mode binlog_format rpl_semi_sync_master_enabled
    replica_parallel_workers slave_exec_mode wsrep_on require_secure_transport secure_auth tls_version ssl_cipher
    validate_password_policy default_password_lifetime local_infile init_connect server_audit_logging event_scheduler
    max_connections max_user_connections wait_timeout net_read_timeout max_allowed_packet sql_mode autocommit
    character_set_server collation_connection time_zone default_storage_engine foreign_key_checks sql_log_bin
    innodb_buffer_pool_size innodb_buffer_pool_dump_now innodb_log_file_size innodb_redo_log_capacity
    innodb_undo_log_truncate innodb_fast_shutdown innodb_monitor_enable table_open_cache query_cache_size
    binlog_row_image expire_logs_days innodb_encrypt_tables connect_timeout skip_slave_start
    group_replication_start_on_boot log_bin_trust_function_creators mandatory_roles old_passwords
"""


@pytest.mark.parametrize(
    ("value", "sql"),
    [(1, "1"), (0.5, "0.5"), ("64M", "67108864"), (True, "'ON'"), ("mrr=on", "'mrr=on'"), ("a'b", "'a''b'")],
)
def test_values_are_written_as_sql(value: Any, sql: str) -> None:
    assert sql_value(value) == sql


@pytest.mark.parametrize("name", NEVER.split())
def test_what_is_never_changed_on_a_server_of_others(name: str) -> None:
    assert untouched([name])[name]


def test_what_a_server_takes_over_at_once_may_be_tried() -> None:
    assert untouched(SWITCHED_AT_ONCE) == {}
