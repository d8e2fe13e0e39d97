"""The engine's test programs that need a real MariaDB, memcached or sysbench."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.drivers.sysbench import PACKAGES
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from tests.support.engine import Target, build_test_programs, run_other_tests, run_timed_tests, targets
from tests.support.other_server import START_SERVER, open_copy

TARGETS = [target for target in targets() if target.needs_server]


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[Path, Path]]:
    return build_test_programs()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started_by(build: ServerBuild, script: Path) -> Path:
    """A script that starts the build's program with its libraries."""
    variables = [f"{name}={value}" for name, value in build.environment.items()]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(["env", *variables, str(build.program)])} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def environment(real_paths: HostPaths, build: ServerBuild) -> Iterator[dict[str, str]]:
    """A running server and the variables by which the engine's tests find it, a starter of more, and sysbench."""
    folder = Path(tempfile.mkdtemp(prefix="mydyno-engine-"))
    folder.chmod(0o755)
    port = free_port()
    told = {**os.environ, **open_copy(build, folder)}
    subprocess.run(
        [START_SERVER, folder, f"--port={port}", "--performance-schema=ON"], env=told, check=True, timeout=120
    )
    packages = asyncio.run(DebianPackages(real_paths.cache, LocalHost("engine", None)).get(PACKAGES))
    memcached = asyncio.run(get_build(ServerSpec(name="memcached"), real_paths.cache, LocalHost("engine", None)))
    sysbench = f"env LD_LIBRARY_PATH={packages.environment['LD_LIBRARY_PATH']} {packages.find('usr/bin/sysbench')}"
    server = ProcessIdentity.of(int((folder / "pid").read_text()))
    assert server is not None
    yield {
        **told,
        "RUST_BACKTRACE": "0",
        "DYNO_TEST_SERVER_SOCKET": str(folder / "s.sock"),
        "DYNO_TEST_SERVER_PORT": str(port),
        "DYNO_TEST_SERVER_COMMAND": str(START_SERVER),
        "DYNO_TEST_MEMCACHED": str(started_by(memcached, folder / "memcached")),
        "DYNO_TEST_SYSBENCH": sysbench,
        "DYNO_TEST_SYSBENCH_SHARE": str(packages.root / "usr/share/sysbench"),
    }
    assert end_all([server], grace_s=30) == []
    shutil.rmtree(folder)


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
