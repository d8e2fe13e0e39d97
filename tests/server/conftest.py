from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.running.workbench import Workbench, open_workbench
from mydyno.servers.build import ServerBuild
from mydyno.servers.instance import Credentials, Instance, InstanceSettings
from mydyno.servers.templates import Template, copy_template
from tests.server.support import small_experiment


@pytest.fixture(scope="session")
def template(real_settings: Settings, build: ServerBuild, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Small prepared data, made once."""

    async def make() -> Template:
        experiment = small_experiment()
        study = f"template-{os.getpid()}-x"
        bench = await open_workbench(real_settings, experiment, study, tmp_path_factory.mktemp("study"), print)
        try:
            return await bench.template(experiment.arms[0], print)
        finally:
            assert bench.close() == []

    return asyncio.run(make())


@pytest.fixture
async def bench(real_settings: Settings, template: Template, tmp_path: Path) -> AsyncIterator[Workbench]:
    """The workbench of a study on the small data."""
    made = await open_workbench(real_settings, small_experiment(), f"bench-{os.getpid()}-x", tmp_path, print)
    yield made
    assert made.close() == []


@pytest.fixture
async def instance(
    real_settings: Settings, build: ServerBuild, template: Template, short_folder: Path, tmp_path: Path
) -> AsyncIterator[Instance]:
    """A server on a copy of the small data, not yet started; stopped at the end whatever happened."""
    host = LocalHost(f"instance-{os.getpid()}-x", real_settings.server_user)
    settings = InstanceSettings(
        variables={"innodb_buffer_pool_size": "32M", "innodb_log_file_size": "8M", "max_connections": 151}
    )
    sockets = short_folder / "sockets"
    folder = real_settings.data / "instances" / tmp_path.name
    made = Instance(build, host, folder, sockets, tmp_path / "server.log", CREDENTIALS, settings)
    made.own(sockets)
    await copy_template(template, made, host)
    yield made
    await made.stop()


CREDENTIALS = Credentials()
