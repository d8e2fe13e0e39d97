"""sysbench and server variables on a real server: counts that the server confirms, words where it goes wrong."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.drivers.base import DriverOutcome, Progress, StepContext
from mydyno.drivers.catalogue import DRIVERS
from mydyno.drivers.sysbench import Sysbench
from mydyno.errors import DriverError
from mydyno.execution.environments.private_environment import PrivateEnvironment
from mydyno.execution.validity import step_warnings
from mydyno.model.definition.experiment import Scalar, Step
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sql import Address
from mydyno.treatments.environment import EnvironmentTreatment
from mydyno.treatments.variable_effects import direct_io
from mydyno.treatments.variables import VariablesTreatment
from mydyno.workloads.reconcile import disagreements, growth
from tests.support import first_in_gate


def step(workload: str, warmup_s: float = 1, measure_s: float = 2, **options: Scalar) -> Step:
    return Step(
        id=f"{workload}-4",
        workload=workload,
        connections=4,
        warmup_s=warmup_s,
        measure_s=measure_s,
        driver="sysbench",
        options=options,
    )


async def run_step(
    environment: PrivateEnvironment, instance: MysqldServer, asked: Step, folder: Path, address: Address | None = None
) -> DriverOutcome:
    driver = environment.drivers["sysbench"]
    assert isinstance(driver, Sysbench)
    seen: list[Progress] = []
    outcome = await driver.run(
        StepContext(
            address or instance.address(LOAD_USER),
            environment.experiment.data,
            asked,
            folder,
            folder / "driver.log",
            on_progress=seen.append,
        )
    )
    assert seen
    return outcome


@pytest.mark.parametrize("workload", first_in_gate(["oltp_read_write", "oltp_read_only"]))
async def test_what_sysbench_says_it_asked_the_server_has_counted(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path, workload: str
) -> None:
    await instance.start()
    async with instance.control() as control:
        before = await control.status()
        result = (await run_step(environment, instance, step(workload), tmp_path)).result
        counted = growth(before, await control.status())
    assert disagreements(workload, result.whole, counted) == []
    writes = sum(counted[name] for name in ("Com_insert", "Com_update", "Com_delete"))
    if workload == "oltp_read_only":  # exactly: nothing is begun again
        assert (counted["Com_select"], writes) == (result.whole["read"], 0)
    assert 0 <= counted["Com_select"] - result.whole["read"] <= 0.005 * counted["Com_select"]
    assert 0 <= writes - result.whole["write"] <= 0.01 * writes, "statements of deadlocked transactions at most"
    assert (result.queries_write == 0) is (workload == "oltp_read_only")
    assert result.transactions <= result.whole["transactions"]
    assert result.queries == (result.queries_read or 0) + (result.queries_write or 0) + (result.queries_other or 0)
    assert result.cpu_user_s is not None
    assert 0 < result.cpu_user_s + (result.cpu_system_s or 0.0) < 3 * 60


async def test_the_samples_and_the_window_agree(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    await instance.start()
    outcome = await run_step(environment, instance, step("oltp_point_select", 1, 3), tmp_path)
    rates = [sample.value for sample in outcome.readings if sample.metric == "qps"]
    assert 2 <= len(rates) <= 4  # sysbench may miss a second on a busy host
    mean = outcome.result.queries / outcome.result.duration_s
    assert min(rates) * 0.7 <= mean <= max(rates) * 1.3
    in_histogram = sum(count for _, count in outcome.result.latency_histogram_us)
    # sysbench empties its histogram and its counters one after the other at a checkpoint: what ends in between is in
    # one of the two alone (seen: 29 of 240,970).
    assert in_histogram == pytest.approx(outcome.result.transactions, rel=0.01)


async def test_options_reach_sysbench(environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path) -> None:
    await instance.start()
    asked = step("oltp_read_only", 0, 2, point_selects=1, range_selects=False, skip_trx=True, db_ps_mode="disable")
    result = (await run_step(environment, instance, asked, tmp_path)).result
    assert result.queries == result.transactions == result.queries_read
    assert {"--point-selects=1", "--range-selects=off", "--skip-trx=on", "--db-ps-mode=disable"} <= set(result.command)


async def test_the_password_of_the_load_is_not_in_the_process_list(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    await instance.start()
    # Longer than ps needs on the busiest host; ended as soon as it is listed.
    asking = asyncio.ensure_future(run_step(environment, instance, step("oltp_point_select", 1, 300), tmp_path))
    listed, log = "", tmp_path / "driver.log"
    while not (f"--config-file={tmp_path}" in listed and log.exists()) and not asking.done():
        listed = (await asyncio.to_thread(subprocess.run, ["ps", "axeww"], capture_output=True, text=True)).stdout
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert instance.credentials.load not in listed
    assert (tmp_path / "sysbench.conf").stat().st_mode & 0o077 == 0
    assert instance.credentials.load not in log.read_text()


async def test_a_wrong_password_is_a_failure_in_sysbenchs_own_words(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    await instance.start()
    wrong = replace(instance.address(LOAD_USER), password=b"wrong")
    with pytest.raises(DriverError, match="error 1045: Access denied for user 'dyno'@'localhost'"):
        await run_step(environment, instance, step("oltp_read_only"), tmp_path, wrong)


async def test_an_unknown_table_is_a_failure_in_sysbenchs_own_words(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    await instance.start()
    async with instance.control() as control:
        await control.rows("DROP TABLE sbtest.sbtest1")
    with pytest.raises(DriverError, match=r"1146 \"Table 'sbtest.sbtest1' doesn't exist\""):
        await run_step(environment, instance, step("oltp_read_only"), tmp_path)


async def test_a_server_that_is_not_there_is_a_failure_in_sysbenchs_own_words(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    with pytest.raises(DriverError, match="error 2002: Can't connect"):
        await run_step(environment, instance, step("oltp_read_only"), tmp_path)


async def test_preparing_twice_fails_in_sysbenchs_own_words(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path
) -> None:
    await instance.start()
    with pytest.raises(DriverError, match="Table 'sbtest1' already exists"):
        await environment.drivers["sysbench"].prepare(
            instance.address(LOAD_USER), environment.experiment.data, tmp_path, tmp_path / "prepare.log"
        )


@pytest.mark.parametrize(
    ("variables", "holds", "words"),
    [
        ({"innodb_buffer_pool_size": "32M", "max_connections": 77}, True, "max_connections = 77"),
        ({"read_only": True, "innodb_file_per_table": "yes"}, True, "innodb_file_per_table = ON"),
        ({"thread_stack": "200001"}, False, "thread_stack is 199680, wanted 200001"),
        ({"table_open_cache": 3}, False, "table_open_cache is 10, wanted 3"),
        ({"loose_no_such_variable": 1}, False, "loose_no_such_variable is unknown to the server, wanted 1"),
        ({"init_connect": "SET @a = 'x#y'"}, True, "init_connect = SET @a = 'x#y'"),
        ({"innodb_flush_method": "fsync"}, True, "innodb_flush_method = fsync (0 of "),
        ({"innodb_use_native_aio": "OFF"}, True, "innodb_use_native_aio = OFF (the kernel has no AIO context"),
        ({"large_pages": "OFF"}, True, "large_pages = OFF (0 B of the pool's 32.0 MiB are on reserved huge pages)"),
        ({"default_storage_engine": "InnoDB"}, True, "default_storage_engine = InnoDB (the load's tables: 1 InnoDB)"),
        ({"default_storage_engine": "MyISAM"}, False, "= MyISAM is not in force: the load's tables: 1 InnoDB"),
        ({"character_set_server": "utf8mb4"}, False, "= utf8mb4 is not in force: the load's tables: 1 latin1"),
    ],
)
async def test_variables_are_read_back_and_what_the_server_rounds_or_ignores_does_not_hold(
    instance: MysqldServer, variables: dict[str, Scalar], holds: bool, words: str
) -> None:
    treatment = VariablesTreatment(variables)
    await treatment.apply(instance)
    await instance.start()
    evidence = await treatment.evidence(instance)
    assert (evidence.holds, words in evidence.text) == (holds, True), evidence.text


@pytest.mark.parametrize("refused", [False, True])
async def test_direct_io_that_the_file_system_refuses_is_not_in_force(instance: MysqldServer, refused: bool) -> None:
    """ramfs refuses O_DIRECT; the server then goes on without it, and reports the method that was set."""
    if refused:
        if os.geteuid() != 0:
            pytest.skip("mounting ramfs needs root")
        instance.settings.wrappers.append(["unshare", "--mount", "sh", "-ec", ON_RAMFS, str(instance.folder)])
    treatment = VariablesTreatment({"innodb_flush_method": "O_DIRECT"})
    await treatment.apply(instance)
    await instance.start()
    evidence = await treatment.evidence(instance)
    takes = not refused and takes_direct_io(instance.folder)
    assert evidence.holds is takes, evidence.text
    assert (
        "(4 of 4 open" if takes else "= O_DIRECT is not in force: 0 of 4 open data files have O_DIRECT"
    ) in evidence.text
    assert direct_io(instance.pid).holds is takes


ON_RAMFS = """
mkdir "$0/ram"; mount -t ramfs none "$0/ram"; cd "$0"; cp -a data tmp my.cnf init.sql ram
chown --reference="$0" ram; mount --bind ram "$0"; cd "$0/data"; exec "$@"
"""
"""Moves the instance's folder to a ramfs that the server alone sees."""


