"""What other versions left in the cache: all but what is used, and never a folder that is half removed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mydyno.hosts.undo import old_versions, privileged_files, remove_version, take_privileges


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for name in ("engine/now", "engine/old", "python/now", "python/old", "python/unfinished"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/program").write_bytes(b"x" * 5000)
        if name != "python/unfinished":
            (tmp_path / name / ".complete").touch()
    (tmp_path / "engine/target").mkdir()
    return tmp_path


def names(cache: Path) -> dict[str, bool]:
    """Folder below the cache → whether it is used."""
    found = old_versions(cache, cache / "engine/now/bin", cache / "python/now")
    return {str(one.path.relative_to(cache)): one.is_used for one in found}


def test_everything_is_old_but_this_engine_and_environment_and_what_is_being_made(cache: Path) -> None:
    assert names(cache) == {"engine/old": False, "python/old": False, "engine/target": False}
    sizes = [one.size_bytes for one in old_versions(cache, cache / "engine/now/bin", cache / "python/now")]
    assert sizes[0] >= 5000


def test_a_version_that_runs_is_used(cache: Path) -> None:
    program = cache / "python/old/bin/python"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE) as running:
        assert names(cache)["python/old"]
        assert running.stdin is not None
        running.stdin.write(b"\n")
    assert not names(cache)["python/old"]


def test_build_files_are_used_while_an_engine_is_built(cache: Path) -> None:
    (cache / "engine/new.lock").touch()
    assert names(cache)["engine/target"]


def test_a_removed_version_is_gone(cache: Path) -> None:
    (first, *_) = old_versions(cache, cache / "engine/now/bin", cache / "python/now")
    assert remove_version(first) is None
    assert not first.path.exists()
    assert (cache / "engine/now/.complete").exists()


def test_files_of_earlier_archives_lose_what_others_could_use(cache: Path) -> None:
    programs = cache / "debian/openssh-server/usr/lib"
    programs.mkdir(parents=True)
    (cache / "servers/mysql/bin").mkdir(parents=True)
    ordinary, set_id = programs / "sftp-server", programs / "ssh-keysign"
    for path, mode in ((ordinary, 0o755), (set_id, 0o4755), (cache / "servers/mysql/bin/mysqld", 0o2755)):
        path.write_bytes(b"x")
        path.chmod(mode)
    (programs / "outside").symlink_to("/usr/bin")
    device = cache / "servers/mysql/disk"
    if os.geteuid() == 0:
        os.mknod(device, 0o666 | stat.S_IFBLK, os.makedev(7, 99))
    found = privileged_files(cache)
    assert set(found) == {set_id, cache / "servers/mysql/bin/mysqld", *([device] if device.exists() else [])}
    for path in found:
        take_privileges(path)
    assert privileged_files(cache) == []
    assert stat.S_IMODE(set_id.stat().st_mode) == 0o755
    assert not device.exists()
