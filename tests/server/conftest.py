from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mydyno.execution.environments.private_environment import PrivateEnvironment, open_private_environment
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.servers.build import ServerBuild
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.templates import Template, copy_template
from tests.server.support import small_experiment
from tests.support.engine import build_test_programs
from tests.support.engine_server import engine_server


@pytest.fixture(scope="session")
def template(real_paths: HostPaths, build: ServerBuild, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Small prepared data, made once."""

    async def make() -> Template:
        experiment = small_experiment()
        study = f"template-{os.getpid()}-x"
        environment = await open_private_environment(
            real_paths, experiment, study, tmp_path_factory.mktemp("study"), print
        )
        try:
            return await environment.template(experiment.arms[0], print)
        finally:
            assert environment.close() == []

    return asyncio.run(make())


@pytest.fixture
async def environment(real_paths: HostPaths, template: Template, tmp_path: Path) -> AsyncIterator[PrivateEnvironment]:
    """The study environment of a study on the small data."""
    made = await open_private_environment(
        real_paths, small_experiment(), f"environment-{os.getpid()}-x", tmp_path, print
    )
    yield made
    assert made.close() == []


@pytest.fixture
async def instance(
    real_paths: HostPaths, build: ServerBuild, template: Template, short_folder: Path, tmp_path: Path
) -> AsyncIterator[MysqldServer]:
    """A server on a copy of the small data, not yet started; stopped at the end whatever happened."""
    host = LocalHost(f"instance-{os.getpid()}-x", real_paths.server_user)
    settings = InstanceSettings(
        variables={"innodb_buffer_pool_size": "32M", "innodb_log_file_size": "8M", "max_connections": 151}
    )
    sockets = short_folder / "sockets"
    folder = real_paths.data / "instances" / tmp_path.name
    made = MysqldServer(build, host, folder, sockets, tmp_path / "server.log", CREDENTIALS, settings)
    made.own(sockets)
    await copy_template(template, made, host)
    yield made
    await made.stop()


@pytest.fixture(scope="session")
def programs() -> dict[str, tuple[Path, Path]]:
    """The engine's test programs."""
    return build_test_programs()


@pytest.fixture(scope="module")
def server_environment(
    real_paths: HostPaths, build: ServerBuild, programs: dict[str, tuple[Path, Path]]
) -> Iterator[dict[str, str]]:
    """For the engine's test programs; see tests/support/engine_server.py."""
    with engine_server(real_paths, build) as environment:
        yield environment


CREDENTIALS = Credentials()
