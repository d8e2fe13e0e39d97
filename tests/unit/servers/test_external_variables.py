"""Which variables of a running server are changed, and how values are written."""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from mydyno.errors import HostError, ServerError
from mydyno.hosts.undo import UNDOERS, UndoJournal
from mydyno.servers import external_variables
from mydyno.servers.external_variables import BorrowedVariables, left_changed, set_back, sql_value, untouched
from mydyno.servers.sql import THIS_SERVER
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
    transaction_isolation tx_isolation max_statement_time max_execution_time
"""


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (1, "1"),
        (0.5, "0.5"),
        (5e-5, "0.00005"),
        ("5e-05", "0.00005"),
        (1e16, "10000000000000000"),
        ("64M", "67108864"),
        (True, "'ON'"),
        ("mrr=on", "'mrr=on'"),
        ("a'b", "'a''b'"),
    ],
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


class Server:
    """A session of a server that is a dictionary."""

    def __init__(self, name: str) -> None:
        self.name, self.values, self.lost = name, {"io": "100"}, False
        self.locks, self.refusal = 1, 0

    def rows_now(self, sql: str) -> list[tuple[str, ...]]:
        if self.lost:
            raise ServerError("Lost connection")
        if sql == THIS_SERVER:
            return [(self.name,)]
        if sql.startswith("SELECT"):
            return [tuple(self.values[name] for name in re.findall(r"GLOBAL\.(\w+)", sql))]
        self.values.update(re.findall(r"GLOBAL (\w+) = (\d+)", sql))
        return []

    async def scalar(self, sql: str, *_: object) -> object:
        if sql == THIS_SERVER:
            return self.name
        if self.refusal:
            raise ServerError(f"{sql}: {self.refusal}") from pymysql.OperationalError(self.refusal, "")
        return self.locks


@pytest.mark.parametrize(
    ("locks", "refusal", "words"),
    [(1, 0, ""), (0, 0, None), (1, 1105, "GET_LOCK"), (1, 1235, "GET_LOCK"), (1, 2013, None)],
)
async def test_a_server_without_user_locks_is_used_nevertheless(
    tmp_path: Path, locks: int, refusal: int, words: str | None
) -> None:
    server = Server("db1:3306, server_id 1")
    server.locks, server.refusal = locks, refusal
    borrowed = BorrowedVariables(UndoJournal.begin(tmp_path, "study", tmp_path), "mysql://bench@db1/sbtest")
    if words is None:
        with pytest.raises(ServerError if refusal else HostError):
            await borrowed.take_turn(server)  # type: ignore[arg-type]  # a stand-in
    else:
        found = await borrowed.take_turn(server)  # type: ignore[arg-type]  # a stand-in
        assert words in found
        assert bool(words) == bool(found)


@pytest.mark.parametrize("lost", [False, True])
async def test_the_server_that_was_changed_gets_its_values_back_and_no_other_one_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    changed, other = Server("db1:3306, server_id 1"), Server("db2:3306, server_id 2")
    undoer = partial(external_variables._give_back, session=lambda _: nullcontext(other.rows_now))
    monkeypatch.setitem(UNDOERS, external_variables.KIND, undoer)
    undo = UndoJournal.begin(tmp_path, "study", tmp_path)
    borrowed = BorrowedVariables(undo, "mysql://bench@proxy/sbtest")
    await borrowed.take_turn(changed)  # type: ignore[arg-type]  # a stand-in
    borrowed.will_set({"io": "2000"}, {"io": ["100"]})
    changed.lost = lost
    left = await borrowed.give_back()
    assert other.values == {"io": "100"}
    assert changed.values == {"io": "100" if lost else "2000"}
    assert len(undo.open_entries()) == lost
    assert left == (
        "variables of db1:3306, server_id 1: mysql://bench@proxy/sbtest leads to db2:3306, server_id 2 now; execute on "
        "the former: SET GLOBAL io = 2000"
        if lost
        else None
    )


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
    assert untouched(SWITCHED_AT_ONCE).keys() == {"transaction_isolation", "tx_isolation"}, "of private servers alone"
