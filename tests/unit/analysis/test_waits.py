"""Waits of made-up studies: a planted wait's class leads, and without one nothing is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mydyno.analysis.waits import leading
from mydyno.analysis.waits.contrasts import analyse
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.stored.counted import (
    CLIENT,
    ROW_LOCKS,
    LockInstances,
    SessionKind,
    WaitRecord,
    WaitsRecord,
    WaitTotals,
    wait_class,
)
from mydyno.store.samples import WAITS_FILE
from tests.support.counted_study import COST, STEP, counted_study
from tests.support.fake_waits import HOT, Event, counted

ALPHA = 0.03125
LOCKS: Mapping[Event, tuple[float, float]] = {("wait", ROW_LOCKS): (0.4, 4000.0)}


def study(
    folder: Path,
    seed: int,
    more: Mapping[Event, tuple[float, float]] | None = None,
    copy: Mapping[Event, tuple[float, float]] | None = None,
    blocks: int = 6,
    alpha: float | None = ALPHA,
    sessions: Mapping[tuple[SessionKind, str], float] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> WaitsRecord:
    """The waits of a study of `changed` against `base`. `more`: the arm's events; `copy`: those of A′."""
    random = np.random.default_rng(seed)

    def totals(arm: str, number: int) -> WaitTotals:
        if arm == "changed":
            return counted(random, STEP, more=more, sessions=sessions, metrics=metrics)
        return counted(random, STEP, more=copy if number == 2 else None)

    made = counted_study(folder, "waits", totals, blocks)
    found = analyse(made.examined(folder, WAITS_FILE, alpha))
    assert found is not None
    return found


def named(record: WaitsRecord) -> list[WaitRecord]:
    (contrast,) = record.contrasts
    return [one for one in contrast.events if one.beyond_noise]


def test_the_class_of_a_planted_wait_leads(tmp_path: Path) -> None:
    first = 0
    for seed in range(10):
        found = named(study(tmp_path / str(seed), seed, LOCKS))
        classes = [one for one in found if one.is_class]
        first += bool(classes) and classes[0].name == "row locks"
        if classes:
            assert classes[0].low_us is not None
            assert classes[0].low_us < 0.38 * 4000 < (classes[0].high_us or 0.0)
    assert first >= 9


def test_time_in_which_no_statement_is_under_way_is_a_class_of_waits(tmp_path: Path) -> None:
    found = named(study(tmp_path, 1, {("statement", "COMMIT"): (1.0, 40_000.0)}))
    (client,) = [one for one in found if one.is_class]
    assert client.name == CLIENT
    assert client.control_us == pytest.approx(64_000 - 2_100, rel=0.2), "8 connections, 8 ms a transaction"
    assert client.arm_us == pytest.approx(64_000 - 40_600, rel=0.3)
    assert CLIENT not in {one.of_class for one in found}


def test_at_a_rate_idle_connections_hide_no_wait_and_throughput_shows_no_cost(tmp_path: Path) -> None:
    """64 connections at 100 transactions a second: 640 ms of connections for each, of which 2 ms are in statements."""
    random, load = np.random.default_rng(1), StepSpec(workload="oltp_read_write", connections=(64,), rate=(100,))
    binlog: Mapping[Event, tuple[float, float]] = {("wait", "wait/io/file/sql/binlog"): (1.0, 620.0)}

    def totals(arm: str, _copy: int) -> WaitTotals:
        made = counted(random, "oltp_read_write-64-at-100", more=binlog if arm == "changed" else None)
        return made.model_copy(update={"loaded_s": made.transactions / 100.0})

    made = counted_study(tmp_path, "waits", totals, load=load)
    record = analyse(made.examined(tmp_path, WAITS_FILE, ALPHA))
    assert record is not None and record.throughput_ratio is None
    first = leading(record.contrasts[0])
    assert first is not None and (first.name, first.is_class) == ("file I/O", True)
    assert first.change_us == pytest.approx(500.0, rel=0.3)
    assert CLIENT not in {one.name for one in record.contrasts[0].events}
    assert record.contrasts[0].control_us == pytest.approx(2100.0, rel=0.3)


