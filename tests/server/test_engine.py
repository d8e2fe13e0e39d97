"""The engine's own tests, all crates, against a real MariaDB and the real sysbench."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mydyno.drivers.sysbench import PACKAGES
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import ServerSpec
from mydyno.parts.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from tests.support.other_server import START_SERVER, open_copy
from tests.support.real import ROOT

ENGINE = ROOT / "engine"
CARGO_TEST = ["cargo", "test", "--locked", "--quiet"]


def target_name(package: str, target: dict[str, Any]) -> str:
    return f"{package}-{target['kind'][0]}-{target['name']}"


def targets_with_tests() -> list[str]:
    """Of Cargo's own knowledge, before anything is built: one test of ours for each, that each can be tried again."""
    command = ["cargo", "metadata", "--no-deps", "--format-version=1", "--locked"]
    told = json.loads(subprocess.run(command, cwd=ENGINE, capture_output=True, check=True).stdout)
    packages = [(package["name"], target) for package in told["packages"] for target in package["targets"]]
    return sorted(target_name(package, target) for package, target in packages if target["test"])


TARGETS = targets_with_tests()


@pytest.fixture(scope="module")
def executables() -> dict[str, tuple[Path, Path]]:
    """{target's name: (its tests' executable, the folder where Cargo would run it)}, all built."""
    command = [*CARGO_TEST, "--no-run", "--message-format=json"]
    told = {"CARGO_TARGET_DIR": str(ENGINE / "target"), **os.environ}
    built = subprocess.run(command, cwd=ENGINE, env=told, capture_output=True, text=True, timeout=1500, check=False)
    assert built.returncode == 0, built.stderr
    found = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            found[target_name(folder.name, message["target"])] = (Path(message["executable"]), folder)
    return found


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
def environment(real_settings: Settings, build: ServerBuild) -> Iterator[dict[str, str]]:
    """A running server and the variables by which the engine's tests find it, a starter of more, and sysbench."""
    folder = Path(tempfile.mkdtemp(prefix="mydyno-engine-"))
    folder.chmod(0o755)
    port = free_port()
    told = {**os.environ, **open_copy(build, folder)}
    subprocess.run(
        [START_SERVER, folder, f"--port={port}", "--performance-schema=ON"], env=told, check=True, timeout=120
    )
    packages = asyncio.run(DebianPackages(real_settings.cache, LocalHost("engine", None)).get(PACKAGES))
    memcached = asyncio.run(get_build(ServerSpec(name="memcached"), real_settings.cache, LocalHost("engine", None)))
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


def run_aloud(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Fails with what it printed; what it did not run is told past pytest's capture, and must not be for want of us."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    not_run = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("NOT RUN")]
    print("\n".join(["", *not_run]) if not_run else "", end="", file=sys.__stderr__)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert not any(f": {name} is not set" in line for line in not_run for name in environment)


def test_every_target_with_tests_is_among_those_below(executables: dict[str, tuple[Path, Path]]) -> None:
    assert sorted(executables) == sorted(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_engine_passes_its_tests_on_a_real_server(
    target: str, executables: dict[str, tuple[Path, Path]], environment: dict[str, str]
) -> None:
    executable, folder = executables[target]
    run_aloud([str(executable), "--test-threads=2"], folder, environment)


def test_the_examples_of_the_documentation_compile(environment: dict[str, str]) -> None:
    run_aloud([*CARGO_TEST, "--doc"], ENGINE, environment)
