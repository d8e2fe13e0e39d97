"""What counting waits depends on: versions, digests of executions, nested waits, instances, and counters of InnoDB."""

from __future__ import annotations

from collections import Counter

from mydyno.model.server_version import ServerVersion
from mydyno.servers.wait_counting import (
    INSTRUMENT_OPTION,
    Counts,
    LockUse,
    activity_of,
    metrics_grown,
    start_variables,
    without_digested_executions,
)

EXECUTE = ("statement", "statement/com/Execute")


def test_instruments_of_waits_are_on_from_the_start_and_in_old_servers_all_of_them() -> None:
    for text in ("5.6.14", "10.2.11-MariaDB", "10.4.34-MariaDB"):
        assert start_variables(ServerVersion.parse(text))[INSTRUMENT_OPTION] == "%=ON"
    for text in ("5.7.44", "9.7.4", "10.5.1-MariaDB", "11.8.6-MariaDB"):
        found = start_variables(ServerVersion.parse(text))
        assert found == {"performance_schema": True, INSTRUMENT_OPTION: "wait/%=ON"}


def test_executions_with_a_digest_are_not_counted_twice() -> None:
    plain: Counts = {EXECUTE: (100, 1000.0), ("statement", "COMMIT"): (5, 50.0)}  # type: ignore[dict-item]
    assert without_digested_executions(plain) == plain
    digested: Counts = {**plain, ("statement", "EXECUTE SELECT ?"): (100, 990.0)}
    assert EXECUTE not in without_digested_executions(digested)
    some: Counts = {**plain, ("statement", "EXECUTE SELECT ?"): (60, 700.0)}
    assert without_digested_executions(some)[EXECUTE] == (40, 300.0)  # type: ignore[index]


def test_a_session_in_nested_waits_counts_in_the_innermost_and_other_threads_do_not_count() -> None:
    rows = [
        (7, "Updating", None, 0),
        (8, None, None, 0),
        (7, None, "wait/lock/metadata/sql/mdl", 40),
        (7, None, "wait/synch/cond/sql/MDL_context::COND_wait_status", 41),
        (99, None, "wait/io/file/innodb/innodb_log_file", 3),
    ]
    assert activity_of(rows) == Counter(
        {
            ("active", ""): 2,
            ("state", "Updating"): 1,
            ("state", ""): 1,
            ("wait", "wait/synch/cond/sql/MDL_context::COND_wait_status"): 1,
            ("wait", ""): 1,
        }
    )


def test_instances_of_two_slices_have_the_hottest_of_each() -> None:
    assert LockUse(3, 100.0, 90.0).with_other(LockUse(5, 50.0, 20.0)) == LockUse(5, 150.0, 110.0)


def test_a_counter_that_was_reset_or_is_new_added_nothing() -> None:
    before = {"a": 5.0, "b": 5.0, "c": 5.0}
    assert metrics_grown(before, {"a": 7.0, "b": 1.0, "c": 5.0, "d": 3.0}) == {"a": 2.0}
