"""The engine's test programs that need a real MariaDB or memcached; the longest are in test_engine_loads.py."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.catalogue import get_build
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.templates import initialise
from tests.server.test_engine_loads import LOADS
from tests.support.engine import Target, gate_first, run_other_tests, run_timed_tests, targets
from tests.support.engine_server import make_certificates

TARGETS = [target for target in targets() if target.needs_server]
SHORTER = [target for target in TARGETS if target.has_other_tests and target.name not in LOADS]


@pytest.mark.parametrize("target", SHORTER, ids=lambda target: target.id)
def test_the_engine_passes_its_tests_on_a_real_server(
    target: Target, programs: dict[str, tuple[Path, Path]], server_environment: dict[str, str]
) -> None:
    run_other_tests(target, programs, server_environment)


@pytest.mark.alone
@pytest.mark.parametrize("target", gate_first(TARGETS), ids=lambda target: target.id)
def test_the_engine_passes_its_tests_of_times_on_a_real_server(
    target: Target, programs: dict[str, tuple[Path, Path]], server_environment: dict[str, str]
) -> None:
    run_timed_tests(target, programs, server_environment)


ROOT_SQL = ["CREATE USER IF NOT EXISTS root@localhost", "GRANT ALL ON *.* TO root@localhost WITH GRANT OPTION"]


@pytest.mark.exhaustive
async def test_the_client_passes_its_tests_on_mysql(
    programs: dict[str, tuple[Path, Path]], real_paths: HostPaths, short_folder: Path
) -> None:
    """MySQL alone has caching_sha2_password and zstd."""
    host = LocalHost("test-engine-mysql", real_paths.server_user)
    build = await get_build(ServerSpec(name="mysql-9.7"), real_paths.cache, host)
    settings = InstanceSettings(base={"innodb_buffer_pool_size": "64M"}, init_sql=ROOT_SQL)
    log = short_folder / "server.log"
    server = MysqldServer(build, host, short_folder / "i", short_folder / "s", log, Credentials(), settings)
    server.own(short_folder / "s")
    await initialise(server)
    port = server.ensure_client_path().port
    settings.variables.update(make_certificates(short_folder / "certificates"))
    await server.start()
    environment = {
        **os.environ,
        "RUST_BACKTRACE": "0",
        "DYNO_TEST_SERVER_SOCKET": str(server.socket),
        "DYNO_TEST_SERVER_PORT": str(port),
        "DYNO_TEST_SERVER_CERTIFICATES": str(short_folder / "certificates"),
    }
    try:
        for target in [one for one in TARGETS if one.package == "dyno-mysql"]:
            await asyncio.to_thread(run_other_tests, target, programs, environment, "-mysql")
    finally:
        await server.stop()