def test_a_stage_is_named_where_no_wait_event_covers_the_time(tmp_path: Path) -> None:
    found = named(study(tmp_path, 1, {("stage", "stage/sql/Commit"): (20.0, 4.0)}))
    assert [(one.kind, one.name) for one in found] == [("stage", "stage/sql/Commit")]
    assert found[0].high_us is not None
    assert found[0].high_us < 0.0


@pytest.mark.slow
def test_without_a_difference_nothing_is_named_in_nineteen_of_twenty_studies(tmp_path: Path) -> None:
    studies = [study(tmp_path / str(seed), seed) for seed in range(20)]
    assert sum(bool(named(one) or shown_sessions(one)) for one in studies) <= 1
    assert sum(bool(one.contrasts[0].metrics) for one in studies) <= 1


def shown_sessions(record: WaitsRecord) -> list[tuple[str, str]]:
    (contrast,) = record.contrasts
    return [(one.kind, one.name) for one in contrast.sessions if one.beyond_noise]


def test_sessions_in_a_planted_wait_are_named_by_its_class_and_all_active_ones_come_first(tmp_path: Path) -> None:
    waiting = {("wait", "wait/synch/mutex/innodb/trx_sys_mutex"): 3.0, ("active", ""): 8.0}
    record = study(tmp_path, 1, sessions=waiting)  # type: ignore[arg-type]
    (contrast,) = record.contrasts
    assert (contrast.sessions[0].kind, contrast.sessions[0].control) == ("active", pytest.approx(5.0, rel=0.15))
    assert shown_sessions(record) == [("active", ""), ("wait", "mutexes")]
    mutexes = next(one for one in contrast.sessions if one.name == "mutexes")
    assert (mutexes.control, mutexes.arm) == (pytest.approx(0.4, rel=0.3), pytest.approx(3.2, rel=0.3))
    assert record.samples == 6 * 3 * 40


def test_a_counter_of_innodb_that_differs_is_named_and_others_are_only_counted(tmp_path: Path) -> None:
    (contrast,) = study(tmp_path, 1, metrics={"os_log_fsyncs": 0.05}).contrasts
    assert [one.name for one in contrast.metrics] == ["os_log_fsyncs"]
    assert contrast.metrics_compared == 4


def test_a_lock_has_its_instances(tmp_path: Path) -> None:
    (contrast,) = study(tmp_path, 1, {("wait", HOT): (5.0, 100.0)}).contrasts
    lock = next(one for one in contrast.events if one.name == HOT)
    assert lock.arm_lock == lock.control_lock == LockInstances(instances=16, hottest=0.9)


def test_copies_of_the_control_that_differ_are_an_alarm(tmp_path: Path) -> None:
    record = study(tmp_path, 1, LOCKS, copy=LOCKS)
    assert record.alarm is not None and (record.alarm.control, record.alarm.kind) == ("base", "event")
    assert named(record) == []


def test_before_a_look_and_with_one_block_nothing_is_claimed(tmp_path: Path) -> None:
    assert named(study(tmp_path / "a", 1, LOCKS, alpha=None)) == []
    lone = study(tmp_path / "b", 1, LOCKS, blocks=1)
    assert named(lone) == []
    assert lone.contrasts[0].events[0].low_us is None


def test_times_and_counts_are_per_transaction_and_the_cost_is_of_these_slices(tmp_path: Path) -> None:
    record = study(tmp_path, 1)
    assert record.throughput_ratio == pytest.approx(COST, rel=0.01)
    (contrast,) = record.contrasts
    network = next(one for one in contrast.events if one.name == "network")
    assert network.control_count == pytest.approx(20.0, rel=0.05)
    assert network.control_us == pytest.approx(800.0, rel=0.3)
    assert contrast.control_us == pytest.approx(8 * 8000.0, rel=0.2)
    assert contrast.blocks == 6


def test_every_instrument_has_a_class_except_those_that_contain_others() -> None:
    assert wait_class(ROW_LOCKS) == "row locks"
    assert wait_class("wait/lock/metadata/sql/mdl") == "table and metadata locks"
    assert wait_class("wait/synch/sxlock/innodb/index_tree_rw_lock") == "read-write locks"
    assert wait_class("wait/io/table/sql/handler") == ""
    assert wait_class("idle") == ""
