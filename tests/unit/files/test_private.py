"""What root writes for another user: no link of that user leads it elsewhere, and no file of root's is given away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.drivers.dynoload import OltpArguments
from mydyno.errors import HostError
from mydyno.execution.environments.environment import make_folders
from mydyno.execution.environments.probe import Probe
from mydyno.files.atomic import check_surroundings, give_all, make_folder, new_file, write_private, write_text
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.certificates import make_certificates
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.server_version import ServerVersion
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.servers.sql import Address
from mydyno.servers.templates import Template, copy_template

NOBODY = (65534, 65534)
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", sys.executable, "-c"]
ROUNDS = 200
PLANTING = """
import os, sys
for path in sys.argv[3:] * int(sys.argv[2]):
    for make in (os.symlink, lambda victim, at: os.mkdir(at)):
        try:
            make(sys.argv[1], path)
        except OSError:
            pass
        try:
            os.unlink(path)
        except OSError:
            try:
                os.rmdir(path)
            except OSError:
                pass
    if not os.path.exists(path):
        try:
            os.symlink(sys.argv[1], path)
        except OSError:
            pass
"""
FILLING = """
import itertools, os, sys
victim, data = sys.argv[1:]
def attempt(make, *names):
    try:
        make(*names)
    except OSError:
        pass
for number in itertools.count():
    attempt(os.mkdir, f"{data}/data")
    attempt(os.symlink, victim, f"{data}/data/ibdata1")
    attempt(os.mkdir, f"{data}/{number}")
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def victim(short_folder: Path) -> Iterator[Path]:
    """A file of the present user's; unchanged at the end."""
    path = short_folder / "victim"
    path.write_text("mine")
    path.chmod(0o600)
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_text() == "mine"
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def plant(victim: Path, *places: Path, rounds: int = 1) -> subprocess.Popen[bytes]:
    """A process of nobody that puts links to the victim, and folders, in these places again and again."""
    return subprocess.Popen([*AS_NOBODY, PLANTING, str(victim), str(rounds), *map(str, places)])


@pytest.mark.parametrize("place", ["my.cnf", "control.password", "dynoload.password", "server-key.pem", "x.json"])
def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(
    short_folder: Path, victim: Path, place: str
) -> None:
    (short_folder / place).symlink_to(victim)
    match place:
        case "my.cnf":
            write_private(short_folder / place, b"new", NOBODY if os.geteuid() == 0 else None)
        case "control.password":
            host = LocalHost("private", None)
            probe = Probe(host, Path("/nowhere"), [("1:-", b"secret")], short_folder, short_folder, short_folder)
            probe.write_passwords()
        case "dynoload.password":
            OltpArguments().endpoint(Address(user="dyno", password=b"secret", socket="/s"), short_folder)
        case "server-key.pem":
            make_certificates(short_folder, "ecdsa-p256", ["127.0.0.1"])
        case _:
            (short_folder / f".{place}.{os.getpid()}.new").symlink_to(victim)
            write_text(short_folder / place, "new")
    assert not (short_folder / place).is_symlink()
    assert (short_folder / place).stat().st_size > 0


def test_a_link_is_no_folder_and_a_folder_no_file(short_folder: Path, victim: Path) -> None:
    (short_folder / "folder").mkdir()
    (short_folder / "link").symlink_to(short_folder / "folder")
    with pytest.raises(HostError, match="is a link, not a folder"):
        make_folder(short_folder / "link")
    with pytest.raises(HostError, match="another program put"):
        new_file(short_folder / "folder")


@as_root
def test_the_servers_user_may_put_nothing_beside_what_root_writes(short_folder: Path, victim: Path) -> None:
    paths = HostPaths(short_folder / "cache", short_folder / "data", Path("/nowhere"), "nobody")
    undo = UndoJournal.begin(paths.undo, "study", short_folder)
    data, sockets = make_folders(paths, "study", undo)
    try:
        assert sockets.parent != data
        assert make_folders(paths, "study", undo)[0] != data, "another study of that name has a folder of its own"
        for folder in (data, sockets):
            assert plant(victim, folder / "control.password").wait() == 0
            assert list(folder.iterdir()) == []
            assert folder.stat().st_uid == 0
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o750
        assert str(os.getpid()) not in sockets.name
    finally:
        assert undo.undo_all() == []
    assert not sockets.exists() and not data.exists()


@as_root
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o755), (0, 0o777), (0, 0o775)])
def test_a_folder_that_the_servers_user_can_change_is_not_used(short_folder: Path, owner: int, mode: int) -> None:
    disk = short_folder / "disk"
    disk.mkdir()
    disk.chmod(mode)
    os.chown(disk, owner, 65534 if mode == 0o775 else 0)
    paths = HostPaths(short_folder / "cache", disk / "data", Path("/nowhere"), "nobody")
    with pytest.raises(HostError, match="can be changed by the user that servers run as"):
        make_folders(paths, "study", UndoJournal.begin(paths.undo, "study", short_folder))
    assert list(disk.iterdir()) == []
    disk.chmod(0o1777)
    os.chown(disk, 0, 0)
    check_surroundings(replace(paths, data=disk / "data").data, NOBODY)


@as_root
def test_links_planted_in_a_loop_change_no_file_of_roots(short_folder: Path, victim: Path) -> None:
    """In a folder where anyone may write, as /tmp: each attempt succeeds, or is refused by name."""
    shared = short_folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    places = [shared / "my.cnf", shared / "data"]
    process = plant(victim, *places, rounds=50 * ROUNDS)
    written = 0
    try:
        for _ in range(ROUNDS):
            with suppress(HostError, OSError):
                write_private(places[0], b"theirs", NOBODY)
                written += 1
            with suppress(HostError, OSError):
                make_folder(places[1], NOBODY)
            with suppress(HostError, OSError):
                write_text(places[0], "theirs")
        assert written > 0
    finally:
        process.kill()
        process.wait()


@as_root
async def test_what_a_servers_program_left_running_is_not_copied_into(short_folder: Path, victim: Path) -> None:
    """It can keep its data folder from being removed: root's next copy must not go where it puts links."""
    template = Template(short_folder / "template", 4096)
    template.data.mkdir(parents=True)
    (template.data / "ibdata1").write_text("theirs")
    build: Any = SimpleNamespace(version=ServerVersion.parse("9.7.0"), variables=frozenset())
    host = LocalHost("study", "nobody")
    log, folder = short_folder / "log", short_folder / "server"
    instance = MysqldServer(build, host, folder, short_folder, log, Credentials(), InstanceSettings())
    instance.make_folders("data")
    process = subprocess.Popen([*AS_NOBODY, FILLING, str(victim), str(instance.data)])
    try:
        while not (instance.data / "data/ibdata1").is_symlink() and process.poll() is None:
            continue
        with suppress(HostError):
            await copy_template(template, instance, host)
    finally:
        process.kill()
        process.wait()


@as_root
def test_a_whole_folder_is_given_away_but_not_what_its_links_lead_to(short_folder: Path, victim: Path) -> None:
    folder = short_folder / "data"
    (folder / "mysql" / "deep").mkdir(parents=True)
    (folder / "mysql" / "deep" / "table.ibd").touch()
    (folder / "mysql" / "file").symlink_to(victim)
    (folder / "elsewhere").symlink_to(short_folder)
    give_all(folder, NOBODY)
    for path in (folder, *folder.rglob("*")):
        assert (path.lstat().st_uid, path.lstat().st_gid) == NOBODY, path
    assert victim.stat().st_uid == short_folder.stat().st_uid == 0
