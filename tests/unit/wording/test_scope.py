"""The scope line: hosts, server, load, and settings that no arm changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mydyno.analysis.servers import server_differences
from mydyno.execution.planning.forecast import forecast
from mydyno.experiments import load
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, DataSpec, ServerSpec, StepSpec
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.definition.plan import make_plan
from mydyno.model.stored.records import RunRecord, TablesRecord
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.scope_line import _load, arms_words, load_words, scope_line
from mydyno.workloads.data import kind_of
from mydyno.workloads.oltp import SYSTEM_BYTES
from tests.support.fake_answer import experiment, summary
from tests.support.fake_script import experiment as fake_experiment
from tests.support.fake_study_folder import Shape, build


def changed(run: RunRecord) -> RunRecord:
    """jemalloc's arm runs another server with another durability."""
    server = run.servers[0]
    if run.arm == "jemalloc":
        variables = {**server.variables, "innodb_flush_log_at_trx_commit": "2", "innodb_io_capacity": "200.000"}
        server = server.model_copy(update={"version": "5.6.14", "variables": variables})
    else:
        variables = {**server.variables, "innodb_io_capacity": "200", "innodb_version": "10.11.14"}
        server = server.model_copy(update={"variables": variables})
    return run.model_copy(update={"servers": (server,)})


