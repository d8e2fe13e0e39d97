"""`mydyno servers add` with a real server: MySQL 5.6 of the catalogue, packed as its vendor packs it, and started."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.server_user import ids_of
from mydyno.model.definition.experiment import ServerSpec
from mydyno.packages.progress import silent
from mydyno.servers.catalogue import get_build, known_servers
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.sources.archive import add, read_added, remove
from mydyno.servers.templates import initialise
from tests.support.server_archive import repacked

pytestmark = pytest.mark.exhaustive

TOP = "mysql-5.6.14-linux-glibc2.5-x86_64"


async def test_a_repacked_server_is_added_started_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = HostPaths.resolve()
    host = LocalHost("test-added-server", paths.server_user)
    original = await get_build(ServerSpec(name="mysql-5.6"), paths.cache, host)
    archive = tmp_path / f"{TOP}.tar.gz"
    digest = repacked(original.basedir, archive, TOP)
    with tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder:
        Path(folder).chmod(0o755)
        cache = Path(folder) / "cache"
        cache.mkdir()
        (cache / "debian").symlink_to(paths.cache / "debian")
        monkeypatch.setenv("MYDYNO_CACHE", str(cache))
        added = await add("mine-5.6", archive, str(archive), digest, cache, host, silent)
        assert (added.title, added.sha256, added.memcached, added.huge_pages) == (
            "MySQL 5.6.14",
            digest,
            True,
            "shmget",
        )
        assert list(read_added(cache)) == ["mine-5.6"]
        assert known_servers()["mine-5.6"].version.number == (5, 6, 14)
        build = await get_build(ServerSpec(name="mine-5.6"), cache, host)
        assert build.program == cache / "servers/added/mine-5.6/tree/bin/mysqld"
        assert "innodb_buffer_pool_size" in build.variables
        sockets = Path(folder) / "s"
        sockets.mkdir()
        if paths.server_user is not None:
            os.chown(sockets, *ids_of(paths.server_user))
        instance = MysqldServer(
            build, host, Path(folder) / "i", sockets, Path(folder) / "server.log", Credentials(),
            InstanceSettings(base={"innodb_buffer_pool_size": "32M", "innodb_log_file_size": "8M"}),
        )  # fmt: skip
        await initialise(instance)
        await instance.start()
        try:
            assert (await instance.reported_version()).startswith("5.6.14")
        finally:
            await instance.stop()
        remove("mine-5.6", cache)
        assert read_added(cache) == {}
        assert not (cache / "servers/added/mine-5.6").exists()
