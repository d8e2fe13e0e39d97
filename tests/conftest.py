from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mydyno.drivers.sysbench import Sysbench
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.debian import DebianPackages
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from mydyno.treatments.allocator import PACKAGES
from tests.support import ALL, ROOT
from tests.support.foreign_load import NotJudgedUnderForeignLoad
from tests.support.not_run import ListNotRun
from tests.support.progress import Progress
from tests.support.real import Program, lend_cache

# No deadline: the duration depends on the host. The same examples in every run but those of everything.
settings.register_profile(
    "any-host", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not ALL, database=None
)
settings.load_profile("any-host")


FIRST = (
    "tests/server/test_whole_study.py", "tests/server/test_study_files.py", "tests/web/test_browser.py",
    "tests/server/test_network.py", "tests/server/test_engine_loads.py", "tests/server/test_engine.py",
    "tests/engine/test_programs.py", "tests/release/test_packages.py", "tests/web/test_across.py",
)  # fmt: skip
"""The files that take longest: whichever process is free takes the next file. Four that need nothing which Cargo
compiles come first: the engine's test programs are compiled meanwhile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {ROOT / file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(NotJudgedUnderForeignLoad())
    config.pluginmanager.register(ListNotRun())
    if (part := os.environ.get("MYDYNO_TEST_PART")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(Path(part)))


@pytest.fixture(scope="session")
def real_paths(tmp_path_factory: pytest.TempPathFactory) -> HostPaths:
    """The common cache of packages and the real engine, with a data folder of the tests' own."""
    assert os.environ.get("MYDYNO_ENGINE"), "real servers need the engine: run the tests by ./test"
    resolved = HostPaths.resolve()
    resolved.program("dynoprobe")
    return replace(resolved, data=tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def build(real_paths: HostPaths) -> ServerBuild:
    """MariaDB 10.11 through mydyno's own catalogue."""
    host = LocalHost("tests", None)
    return asyncio.run(get_build(ServerSpec(name="mariadb-10.11"), real_paths.cache, host))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path, for sockets (sun_path holds 108 bytes), that everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="md-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def parts(real_paths: HostPaths, build: ServerBuild) -> None:
    """Everything that the tests' studies download, in the cache: where they run (see `apart`) is no network."""

    async def get() -> None:
        host = LocalHost("tests", None)
        await Sysbench().get(real_paths, host)
        for package in PACKAGES.values():
            await DebianPackages(real_paths.cache, host).get([package.package])

    asyncio.run(get())


@pytest.fixture(scope="session")
def apart(parts: None) -> Iterator[list[str]]:
    """Enters a network and a mount namespace of this test process's own where we may make them. Abstract sockets, and
    so the lock of the host's only study, live in the one: several test processes run studies at the same time. The
    other has its own /run/netns: `mydyno clean` finds no namespaces of another process's study.
    """
    if os.geteuid() != 0:
        yield []
        return
    script = "ip link set lo up; mount -t tmpfs -o mode=0755 none /run && echo made && read _"
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    made = holder.stdout.readline() == b"made\n"  # not in a container without CAP_SYS_ADMIN
    # nsenter leaves the working directory, which is taken again.
    entering = f"""exec nsenter --target {holder.pid} --net --mount sh -c 'cd "$0" && exec "$@"' "$PWD" "$@\""""
    yield ["sh", "-c", entering, "sh"] if made else []
    holder.kill()
    holder.communicate()


@pytest.fixture
def program(short_folder: Path, real_paths: HostPaths, apart: list[str]) -> Program:
    """The command, with folders of its own for studies, sockets and undo journals; data and templates are the
    session's.
    """
    cache = short_folder / "cache"
    lend_cache(real_paths.cache, cache)
    return Program(short_folder, replace(real_paths, cache=cache), apart)
