"""Folders of studies on a host that their controller lost: found unless in use, removed unless fresh."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mydyno.cli.clean import clean_here
from mydyno.hosts.identity import STARTING_TRIES
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import QUIET_S, arguments_in_use, left_studies
from tests.support.fake_host import FakeHost


def make(cache: Path, name: str, idle_s: float) -> Path:
    folder = cache / "fleet" / name
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("x" * 1000)
    for path in (folder / "plan.json", folder):
        os.utime(path, (time.time() - idle_s, time.time() - idle_s))
    return folder


def test_what_a_block_uses_is_not_left(tmp_path: Path) -> None:
    assert left_studies(tmp_path) == []
    old, used = make(tmp_path, "old", 3 * QUIET_S), make(tmp_path, "used", 3 * QUIET_S)
    command = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()", str(used)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as block:
        assert block.stdout is not None and block.stdout.readline() == b"up\n"
        (found,) = left_studies(tmp_path)
        assert (found.path, found.size_bytes, found.is_quiet) == (old, 1000, True)
        assert "unused for 30 min" in str(found)
        block.communicate()
    assert [one.path for one in left_studies(tmp_path)] == [old, used]


def test_a_process_that_is_just_starting_is_waited_for(tmp_path: Path) -> None:
    """execve empties the arguments before it sets those of the new program, and its caller may look in between."""
    for pid, arguments in (("1", b"/sbin/init\0"), ("2", b""), ("30", b""), ("31", b"")):
        process = tmp_path / "proc" / pid
        process.mkdir(parents=True)
        (process / "cmdline").write_bytes(arguments)
        (process / "environ").write_bytes(b"")
        if pid != "2":  # a kernel thread
            (process / "exe").symlink_to("/bin/true")

    class Starting(FakeHost):
        def sleep(self, duration_s: float) -> None:
            super().sleep(duration_s)
            if len(self.slept) == 3:
                (self.proc / "30/cmdline").write_bytes(b"/cache/python/old/bin/python\0-c\0")

    host = Starting(tmp_path)
    assert {"/sbin/init", "/cache/python/old/bin/python", "-c"} <= arguments_in_use(host)
    assert 3 <= len(host.slept) <= 3 + STARTING_TRIES


def test_clean_removes_old_ones_and_keeps_those_just_written(
    paths: HostPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    old, fresh = make(paths.cache, "old", 3 * QUIET_S), make(paths.cache, "fresh", 0)
    clean_here(paths)
    printed = capsys.readouterr().out
    assert f"removed {old}" in printed and f"kept {fresh}" in printed
    assert not old.exists() and fresh.is_dir()
