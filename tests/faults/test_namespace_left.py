"""kill -9 in the middle of a run leaves a network namespace; `doctor` names it, `clean` removes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mydyno.hosts.lock import study_lock
from mydyno.hosts.network.namespace import make_namespace, namespace_path, remove_namespace
from mydyno.hosts.root import HERE
from tests.support.network_study import NetworkStudy, means_or_words, network_study
from tests.support.patience import HANG_S, wait_until
from tests.support.processes import state
from tests.support.real import STUDY_LOCK

EXPERIMENT = """
name = "netfault"
question = "What does kill -9 leave?"
server.name = "mariadb-10.11"
server.variables = { innodb_buffer_pool_size = "64M" }
data = { tables = 1, rows = 1000 }
[arms]
control = "link"
link = { network = "100mbit" }
same = { network = "100mbit" }
[[steps]]
workload = "oltp_read_only"
connections = 2
warmup = "30s"
measure = "60s"
driver = "dynoload"
[design]
blocks = 1
"""


def kill_under_load(study: NetworkStudy) -> None:
    """Start, let it stop itself as the first slice begins, kill -9."""
    process = study.start("run", str(study.file), "--studies", str(study.studies), stop_at="warm-up")
    with process:
        assert wait_until(lambda: state(process.pid) == "T" or process.poll() is not None, 180)
        assert process.poll() is None, process.stdout and process.stdout.read()
        process.kill()


def test_clean_removes_the_namespaces_of_a_killed_study(apart: list[str]) -> None:
    if not means_or_words():
        return
    with network_study("netfault", EXPERIMENT, apart) as study:
        kill_under_load(study)
        assert wait_until(lambda: not study.processes()), "server and load die with mydyno"
        left = study.namespaces()
        ends = [match[1] for path in left if (match := re.search(r"-(load|server)(-\d+)?$", path.name))]
        assert sorted(ends) == ["load"] * 3 + ["server"] * 3, "two for each server of the block"
        assert all(study.entering("mountpoint", "--quiet", str(path)).returncode == 0 for path in left)
        _, told = study.finish("doctor")
        assert left[0].name in told
        assert "mydyno clean removes them" in " ".join(told.split())
        exit_code, words = study.finish("clean")
        assert exit_code == 0, words
        assert study.namespaces() == []
        assert "mydyno-netfault" not in study.entering("cat", "/proc/self/mounts").stdout
        assert list((study.cache / "undo").glob("*")) == []


@pytest.mark.alone  # it would remove the namespaces of a study that begins just then
def test_clean_removes_a_namespace_whose_journal_is_gone_and_leaves_others_alone() -> None:
    if not means_or_words():
        return
    orphan = namespace_path(f"netfault-{os.getpid()}-gone", "server")
    foreign = HERE.netns / f"not-of-mydyno-{os.getpid()}"
    make_namespace(orphan)
    try:
        with network_study("netfault", EXPERIMENT) as study:
            foreign.touch()
            _, told = study.finish("doctor")
            assert orphan.name in told
            with study_lock("a study of somebody else's", f"\0{STUDY_LOCK}"):
                process = study.start("clean")
                words, _ = process.communicate(timeout=HANG_S)
                assert process.returncode == 1
                assert "another study is running on this host" in words
                assert orphan.exists()
            exit_code, words = study.finish("clean")
            assert exit_code == 0, words
            assert f"removed the network namespace {orphan.name}" in words
            assert not orphan.exists()
            assert foreign.exists()
    finally:
        foreign.unlink(missing_ok=True)
        if not orphan.exists():  # the last one takes the folder and its mount with it
            make_namespace(orphan)
        remove_namespace({"path": str(orphan)})


def in_mount_namespace(lines: str) -> str:
    """What a program prints that runs with mounts of its own, in which /run/netns is nobody's yet."""
    program = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nfrom mydyno.hosts.network.namespace import *\nimport subprocess\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    # Whoever has used `ip netns` on this host since it started has left a mount over the folder, maybe with namespaces.
    hidden = 'while umount --recursive /run/netns 2>/dev/null; do :; done; mount -t tmpfs none /run && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hidden, "sh", sys.executable, "-c"]
    done = subprocess.run(
        [*command, program + lines, source], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IP = """
def ip(*words):
    subprocess.run(["ip", "netns", *words], check=True)
def mounts():
    return [line for line in open("/proc/self/mountinfo") if "/run/netns" in line]
server, load = namespace_path("covered", "server"), namespace_path("covered", "load")
"""


def test_namespaces_of_others_neither_cover_ours_nor_go_with_them() -> None:
    if not means_or_words():
        return
    told = in_mount_namespace(
        IP + "make_namespace(server); make_namespace(load); ip('add', 'other')\n"
        "print(HERE.command([*entering(server), 'ip', '-brief', 'link']).split()[0])\n"
        "print([remove_namespace({'path': str(one)}) for one in (server, load)], os.listdir(HERE.netns))\n"
        "ip('delete', 'other'); make_namespace(server); print(remove_namespace({'path': str(server)}))\n"
        "print(HERE.netns.exists(), mounts())\n"
    )
    assert told.splitlines() == ["lo", "[None, None] ['other']", "None", "False []"]


def test_a_folder_that_two_programs_mounted_at_the_same_time_is_left_without_a_mount() -> None:
    if not means_or_words():
        return
    told = in_mount_namespace(
        IP + "HERE.netns.mkdir()\nfor _ in range(2):\n"
        "    HERE.command(['mount', '--bind', str(HERE.netns), str(HERE.netns)])\n"
        "make_namespace(server); print(remove_namespace({'path': str(server)}), HERE.netns.exists(), mounts())\n"
    )
    assert told == "None False []\n"


def test_a_namespace_that_ip_netns_covered_is_told_and_goes_once_the_cover_can() -> None:
    if not means_or_words():
        return
    made = "HERE.netns.mkdir()\nfor one in (server, load):\n    one.touch()\n"
    made += "    HERE.command(['unshare', f'--net={one}', 'true'])\n"
    told = in_mount_namespace(
        IP + made + "ip('add', 'other'); print(remove_namespace({'path': str(server)}))\n"
        "ip('delete', 'other'); print([remove_namespace({'path': str(one)}) for one in (server, load)])\n"
        "print(HERE.netns.exists(), mounts())\n"
    )
    left, gone, nothing = told.splitlines()
    assert left.startswith("the network namespace mydyno-covered-server: /run/netns is mounted over it")
    assert (gone, nothing) == ("[None, None]", "False []")
