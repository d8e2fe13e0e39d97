"""A real MariaDB 10.11 of our own: started, ready, stopped; failures carry the server's own words."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.errors import ServerError, UserError
from mydyno.execution.environments.builds import check_variables
from mydyno.execution.environments.private_environment import PrivateEnvironment
from mydyno.hosts.limits import open_files
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.build import ServerBuild, find_build
from mydyno.servers.catalogue import get_build
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sources.archive import unpacked
from mydyno.servers.sql import Address, Control
from mydyno.servers.templates import Template, initialise, template_key
from tests.server.support import small_experiment
from tests.support.patience import HANG_S, Patience


async def test_a_server_starts_answers_and_stops(instance: MysqldServer) -> None:
    await instance.start()
    record = await instance.record()
    assert record.version.startswith("10.11.")
    assert record.flavour == "mariadb"
    assert (record.variables["innodb_buffer_pool_size"], record.variables["skip_networking"]) == ("33554432", "ON")
    assert record.open_files == open_files()
    assert await instance.stop() is None
    assert "Shutdown complete" in instance.log.read_text()
    assert instance.process is not None
    assert instance.process.exit_code == 0


async def test_a_server_has_named_time_zones(instance: MysqldServer) -> None:
    instance.settings.variables["default_time_zone"] = "Europe/Berlin"
    await instance.start()
    async with instance.control() as control:
        times = await control.rows(
            "SELECT CAST(CONVERT_TZ('2026-07-01 12:00:00', 'UTC', 'America/New_York') AS CHAR), "
            "CAST(FROM_UNIXTIME(0) AS CHAR), CAST(CONVERT_TZ('2036-01-01 12:00:00', 'Asia/Tokyo', 'UTC') AS CHAR)"
        )
    assert times == [("2026-07-01 08:00:00", "1970-01-01 01:00:00", "2036-01-01 03:00:00")]
    await instance.stop()


async def test_a_statement_that_nobody_waits_for_any_more_is_killed(instance: MysqldServer) -> None:
    await instance.start()
    long = "SELECT SLEEP(600)"
    async with instance.control() as control:

        async def wait_for(count: int) -> None:
            question = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = %s"
            patience = Patience(30)
            while int(await control.scalar(question, long)) != count:
                assert not patience.expired
                await asyncio.sleep(0.02)

        async with Control(instance.address(), timeout_s=1) as impatient:
            with pytest.raises(ServerError, match="timed out"):
                await impatient.rows(long)
        await wait_for(0)
        async with instance.control(unbounded=True) as patient:
            waiting = asyncio.ensure_future(patient.rows(long))
            await wait_for(1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await wait_for(0)


async def test_mydynos_accounts_are_the_only_ones_and_need_their_passwords(instance: MysqldServer) -> None:
    await instance.start()
    async with instance.control() as control:
        users = {str(user) for (user,) in await control.rows("SELECT DISTINCT User FROM mysql.user")}
        assert users == {"mydyno", "dyno", "mariadb.sys"}
        assert await control.scalar("SELECT COUNT(*) FROM sbtest.sbtest1") == 2000
    for user in ("mydyno", "dyno", "root"):
        with pytest.raises(ServerError, match="Access denied"):
            async with Control(Address(user=user, password=b"", socket=str(instance.socket))):
                pass
    async with Control(instance.address(LOAD_USER, "sbtest")) as load:
        with pytest.raises(ServerError, match=r"command denied|Access denied"):
            await load.rows("SELECT * FROM mysql.user")


async def test_the_server_never_runs_as_root(instance: MysqldServer, real_paths: HostPaths) -> None:
    await instance.start()
    status = Path(f"/proc/{instance.pid}/status").read_text()
    uids = re.search(r"^Uid:\s+(.+)$", status, re.MULTILINE)
    groups = re.search(r"^Groups:[ \t]*(.*)$", status, re.MULTILINE)
    assert uids is not None
    assert groups is not None
    assert "0" not in uids[1].split()
    assert os.geteuid() != 0 or groups[1].strip() == ""
    capabilities = re.search(r"^CapEff:\s+(\w+)$", status, re.MULTILINE)
    assert capabilities is not None
    assert int(capabilities[1], 16) == 0


async def test_passwords_are_neither_in_the_process_list_nor_in_a_file(instance: MysqldServer) -> None:
    await instance.start()
    listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
    words = (instance.credentials.control, instance.credentials.load)
    assert not any(word in listed for word in words)
    files = [path for path in instance.folder.glob("*") if path.is_file()]
    assert files
    assert not any(word.encode() in path.read_bytes() for path in files for word in words)
    assert all(word not in repr(instance.credentials) for word in words)


async def test_a_variable_that_the_server_does_not_know_is_told_with_its_log(instance: MysqldServer) -> None:
    instance.settings.variables["innodb_bufer_pool_size"] = "1G"
    with pytest.raises(ServerError, match=r"ended with exit code \d+") as error:
        await instance.start()
    assert "error log: " in error.value.message
    assert "unknown variable 'innodb_bufer_pool_size=1G'" in error.value.message


async def test_variables_are_checked_before_anything_is_started(environment: PrivateEnvironment) -> None:
    arms = 'control = "a"\na = { variables = { innodb_bufer_pool_size = "1G" } }\n'
    with pytest.raises(UserError) as error:
        await check_variables({"a": environment.builds["glibc"]}, small_experiment(arms), environment.host)
    assert "arms.a.variables.innodb_bufer_pool_size: MariaDB 10.11" in error.value.message
    assert "did you mean 'innodb_buffer_pool_size'?" in error.value.message
    assert "max_connections" in environment.builds["glibc"].variables


async def test_a_port_that_is_taken_is_told_with_the_servers_log(instance: MysqldServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        instance.port = taken.getsockname()[1]
        with pytest.raises(ServerError, match="Address already in use"):
            await instance.start()
    assert await instance.stop() is not None, "a server that had died already is said to have"


async def test_a_server_on_a_port_listens_on_loopback_alone(instance: MysqldServer) -> None:
    instance.port = port = free_port()
    await instance.start()
    address = Address(user="dyno", password=instance.credentials.load.encode(), host="127.0.0.1", port=port)
    async with Control(address) as control:
        assert await control.scalar("SELECT @@bind_address") == "127.0.0.1"


async def test_a_socket_that_another_server_uses_is_never_taken_for_ours(instance: MysqldServer) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        instance.own(instance.socket.parent)
        other.bind(str(instance.socket))
        instance.socket.chmod(0o777)
        other.listen()
        other.settimeout(0.1)
        with pytest.raises(ServerError, match=r"error log: .*(already|in use|bind|Bind)"):
            await instance.start()


async def test_a_broken_data_directory_is_told_with_the_servers_log(instance: MysqldServer) -> None:
    with (instance.data / "ibdata1").open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(ServerError) as error:
        await instance.start()
    assert "error log: " in error.value.message
    assert "ibdata1" in error.value.message


async def test_a_server_that_died_says_so_when_stopped(instance: MysqldServer) -> None:
    await instance.start()
    os.kill(instance.pid, signal.SIGKILL)
    assert instance.process is not None
    await instance.process.wait(HANG_S)
    assert "had ended with exit code -9" in str(await instance.stop())


async def test_a_start_that_is_cancelled_leaves_no_server(instance: MysqldServer) -> None:
    starting = asyncio.ensure_future(instance.start())
    while instance.process is None:
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert instance.process.exit_code is not None
    assert not (instance.folder / "init.sql").exists(), "it holds passwords"


async def test_initialisation_that_fails_gives_the_scripts_own_words(instance: MysqldServer) -> None:
    instance.settings.variables["innodb_data_file_path"] = "nonsense"
    with pytest.raises(ServerError, match="failed with exit code"):
        await initialise(instance)


async def test_a_base_directory_is_a_server_like_any_other(build: ServerBuild, real_paths: HostPaths) -> None:
    host = LocalHost("basedir", real_paths.server_user)
    found = await find_build("mine", build.basedir, host, build.environment)
    assert found.program == build.program
    assert found.version.name == build.version.name


async def test_a_vendors_archive_is_unpacked_once_and_is_a_server(
    build: ServerBuild, tmp_path: Path, short_folder: Path
) -> None:
    archive = short_folder / "mariadb-10.11-linux.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as made:
        for folder in ("bin", "sbin", "share/mysql"):
            made.add(build.basedir / folder, f"mariadb-10.11-linux/{folder}")
    host = LocalHost("tarball", None)
    root = await unpacked(archive, tmp_path)
    assert root.name == "mariadb-10.11-linux"
    found = await find_build("mine", root, host, build.environment)
    assert found.version.name == build.version.name
    marker = root / "marker"
    marker.touch()
    assert await unpacked(archive, tmp_path) == root
    assert marker.exists(), "the second time nothing is unpacked"


async def test_an_archive_cut_short_is_the_users_mistake_and_leaves_nothing(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.tar.gz", tmp_path / "cut.tar.gz"
    (tmp_path / "file").write_bytes(os.urandom(100_000))
    with tarfile.open(whole, "w:gz") as made:
        made.add(tmp_path / "file", "server/file")
    cut.write_bytes(whole.read_bytes()[:50_000])
    with pytest.raises(UserError, match=r"cut\.tar\.gz cannot be unpacked"):
        await get_build(ServerSpec(basedir=str(cut)), tmp_path / "cache", LocalHost("tarball", None))
    assert not [path for path in (tmp_path / "cache/servers").iterdir() if path.is_dir()]


async def test_a_base_directory_without_a_server_is_the_users_mistake(tmp_path: Path, build: ServerBuild) -> None:
    host = LocalHost("basedir", None)

    async def refused(words: str) -> None:
        with pytest.raises(UserError, match=words):
            await get_build(ServerSpec(basedir=str(tmp_path / "server")), tmp_path, host)

    await refused("is neither a folder nor a tar archive")
    (tmp_path / "server/bin").mkdir(parents=True)
    await refused("no mysqld or mariadbd in")
    program = tmp_path / "server/bin/mysqld"
    program.write_text("#!/bin/sh\necho PostgreSQL seventeen\n")
    program.chmod(0o755)
    await refused(r"no share/…/english/errmsg\.sys")
    (tmp_path / "server/share/english").mkdir(parents=True)
    (tmp_path / "server/share/english/errmsg.sys").touch()
    await refused("no version number in")
    program.write_text("#!/bin/sh\necho cannot find libssl >&2; exit 127\n")
    await refused("does not start: cannot find libssl")


def test_a_rebuilt_server_does_not_use_the_data_of_the_one_before(
    build: ServerBuild, template: Template, tmp_path: Path
) -> None:
    data = small_experiment().data
    program = tmp_path / "mariadbd"
    program.write_bytes(b"one")
    first = template_key(_with_program(build, program), {}, "oltp", data.model_dump())
    assert first == template_key(_with_program(build, program), {}, "oltp", data.model_dump())
    program.write_bytes(b"other")
    assert first != template_key(_with_program(build, program), {}, "oltp", data.model_dump())
    assert first != template_key(_with_program(build, program), {"innodb_page_size": "8k"}, "oltp", data.model_dump())


def _with_program(build: ServerBuild, program: Path) -> ServerBuild:
    return replace(build, program=program)
