"""Which variables of a running server are changed, and how values are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mydyno.hosts.undo import UndoJournal
from mydyno.servers.external_variables import BorrowedVariables, left_changed, set_back, sql_value, untouched
from mydyno.treatments.coexistence import SWITCHED_AT_ONCE
from tests.support.disowned import disowned

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


@pytest.mark.parametrize("stuck", [False, True])
def test_what_was_borrowed_is_given_back_also_where_one_limits_the_other(stuck: bool) -> None:
    values = {"io": "100", "io_max": "200", "others": "7"}

    def rows(sql: str) -> list[tuple[str, ...]]:
        if sql.startswith("SELECT"):
            return [tuple(values[name] for name in re.findall(r"GLOBAL\.(\w+)", sql))]
        for name, value in re.findall(r"GLOBAL (\w+) = (\d+)", "" if stuck else sql):
            values[name] = str(min(int(value), int(values["io_max"]))) if name == "io" else value
        return []

    before, own = {"io": "2000", "io_max": "4000", "others": "1"}, {"io": ["100"], "io_max": ["200"], "others": ["2"]}
    left = set_back(rows, before, own)
    assert left == ("io is 100, not 2000, io_max is 200, not 4000" if stuck else "")
    assert values["others"] == "7", "somebody else changed it"


@pytest.mark.parametrize(
    ("dsn", "is_the_same"), [("mysql://other@db1:3306/shop", True), ("mysql://bench@db1:3307/sbtest", False)]
)
def test_what_a_killed_study_left_is_found_however_the_server_is_named(
    tmp_path: Path, dsn: str, is_the_same: bool
) -> None:
    killed = UndoJournal.begin(tmp_path, "killed", tmp_path)
    BorrowedVariables(killed, "mysql://bench@db1/sbtest").will_set({"io": "2000"}, {})
    disowned(killed, boot_id="another")
    found = left_changed(UndoJournal.begin(tmp_path, "next", tmp_path), dsn)
    assert found == ["io = 2000"] * is_the_same


@pytest.mark.parametrize("name", NEVER.split())
def test_what_is_never_changed_on_a_server_of_others(name: str) -> None:
    assert untouched([name])[name]


def test_what_a_server_takes_over_at_once_may_be_tried() -> None:
    assert untouched(SWITCHED_AT_ONCE) == {}
