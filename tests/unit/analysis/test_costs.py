"""Costs of an operation: made-up runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mydyno.analysis.costs import change_text
from mydyno.analysis.costs.per_operation import costs_of
from mydyno.evaluation.facts import _usable_cpus
from mydyno.model.definition.experiment import ArmSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.stored.costs import COSTS, SERVER_COUNTERS
from mydyno.model.stored.records import KERNEL_COUNTERS, ClientLoad, StudyRecord
from mydyno.model.stored.summary import CostRecord
from tests.support.fake_causes import ALPHA, CONNECTIONS, CPU, Cause, named, run_of, study


def test_costs_are_divided_by_the_operations_of_the_same_time() -> None:
    found = {one.cost: one for one in study(Cause(), 1, noise=1e-4).costs}
    assert found["redo_bytes"].control_value == pytest.approx(2600, rel=0.01)
    assert found["row_lock_time_us"].control_value == pytest.approx(0.1, rel=0.3), "milliseconds become microseconds"
    assert found["server_cpu_user_us"].arm_value == pytest.approx(700, rel=0.01)
    assert found["voluntary_context_switches"].control_value == pytest.approx(24, rel=0.01)
    assert "temporary_tables" not in found, "a counter that the server does not have is absent, not 0"
    assert not found["buffer_pool_reads"].beyond_noise, "nothing on both sides is no difference"


def one_arm() -> Experiment:
    return Experiment(
        name="x",
        question="What does one arm cost?",
        server=ServerSpec(name="mariadb-10.11"),
        control="base",
        arms=(ArmSpec(name="base"),),
        steps=(StepSpec(workload="oltp_read_write", connections=(CONNECTIONS,)),),
    )


def test_runs_that_do_not_count_have_no_costs() -> None:
    run, summary, made = run_of(1, "base", 1, Cause(), np.random.default_rng(1), 0.01, 8000.0)
    experiment = one_arm()
    invalid = summary.model_copy(update={"valid": False})
    runs = [run.model_copy(update={"block": block}) for block in (1, 2, 3)]
    summaries = [invalid.model_copy(update={"block": block}) for block in (1, 2, 3)]
    assert costs_of(experiment, runs, summaries, [made], ALPHA, {"": 2}) is None
    counted = [summary.model_copy(update={"block": block}) for block in (1, 2, 3)]
    assert costs_of(experiment, runs, counted, [made], ALPHA, {"": 2}) is not None
    assert costs_of(experiment, runs[:2], counted[:2], [made], ALPHA, {"": 2}) is None, "two blocks are too few"


def test_cpu_time_delays_all_connections_of_a_cpu_and_of_the_load_program_all_of_a_thread() -> None:
    """16 connections on 2 busy CPUs, with one thread of the load program."""
    assert crowding(strangers=0.0) == (pytest.approx(8.0), pytest.approx(8.0))
    assert crowding(strangers=0.0, busiest_worker_pct=90.0) == (pytest.approx(8.0), pytest.approx(0.9 * 16))
    assert crowding(strangers=0.5, busiest_worker_pct=40.0) == (pytest.approx(8.0), pytest.approx(0.8 * 16))
    assert crowding(strangers=0.5, busiest_worker_pct=5.0) == (pytest.approx(8.0), pytest.approx(8.0))


def test_the_load_of_other_hosts_takes_no_cpu_time_of_the_servers() -> None:
    here, _ = crowding(0.0, cpus=4)
    server_us, driver_us = CPU["user"] + CPU["system"], CPU["driver"]
    by_clients, _ = crowding(0.0, cpus=4, clients=(ClientLoad(name="load-1"),))
    external, _ = crowding(0.0, cpus=4, server=ServerSpec(dsn="mysql://bench@db1/sbtest", ssh="admin@db1"))
    assert by_clients / here == external / here == pytest.approx(server_us / (server_us + driver_us), rel=1e-3)
    study = StudyRecord(
        study="s", created_unix_ns=0, mydyno_version="0", experiment=one_arm(), host={"cpus_usable": 2},
        server_host={"cpus_usable": 16},
    )  # fmt: skip
    assert _usable_cpus(study) == {"": 16}


def crowding(
    strangers: float,
    busiest_worker_pct: float | None = None,
    cpus: float = 2,
    clients: tuple[ClientLoad, ...] = (),
    server: ServerSpec | None = None,
) -> tuple[float, float]:
    """Crowding of the server's CPU time, and of that of a load program with one thread."""
    experiment = one_arm()
    experiment = experiment.model_copy(update={"server": server or experiment.server})
    run, summary, made = run_of(1, "base", 1, Cause(), np.random.default_rng(1), 1e-4, 8000.0)
    seen: dict[str, Any] = {"strangers": strangers}
    if busiest_worker_pct is not None:
        seen |= {"rates": {"busiest_worker_pct": busiest_worker_pct}}
        seen |= {"driver_cpu_s": busiest_worker_pct / 100 * made.length_s}
    driver = run.steps[0].driver.model_copy(update={"clients": clients})
    run = run.model_copy(update={"steps": (run.steps[0].model_copy(update={"driver": driver}),)})
    blocks = [{"block": block} for block in (1, 2, 3)]
    found = costs_of(
        experiment,
        [run.model_copy(update=one) for one in blocks],
        [summary.model_copy(update=one) for one in blocks],
        [made.model_copy(update=one | seen) for one in blocks],
        ALPHA,
        {"": cpus},
    )
    assert found is not None
    (time,) = found.times
    return time.crowding, time.driver_crowding


