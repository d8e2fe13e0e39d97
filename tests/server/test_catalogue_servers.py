# mypy: disable-error-code="arg-type"
"""Each server of the catalogue for real: initialised, started, loaded, and as mydyno says."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mydyno.drivers.base import Driver, StepContext
from mydyno.drivers.dynoload import Dynoload
from mydyno.drivers.sysbench import Sysbench
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.server_user import ids_of
from mydyno.model.definition.experiment import DataSpec, Scalar, ServerSpec, Step
from mydyno.model.stored.counted import ROW_LOCKS, wait_class
from mydyno.servers.catalogue import ANONYMOUS_MAP, CATALOGUE, get_build
from mydyno.servers.my_cnf import adapt_variables
from mydyno.servers.running.base import LOAD_USER, InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.templates import initialise
from mydyno.servers.wait_counting import (
    WaitCounting,
    grown,
    read_counts,
    start_variables,
    stop_counting,
    version_obstacle,
)
from mydyno.treatments.allocator import AllocatorTreatment
from mydyno.treatments.dynamic_linker import mapped_libraries
from mydyno.treatments.server import program_of

pytestmark = pytest.mark.exhaustive

BASE = {
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "16M",
    "innodb_log_files_in_group": 2,
    "innodb_buffer_pool_load_at_startup": False,
    "innodb_thread_concurrency": 0,
    "log_bin": False,
    "query_cache_type": 0,
    "performance_schema": False,
}
DATA = DataSpec(tables=1, rows=1000)


@pytest_asyncio.fixture(params=[name for name in CATALOGUE if name != "memcached"])  # it has no SQL
async def instance(request: pytest.FixtureRequest) -> AsyncIterator[MysqldServer]:
    paths = HostPaths.resolve()
    host = LocalHost("test-catalogue-servers", paths.server_user)
    build = await get_build(ServerSpec(name=request.param), paths.cache, host)
    with tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder:
        Path(folder).chmod(0o755)
        sockets = Path(folder) / "s"
        sockets.mkdir()
        if paths.server_user is not None:
            os.chown(sockets, *ids_of(paths.server_user))
        made = MysqldServer(
            build, host, Path(folder) / "i", sockets, Path(folder) / "server.log", Credentials(),
            InstanceSettings(base=dict(BASE)),
        )  # fmt: skip
        await initialise(made)
        allocator = AllocatorTreatment("glibc")
        await allocator.get(paths, host)
        await allocator.apply(made)
        await made.start()
        try:
            yield made
        finally:
            await made.stop()


async def test_a_server_of_the_catalogue_is_what_mydyno_says_and_serves_a_load(
    instance: MysqldServer, tmp_path: Path
) -> None:
    entry = CATALOGUE[instance.build.name]
    async with instance.control() as control:
        variables = await control.variables()
        assert await control.scalar("SELECT HOUR(CONVERT_TZ('2026-07-01 12:00', 'UTC', 'Europe/Berlin'))") == 14
    assert instance.version.number[:2] == entry.version.number[:2]
    assert instance.version.flavour == entry.version.flavour
    if "tls_version" in variables:
        assert tuple(variables["tls_version"].split(",")) == entry.traits.tls
    else:
        assert (variables["have_ssl"] != "NO") == bool(entry.traits.tls)
    algorithms = variables.get("protocol_compression_algorithms", "zlib,uncompressed").split(",")
    assert set(algorithms) - {"uncompressed"} == set(entry.traits.compression)
    assert (instance.build.plugins / "libmemcached.so").exists() == entry.traits.memcached
    first_by_mmap = (10, 5) if entry.version.flavour == "mariadb" else (8, 0)
    assert (entry.traits.huge_pages == ANONYMOUS_MAP) == (entry.version.number >= first_by_mmap)
    linked = mapped_libraries(instance.pid) or []
    assert any("libtcmalloc" in path for path in linked) == (entry.traits.allocator == "tcmalloc")
    program = instance.build.program.resolve()
    assert program_of(instance.pid, bool(instance.build.loader), program) == program
    for name, value in adapt_variables(BASE, instance.version, instance.build.variables).variables.items():
        if name == "innodb_redo_log_capacity":
            assert variables[name] == str(value)
    await _load(instance, tmp_path)
    if version_obstacle(instance.version) is None:
        await _counts_waits(instance, tmp_path)


async def test_glibc_is_proved_even_where_the_build_links_another_allocator(instance: MysqldServer) -> None:
    paths = HostPaths.resolve()
    treatment = AllocatorTreatment("glibc")
    await treatment.get(paths.cache, instance.host)
    await treatment.apply(instance)
    evidence = await treatment.evidence(instance)
    assert evidence.holds, evidence.text
    instance.settings.environment.pop("LD_PRELOAD")
    without = await treatment.evidence(instance)
    links_another = CATALOGUE[instance.build.name].traits.allocator != "glibc"
    assert without.holds != links_another, without.text


async def _counts_waits(instance: MysqldServer, tmp_path: Path) -> None:
    """With a server started for it: nothing before counting begins, then all classes, locks, sessions and counters."""
    await instance.stop()
    instance.settings.base = {**BASE, **start_variables(instance.version)}
    await instance.start()
    await stop_counting(instance)
    async with instance.control() as control:
        before = await read_counts(control)
    await _run("oltp_read_write", instance, tmp_path)
    async with instance.control() as control:
        assert grown(before, await read_counts(control)).keys() <= {("wait", ROW_LOCKS)}
    counting = WaitCounting([instance])
    await counting.begin()
    await _run("oltp_read_write", instance, tmp_path)
    counted = await counting.end()
    classes = {wait_class(name) for kind, name in counted.events if kind == "wait"}
    assert {"mutexes", "read-write locks", "network", "table and metadata locks"} <= classes
    assert {"stage", "statement"} < {kind for kind, _ in counted.events}
    if instance.version.flavour == "mysql" and instance.version.number < (8, 0):  # later ones have threads for the log
        assert ("wait", "wait/io/file/innodb/innodb_log_file") in counted.events
    assert counted.locks
    assert counted.metrics
    assert any(sample.activity for sample in counted.samples)
    async with instance.control() as control:
        before = await read_counts(control)
        await control.rows("SELECT COUNT(*) FROM sbtest.sbtest1")
        assert await read_counts(control) == before


async def _load(instance: MysqldServer, tmp_path: Path) -> None:
    paths = HostPaths.resolve()
    driver = Sysbench()
    await driver.get(paths, instance.host)
    await driver.prepare(instance.address(LOAD_USER), DATA, tmp_path, tmp_path / "prepare.log")
    for workload in ("oltp_read_only", "oltp_read_write"):
        await _run(workload, instance, tmp_path)
    await _run("oltp_read_write", instance, tmp_path, Dynoload())


async def _run(workload: str, instance: MysqldServer, tmp_path: Path, driver: Driver | None = None) -> None:
    driver = driver or Sysbench()
    await driver.get(HostPaths.resolve(), instance.host)
    step = Step(id=workload, workload=workload, connections=2, warmup_s=0, measure_s=1, driver=driver.name)
    outcome = await driver.run(StepContext(instance.address(LOAD_USER), DATA, step, tmp_path, tmp_path / "log"))
    assert outcome.result.transactions > 0


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.4"])
async def test_names_without_case_are_known_from_the_initialisation_on(short_folder: Path, name: str) -> None:
    paths = HostPaths.resolve()
    host = LocalHost("test-lower-case", paths.server_user)
    build = await get_build(ServerSpec(name=name), paths.cache, host)
    variables: dict[str, Scalar] = {"lower_case_table_names": 1, "innodb_page_size": "8k"}
    settings = InstanceSettings(base=dict(BASE), variables=variables)
    folder = short_folder / "disk#1"
    server = MysqldServer(build, host, folder, short_folder / "s", short_folder / "log", Credentials(), settings)
    server.own(short_folder / "s")
    await initialise(server)
    await server.start()
    try:
        async with server.control() as control:
            found = await control.variables()
        assert (found["lower_case_table_names"], found["innodb_page_size"]) == ("1", "8192")
        assert Path(found["datadir"]) == folder / "data"
    finally:
        await server.stop()
