"""Servers that mydyno did not start: MariaDB by tests/support/start-server, MySQL by its own program; their studies."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pymysql

from mydyno.files.atomic import made_once
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.packages.debian import DebianPackages, unpack
from mydyno.servers.build import ServerBuild
from tests.support.patience import HANG_S, wait_until
from tests.support.processes import has_ended

START_SERVER = Path(__file__).with_name("start-server")
STUDY = """
name = "external-{pid}"
question = "What does it cost?"
validity = {{ steal = "99%", driver_cpu = 1 }}
{top}
[arms]
{arms}
[[steps]]
{step}
warmup = "0s"
[design]
blocks = 2
cycles = 3
slice = "0.4s"
washout = "0.1s"
quiet_wait = "0s"
"""
SMALL = "data = { tables = 1, rows = 2000 }"
READ_ONLY = 'workload = "oltp_read_only"\nconnections = 2\nmeasure = "1s"'


def study_text(arms: str, step: str = READ_ONLY, *, dsn: str = "", top: str = SMALL) -> str:
    """A short study; its name is unique to this test process. `dsn`: of the server of all arms."""
    place = f'server.dsn = "{dsn}"\n{top}' if dsn else top
    return STUDY.format(pid=os.getpid(), top=place, arms=arms, step=step)


@dataclass(frozen=True)
class OtherServer:
    """It runs, with an empty schema sbtest that all rights of bench are for."""

    port: int
    socket: Path
    folder: Path
    """Which the server's user may enter."""

    def sql(self, *statements: str) -> list[tuple[object, ...]]:
        """The rows of the last statement."""
        with (
            closing(pymysql.connect(user="root", unix_socket=str(self.socket), autocommit=True)) as root,
            root.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())


@contextmanager
def other_server(build: ServerBuild, identified: str, *options: str) -> Iterator[OtherServer]:
    """A server with these options; `identified`: what follows the name of the account bench."""
    # Not in a test's own folder, which the server's user cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="mydyno-test-"))
    folder.chmod(0o755)
    port, server = free_port(), folder / "server"
    try:
        environment = {**os.environ, **open_copy(build, folder)}
        subprocess.run(
            [START_SERVER, server, "--port", str(port), *options], env=environment, check=True, timeout=HANG_S
        )
        made = OtherServer(port, server / "s.sock", folder)
        made.sql(
            f"CREATE USER bench {identified}",
            "GRANT ALL ON sbtest.* TO bench",
            "DELETE FROM mysql.global_priv WHERE User = ''",
            "FLUSH PRIVILEGES",
            "CREATE DATABASE sbtest",
        )
        yield made
    finally:
        with suppress(OSError, ValueError):
            pid = int((server / "pid").read_text())
            os.kill(pid, 9)
            assert wait_until(lambda: has_ended(pid))
        shutil.rmtree(folder)


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
            await unpack(sorted(aside.glob("*.deb")), aside)
    return root / "usr/lib/mysql/plugin"


@contextmanager
def other_mysql(build: ServerBuild, identified: str, *options: str) -> Iterator[OtherServer]:
    """A MySQL that initialises itself, with TLS by its own certificates; otherwise as other_server()."""
    with (
        tempfile.TemporaryDirectory(prefix="mydyno-test-") as folder,
        _mysql_in(Path(folder), build, identified, *options) as server,
    ):
        yield server


@contextmanager
def _mysql_in(folder: Path, build: ServerBuild, identified: str, *options: str) -> Iterator[OtherServer]:
    folder.chmod(0o755)
    port, socket, error_log = free_port(), folder / "s.sock", folder / "error.log"
    shutil.copytree(build.basedir, folder / "base", symlinks=True)
    as_user = []
    if os.geteuid() == 0:
        as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        shutil.chown(folder, "nobody")
    libraries = folder / "libraries"
    for number, path in enumerate(build.environment["LD_LIBRARY_PATH"].split(":")):
        shutil.copytree(path, libraries / str(number), symlinks=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries.iterdir()))}
    command = [
        *as_user, str(folder / "base" / build.program.relative_to(build.basedir)), "--no-defaults",
        f"--basedir={folder}/base", f"--datadir={folder}/data", "--innodb-log-file-size=8M", "--mysqlx=OFF",
    ]  # fmt: skip
    with error_log.open("wb") as log:
        subprocess.run([*command, "--initialize-insecure"], env=environment, stderr=log, check=True, timeout=HANG_S)
        server = subprocess.Popen(
            [*command, f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1", *options],
            env=environment, stderr=log,
        )  # fmt: skip
    try:
        assert wait_until(lambda: f"port: {port}" in error_log.read_text()), error_log.read_text()
        made = OtherServer(port, socket, folder)
        made.sql(f"CREATE USER bench {identified}", "CREATE DATABASE sbtest", "GRANT ALL ON sbtest.* TO bench")
        yield made
    finally:
        server.kill()
        server.wait()
