"""A MariaDB that mydyno did not start: by tests/support/start-server, which knows nothing of mydyno's ways."""

from __future__ import annotations

import shutil
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.packages.atomic_dir import made_once
from mydyno.packages.debian import DebianPackages, unpack
from mydyno.servers.build import ServerBuild

START_SERVER = Path(__file__).with_name("start-server")


def open_copy(build: ServerBuild, folder: Path) -> dict[str, str]:
    """The variables by which start-server finds a copy of the build in the folder.

    A copy, because the cache may lie below a folder that the server's user cannot enter (root's home).
    """
    shutil.copytree(build.basedir, folder / "usr", symlinks=True)
    libraries = build.environment["LD_LIBRARY_PATH"].replace(str(build.basedir), str(folder / "usr"))
    return {"BASEDIR": str(folder / "usr"), "LIBRARIES": libraries}


async def get_plugins(cache: Path, host: LocalHost) -> Path:
    """The folder of plugins in Debian's package mariadb-server, unpacked without what it depends on (perl, galera).

    Raises HostError.
    """
    root = cache / "tests" / "mariadb-server"
    async with made_once(root) as aside:
        if not root.is_dir():
            await DebianPackages(cache, host)._download(["mariadb-server"], aside)
            await unpack(host, sorted(aside.glob("*.deb")), aside)
    return root / "usr/lib/mysql/plugin"