def takes_direct_io(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


async def test_the_environment_is_read_back_from_the_live_process(instance: MysqldServer) -> None:
    treatment = EnvironmentTreatment({"MALLOC_ARENA_MAX": 2, "EMPTY": ""})
    await treatment.apply(instance)
    await instance.start()
    assert (await treatment.evidence(instance)).holds
    other = EnvironmentTreatment({"MALLOC_ARENA_MAX": 4, "MISSING": 1})
    evidence = await other.evidence(instance)
    assert evidence.text == "MALLOC_ARENA_MAX is 2, wanted 4; MISSING is not set, wanted 1"


async def test_a_library_below_a_closed_folder_is_preloaded(instance: MysqldServer, tmp_path: Path) -> None:
    (tmp_path / "closed/lib").mkdir(parents=True)
    library = tmp_path / "closed/lib/libnothing.so"
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", library, "-x", "c", "/dev/null"], check=True)
    (tmp_path / "closed").chmod(0o700)
    treatment = EnvironmentTreatment({"LD_PRELOAD": str(library)})
    await treatment.apply(instance)
    await instance.start()
    evidence = await treatment.evidence(instance)
    assert evidence.holds, evidence.text
    missing = await EnvironmentTreatment({"LD_PRELOAD": f"{library.parent}/libnone.so"}).evidence(instance)
    assert "libnone.so of LD_PRELOAD is not mapped" in missing.text


@pytest.mark.parametrize("name", ["dynoload", pytest.param("sysbench", marks=pytest.mark.exhaustive)])
async def test_deletes_go_on_until_the_tables_are_empty_and_agree_with_the_server(
    environment: PrivateEnvironment, instance: MysqldServer, tmp_path: Path, name: str
) -> None:
    driver = DRIVERS[name]()
    await driver.get(environment.paths, environment.host)
    asked = step("oltp_delete", 0, 1).model_copy(update={"driver": name})
    context = StepContext(
        instance.address(LOAD_USER), environment.experiment.data, asked, tmp_path, tmp_path / "driver.log"
    )
    await instance.start()
    async with instance.control() as control:
        await control.rows("DELETE FROM sbtest.sbtest1 WHERE id > 100")
        for _ in range(2):
            before = await control.status()
            result = (await driver.run(context)).result
            counted = growth(before, await control.status())
            assert disagreements("oltp_delete", result.whole, counted) == []
            assert result.whole["unchanged"] > result.whole["write"]
            assert len(step_warnings(asked, result)) == 1
            assert result.health == "valid" or name == "sysbench"
    if name == "dynoload":
        assert ("absent_rows", "valid") in {(finding.rule, finding.level) for finding in result.findings}
