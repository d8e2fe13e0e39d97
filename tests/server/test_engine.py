"""The engine's test programs that need a real MariaDB, memcached or sysbench."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mydyno.drivers.sysbench import PACKAGES
from mydyno.errors import HostError
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from mydyno.servers.initialisation import initialise
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from tests.support.engine import Target, build_test_programs, example, run_other_tests, run_timed_tests, targets
from tests.support.other_server import START_SERVER, get_plugins, open_copy

TARGETS = [target for target in targets() if target.needs_server]


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[Path, Path]]:
    return build_test_programs()


def make_certificates(folder: Path) -> dict[str, str]:
    """Those of an authority, a server and a client; gives the server's variables for them."""
    subprocess.run([example("make_certificates"), folder], check=True)
    files = {"ca": "ca.pem", "cert": "server-cert.pem", "key": "server-key.pem"}
    return {f"ssl_{name}": str(folder / file) for name, file in files.items()}


def started_by(build: ServerBuild, script: Path) -> Path:
    """A script that starts the build's program with its libraries."""
    variables = [f"{name}={value}" for name, value in build.environment.items()]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(["env", *variables, str(build.program)])} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def environment(
    real_paths: HostPaths, build: ServerBuild, programs: dict[str, tuple[Path, Path]]
) -> Iterator[dict[str, str]]:
    """A running server and the variables by which the engine's tests find it, a starter of more, and sysbench."""
    folder = Path(tempfile.mkdtemp(prefix="mydyno-engine-"))
    folder.chmod(0o755)
    port = free_port()
    told = {**os.environ, **open_copy(build, folder)}
    host = LocalHost("engine", None)
    with suppress(HostError):  # the test of ed25519 says that it did not run
        plugins = asyncio.run(get_plugins(real_paths.cache, host))
        shutil.copytree(plugins, folder / "usr/lib/mysql/plugin", dirs_exist_ok=True)
    options = {"port": str(port), "performance_schema": "ON", **make_certificates(folder / "certificates")}
    words = [f"--{name}={value}" for name, value in options.items()]
    subprocess.run([START_SERVER, folder, *words], env=told, check=True, timeout=600)
    packages = asyncio.run(DebianPackages(real_paths.cache, host).get(PACKAGES))
    memcached = asyncio.run(get_build(ServerSpec(name="memcached"), real_paths.cache, host))
    sysbench = f"env LD_LIBRARY_PATH={packages.environment['LD_LIBRARY_PATH']} {packages.find('usr/bin/sysbench')}"
    server = ProcessIdentity.of(int((folder / "pid").read_text()))
    assert server is not None
    yield {
        **told,
        "RUST_BACKTRACE": "0",
        "DYNO_TEST_SERVER_SOCKET": str(folder / "s.sock"),
        "DYNO_TEST_SERVER_PORT": str(port),
        "DYNO_TEST_SERVER_CERTIFICATES": str(folder / "certificates"),
        "DYNO_TEST_SERVER_COMMAND": str(START_SERVER),
        "DYNO_TEST_MEMCACHED": str(started_by(memcached, folder / "memcached")),
        "DYNO_TEST_SYSBENCH": sysbench,
        "DYNO_TEST_SYSBENCH_SHARE": str(packages.root / "usr/share/sysbench"),
    }
    left = end_all([server], grace_s=30)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == []


@pytest.mark.parametrize("target", [one for one in TARGETS if one.has_other_tests], ids=lambda target: target.id)
def test_the_engine_passes_its_tests_on_a_real_server(
    target: Target, programs: dict[str, tuple[Path, Path]], environment: dict[str, str]
) -> None:
    run_other_tests(target, programs, environment)


@pytest.mark.alone
@pytest.mark.parametrize("target", [one for one in TARGETS if one.timed_tests], ids=lambda target: target.id)
def test_the_engine_passes_its_tests_of_times_on_a_real_server(
    target: Target, programs: dict[str, tuple[Path, Path]], environment: dict[str, str]
) -> None:
    run_timed_tests(target, programs, environment)


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