def test_cpu_time_of_the_load_program_is_the_value_of_its_effects() -> None:
    """Not the one without adjustment for the host's speed, which the study has beside it."""
    changed = {one.cost: one for one in study(Cause(cpu={"driver": 420.0}), 1, noise=1e-4).costs}
    assert changed["driver_cpu_us"].arm_value == pytest.approx(420, rel=0.01)
    assert changed["driver_cpu_us"].control_value == pytest.approx(170, rel=0.01)


def test_cpu_time_of_the_load_program_is_split_where_its_shares_are_known() -> None:
    half = Cause(driver_system=0.4)
    costs = {one.cost: one for one in study(half, 1, noise=1e-4, base=half).costs}
    assert costs["driver_cpu_user_us"].control_value == pytest.approx(0.6 * 170, rel=0.01)
    assert costs["driver_cpu_system_us"].control_value == pytest.approx(0.4 * 170, rel=0.01)
    known = {one.cost for one in study(Cause(), 1).costs}
    assert "driver_cpu_us" in known
    assert not {"driver_cpu_user_us", "driver_cpu_system_us"} & known, "absent, not all of it in one mode"


def test_the_load_programs_cpu_time_is_named_as_a_whole() -> None:
    cause = Cause(2000.0, cpu={"driver": 420.0}, driver_system=0.4)
    record = study(cause, 1, base=Cause(driver_system=0.4))
    assert {one.cost for one in record.costs if one.beyond_noise} >= {"driver_cpu_us", "driver_cpu_user_us"}
    assert [one.name for one in named(cause, record)] == ["driver_cpu_us"]


def test_memory_per_connection_is_a_cost_and_explains_no_throughput() -> None:
    cause = Cause(longer_us=2000.0, memory_bytes=150_000.0)
    record = study(cause, 1)
    (cost,) = [one for one in record.costs if one.cost == "connection_memory_bytes"]
    assert cost.arm_value == pytest.approx(150_000, rel=0.1)
    assert cost.control_value == pytest.approx(90_000, rel=0.1)
    assert cost.beyond_noise
    assert "connection_memory_bytes" not in [one.name for one in named(cause, record)]


def test_the_change_of_a_cost_that_some_run_lacks_is_that_of_the_values_beside_it() -> None:
    """Its interval is of (value + least)."""
    cause = Cause(server={"Innodb_data_fsyncs": 0.0011})
    record = study(cause, 2, base=Cause(server={"Innodb_data_fsyncs": 0.51}))
    (cost,) = [one for one in record.costs if one.cost == "fsyncs"]
    assert cost.beyond_noise and cost.ratio is None
    assert change_text(cost) == f"÷ {float(f'{cost.control_value / cost.arm_value:.2g}'):.0f}"


def test_every_cost_has_a_source_that_exists() -> None:
    for name, cost in COSTS.items():
        assert cost.label
        assert cost.least > 0
        if cost.source == "kernel":
            assert set(cost.counters) <= set(KERNEL_COUNTERS), name
        elif cost.source == "server":
            assert set(cost.counters) <= set(SERVER_COUNTERS), name
    assert CostRecord.model_fields["cost"].annotation is str
