"""A real server, memcached and sysbench, as the engine's test programs find them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mydyno.drivers.sysbench import Sysbench
from mydyno.errors import HostError
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from tests.support.engine import example
from tests.support.other_server import START_SERVER, get_plugins, open_copy


def make_certificates(folder: Path) -> dict[str, str]:
    """Write certificates of an authority, a server and a client; returns the server's variables for them."""
    subprocess.run([example("make_certificates"), folder], check=True)
    files = {"ca": "ca.pem", "cert": "server-cert.pem", "key": "server-key.pem"}
    return {f"ssl_{name}": str(folder / file) for name, file in files.items()}


def started_by(build: ServerBuild, script: Path) -> Path:
    """A script that starts the build's program with its libraries."""
    variables = [f"{name}={value}" for name, value in build.environment.items()]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(["env", *variables, str(build.program)])} "$@"\n')
    script.chmod(0o755)
    return script


@contextmanager
def engine_server(real_paths: HostPaths, build: ServerBuild) -> Iterator[dict[str, str]]:
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
    packages = asyncio.run(DebianPackages(real_paths.cache, host).get((Sysbench.package,)))
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