def study_of_two_servers(path: Path) -> tuple[StudyFolder, list[RunRecord]]:
    """A study whose second arm runs another server."""
    folder = build(path, Shape(blocks=2, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    runs = [changed(run) for run in folder.runs()]
    return folder, runs


def test_the_disk_is_part_of_the_scope_where_arms_differ_in_durability(tmp_path: Path) -> None:
    folder, runs = study_of_two_servers(tmp_path / "two")
    found = summary(experiment(), [])
    measured = folder.study().model_copy(update={"host": {"synced_writes_per_s": 800.0}})
    said = scope_line(found, measured, runs)
    assert "sync_binlog=0; innodb_flush_log_at_trx_commit=1 with glibc and 2 with jemalloc;" in said
    assert "; a synced write of 4 KB took 1.2 ms;" in said
    assert "a synced write" not in scope_line(found, measured, list(folder.runs()))
    assert "a synced write" not in scope_line(found, folder.study(), runs)


def with_log_bin(run: RunRecord, log_bin: str, sync_binlog: str) -> RunRecord:
    server = run.servers[0]
    variables = {**server.variables, "log_bin": log_bin, "sync_binlog": sync_binlog}
    return run.model_copy(update={"servers": (server.model_copy(update={"variables": variables}),)})


def test_sync_binlog_counts_only_where_there_is_a_binary_log(tmp_path: Path) -> None:
    folder, runs = study_of_two_servers(tmp_path / "two")
    upgraded = [with_log_bin(run, "ON" if run.arm == "jemalloc" else "OFF", "1") for run in runs]
    said = scope_line(summary(experiment(), []), folder.study(), upgraded)
    assert "; sync_binlog=1 with jemalloc;" in said and "log_bin=OFF with glibc and ON with jemalloc;" in said
    without = [with_log_bin(run, "OFF", "1") for run in runs]
    assert "sync_binlog" not in scope_line(summary(experiment(), []), folder.study(), without)
    logged = [with_log_bin(run, "ON", "1") for run in runs]
    assert "; sync_binlog=1;" in scope_line(summary(experiment(), []), folder.study(), logged)


def test_what_every_arm_sets_is_part_of_the_scope(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    record, runs = folder.study(), list(folder.runs())
    said = scope_line(summary(experiment(), []), record, runs)
    assert "glibc" not in said
    assert "CPU;" not in said

    def with_common(**common: Any) -> str:
        arms = tuple(arm.model_copy(update={"treatments": arm.treatments | common}) for arm in record.experiment.arms)
        changed = record.experiment.model_copy(update={"arms": arms})
        return scope_line(summary(changed, []), record.model_copy(update={"experiment": changed}), runs)

    assert "; server and load on one CPU;" in with_common(affinity="one")
    assert "; server and load on CPUs of their own;" in with_common(affinity="apart")
    assert "; network.bandwidth=1gbit; network.delay=1ms;" in with_common(
        network={"bandwidth": "1gbit", "delay": "1ms"}, server="mariadb-10.11"
    )
    variables = {"innodb_flush_log_at_trx_commit": 2, "innodb_io_capacity": 400}
    assert with_common(variables=variables).count("innodb_flush_log_at_trx_commit") == 1
    assert "; innodb_io_capacity=400;" in with_common(variables=variables)


def test_data_of_the_users_own_have_the_size_that_the_server_reports(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    record = folder.study()
    own = record.experiment.model_copy(update={"data": DataSpec(workload="sql", sql="shop.sql")})
    tables = TablesRecord(tables=12, rows=50_123, size_bytes=64 << 20)

    def with_tables(run: RunRecord) -> RunRecord:
        [server] = run.servers
        variables = {**server.variables, "innodb_buffer_pool_size": str(128 << 20)}
        return run.model_copy(
            update={"servers": (server.model_copy(update={"variables": variables, "tables": tables}),)}
        )

    said = scope_line(
        summary(own, []), record.model_copy(update={"experiment": own}), [*map(with_tables, folder.runs())]
    )
    assert (
        "; tables of shop.sql (12 tables, about 50,123 rows, 64.0 MiB), 0.5 times the buffer pool of 128 MiB;" in said
    )
    first, *others = map(with_tables, folder.runs())
    [server] = first.servers
    larger = server.model_copy(update={"variables": {**server.variables, "innodb_buffer_pool_size": str(256 << 20)}})
    unlike = [first.model_copy(update={"servers": (larger,)}), *others]
    said = scope_line(summary(own, []), record.model_copy(update={"experiment": own}), unlike)
    assert "; tables of shop.sql (12 tables, about 50,123 rows, 64.0 MiB);" in said, "where the pools differ, too"


def test_warehouses_in_which_no_terminal_is_are_not_in_use(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    record = folder.study()

    def said(**step: Any) -> str:
        steps = (StepSpec(workload="tpcc", connections=(8, 16), **step),)
        changes = {"data": DataSpec(workload="tpcc", warehouses=100), "steps": steps}
        own = record.experiment.model_copy(update=changes)
        return scope_line(summary(own, []), record.model_copy(update={"experiment": own}), [*folder.runs()])

    of_all = said(options={"home": "random"})
    assert "; 100 warehouses, " in of_all
    assert said(options={"terminals": 1000, "key_and_think_times": True}) == of_all
    times = re.compile(r"([\d.]+) times the buffer pool")
    (all_times,), (used_times,) = times.findall(of_all), times.findall(said())
    assert "; 16 of 100 warehouses, " in said()
    assert float(used_times) == pytest.approx(float(all_times) * 0.16, rel=0.05)


def test_warehouses_in_which_no_terminal_is_are_named_beforehand(paths: HostPaths) -> None:
    def cautions(**options: Any) -> str:
        steps = (StepSpec(workload="tpcc", connections=(16,), options=options),)
        asked = fake_experiment(data=DataSpec(workload="tpcc", warehouses=100), steps=steps)
        return str(forecast(asked, make_plan(asked), paths).cautions)

    assert "16 terminals at fixed homes use 16 of 100 warehouses: set " in cautions()
    assert "warehouses" not in cautions(home="random")


def test_two_spellings_of_a_default_are_no_difference_between_servers(tmp_path: Path) -> None:
    _, runs = study_of_two_servers(tmp_path / "two")
    assert list(server_differences(runs)) == ["innodb_flush_log_at_trx_commit"]


def test_a_small_table_is_held_against_the_buffer_pool_without_the_servers_own_files() -> None:
    tiny = DataSpec(workload="oltp", tables=1, rows=10_000)
    kind = kind_of(tiny)
    assert kind.rows_bytes(tiny) == 2_400_000
    assert kind.size_bytes(tiny) - kind.rows_bytes(tiny) == SYSTEM_BYTES


def test_the_scope_names_the_hosts_of_server_and_load(tmp_path: Path) -> None:
    study = build(tmp_path / "study", Shape(blocks=1, connections=(16,), measure_s=5, arms=("glibc",))).study()
    pair = HostGroup(name="a", server="bench@a1", clients=("bench@a2", "bench@a3"), address="10.0.0.5")
    one = study.model_copy(update={"host_groups": (pair,), "host": {"hostname": "a1.example"}})
    assert load_words(study) == ""
    assert load_words(one) == "server on a1.example, load from a2 and a3"
    other = pair.model_copy(update={"name": "b", "server": "b1", "clients": ("b2",)})
    assert load_words(study.model_copy(update={"host_groups": (pair, other)})) == (
        "each server was loaded from 1 to 2 other hosts"
    )


def test_arms_whose_names_do_not_say_what_they_set_are_explained() -> None:
    def of(*arms: tuple[str, dict[str, Any]], **changes: Any) -> str:
        specs = tuple(ArmSpec(name=name, treatments=treatments) for name, treatments in arms)
        return arms_words(experiment(specs=specs, **changes))

    assert arms_words(experiment()) == "", "glibc and jemalloc are what they are called"
    flushed = {"innodb_flush_log_at_trx_commit": 2}
    server = ServerSpec(name="mariadb-10.11", variables={"innodb_flush_log_at_trx_commit": 1})
    assert of(("before", {}), ("after", {"variables": flushed}), server=server) == (
        "What the arms set: before: innodb_flush_log_at_trx_commit=1; after: innodb_flush_log_at_trx_commit=2."
    )
    assert of(("before", {}), ("after", {"allocator": "jemalloc"})) == (
        "What the arms set: before: sets nothing; after: allocator=jemalloc."
    )
    many = {"variables": {f"innodb_{name}": 1 for name in "abcdefgh"}}
    assert of(("a", {}), ("b", many)).endswith("innodb_f=1, 2 more.")


def test_the_arms_of_cgroup_isolation_are_explained() -> None:
    said = arms_words(load("cgroup-isolation")[0])
    assert "limit-a-1: instances=1, cgroup.cpus=split/4, cgroup.read_bps=60M, cgroup.write_bps=40M; none-2" in said


def test_writes_that_are_left_out_are_part_of_the_scope() -> None:
    steps = (StepSpec(workload="sql", connections=(4,), options={"read_only": True}),)
    assert "sql at 4 connections, without the statements that write" in _load(experiment(steps=steps))
    assert "write" not in _load(experiment())


def test_one_external_server_of_each_arm_says_nothing_of_others_of_its_version(tmp_path: Path) -> None:
    folder, runs = study_of_two_servers(tmp_path / "two")
    study = folder.study()
    arms = tuple(
        ArmSpec(name=arm.name, treatments={"dsn": f"mysql://bench@{arm.name}/sbtest"}) for arm in study.experiment.arms
    )
    server = ServerSpec(dsn="mysql://bench@glibc/sbtest")
    external = study.experiment.model_copy(update={"server": server, "arms": arms})
    said = scope_line(summary(experiment(), []), study.model_copy(update={"experiment": external}), runs)
    assert " (glibc) and " in said
    assert "one of each: differences are those of these servers and say nothing of other servers of these " in said
