"""Which variables of a running server are changed, and how values are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mydyno.hosts.undo import UndoJournal
from mydyno.servers import external_variables
from mydyno.servers.external_variables import BorrowedVariables, sql_value, untouched
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


class Limited:
    """A server whose io is at most its io_max; `stuck`: it takes no value."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.values = {"io": "100", "io_max": "200"}
        self.stuck = stuck

    def rows(self, _address: object, sql: str) -> list[tuple[str, ...]]:
        if sql.startswith("SELECT"):
            return [tuple(self.values[name] for name in re.findall(r"GLOBAL\.(\w+)", sql))]
        for name, value in re.findall(r"GLOBAL (\w+) = (\d+)", "" if self.stuck else sql):
            self.values[name] = str(min(int(value), int(self.values["io_max"]))) if name == "io" else value
        return []


@pytest.mark.parametrize("stuck", [False, True])
def test_what_was_borrowed_is_given_back_also_where_one_limits_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    server, undo = Limited(stuck=stuck), UndoJournal.begin(tmp_path, "study", tmp_path)
    monkeypatch.setattr(external_variables, "rows_now", server.rows)
    borrowed = BorrowedVariables(undo, "mysql://bench@db1/sbtest")
    borrowed.will_set({"io": "2000", "io_max": "4000"}, {"io": ["100"], "io_max": ["200"]})
    left = borrowed.give_back()
    if stuck:
        assert left is not None and left.endswith("io is 100, not 2000, io_max is 200, not 4000")
        disowned(undo, boot_id="another")
        for dsn, changed in (("mysql://other@db1:3306/shop", 1), ("mysql://bench@db1:3307/sbtest", 0)):
            assert len(external_variables.left_changed(UndoJournal.begin(tmp_path, "next", tmp_path), dsn)) == changed
    else:
        assert left is None and server.values == {"io": "2000", "io_max": "4000"}


@pytest.mark.parametrize("name", NEVER.split())
def test_what_is_never_changed_on_a_server_of_others(name: str) -> None:
    assert untouched([name])[name]


def test_what_a_server_takes_over_at_once_may_be_tried() -> None:
    assert untouched(SWITCHED_AT_ONCE) == {}
