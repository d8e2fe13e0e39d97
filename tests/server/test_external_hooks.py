"""The user's hooks and telemetry over SSH: a server that mydyno did not start, and a real sshd on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pymysql
import pytest

from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.servers.build import ServerBuild
from mydyno.store.samples import window_means
from mydyno.store.study_folder import StudyFolder
from tests.support.not_run import note_not_run
from tests.support.other_server import START_SERVER, open_copy
from tests.support.patience import HANG_S, wait_until
from tests.support.real import Program
from tests.support.real_sshd import Sshd, real_sshd, sshd_packages
from tests.support.worded import worded

PASSWORD = "not a secret"
EXPERIMENT = """
name = "hooks-{pid}"
question = "Are the user's own commands used?"
data = {{ tables = 1, rows = 1000 }}
validity = {{ steady = "report", driver_cpu = 1, steal = "99%" }}
[server]
dsn = "mysql://bench@127.0.0.1:{port}/sbtest"
ssh = "{ssh}"
[server.hooks]
restore = "echo restored $MARK; date +%s >>{folder}/restored"
restart = "{restart}"
timeout = "20s"
[arms]
control = "plain"
plain = {{ compression = "off" }}
[[steps]]
workload = "oltp_read_only"
connections = 2
warmup = "1s"
measure = "3s"
[design]
blocks = 1
"""


@dataclass
class External:
    """A server, its host's sshd, and the program."""

    folder: Path
    port: int
    sshd: Sshd
    program: Program

    @property
    def restart(self) -> str:
        """A script of the user's."""
        return str(self.folder / "restart")

    def run(self, restart: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        text = EXPERIMENT.format(
            pid=os.getpid(), port=self.port, ssh=self.sshd.address, folder=self.folder, restart=restart
        )
        return self.program.run("run", self.program.write(text), *arguments)

    def server_pid(self) -> int:
        return int((self.folder / "server" / "mysqld.pid").read_text())


@pytest.fixture
def external(build: ServerBuild, real_paths: HostPaths, tmp_path: Path) -> Iterator[External]:
    packages = sshd_packages(real_paths)
    if isinstance(packages, str):
        note_not_run(f"hooks over SSH: {packages}")
        pytest.skip(packages)
    # Not below tmp_path, which the server's user cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="mydyno-test-"))
    folder.chmod(0o755)
    port = free_port()
    environment = open_copy(build, folder)
    server = folder / "server"
    script = folder / "restart"
    words = " ".join(f"{name}='{value}'" for name, value in environment.items())
    script.write_text(
        f"#!/bin/sh\n[ ! -f {server}/mysqld.pid ] || {{ pid=$(cat {server}/mysqld.pid); kill $pid; "
        f"while [ -e /proc/$pid ]; do sleep 0.05; done; }}\nexec env {words} {START_SERVER} {server} --port {port}\n"
    )
    script.chmod(0o755)
    with real_sshd(tmp_path / "sshd", packages) as sshd:
        if isinstance(sshd, str):
            note_not_run(f"hooks over SSH: {sshd}")
            pytest.skip(sshd)
        try:
            subprocess.run([script], check=True, timeout=HANG_S)
            sql = (
                "CREATE DATABASE sbtest",
                f"CREATE USER bench IDENTIFIED BY '{PASSWORD}'",
                "GRANT ALL ON sbtest.* TO bench",
                "DELETE FROM mysql.global_priv WHERE User = ''",
                "FLUSH PRIVILEGES",
            )
            with pymysql.connect(user="root", unix_socket=str(server / "s.sock"), autocommit=True) as root:
                for statement in sql:
                    root.cursor().execute(statement)
            home = {"HOME": str(sshd.folder / "user-home"), "MYDYNO_DSN_PASSWORD": PASSWORD}
            program = Program(tmp_path / "program", real_paths, [], home)
            program.folder.mkdir()
            yield External(folder, port, sshd, program)
        finally:
            pid = int((server / "pid").read_text())
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
            wait_until(lambda: not Path(f"/proc/{pid}").exists())
            shutil.rmtree(folder)


@pytest.mark.exhaustive
def test_the_users_hooks_run_before_each_run_and_the_servers_host_is_sampled(external: External) -> None:
    first = external.server_pid()
    refused = external.run(external.restart)
    assert refused.returncode == 2
    assert "--allow-writes" in refused.stderr
    assert external.server_pid() == first, "nothing was started"

    done = external.run("true", "--allow-writes")
    assert done.returncode == 3
    assert "server.hooks.restart did not restart the server" in done.stderr, done.stderr
    failed = external.run("echo no such unit >&2; exit 5", "--allow-writes")
    assert failed.returncode == 3
    assert "server.hooks.restart failed with exit code 5" in failed.stderr
    assert "no such unit" in failed.stderr

    before = len((external.folder / "restored").read_text().splitlines())
    done = external.run(external.restart, "--allow-writes")
    assert done.returncode == 0, done.stderr
    assert external.server_pid() != first
    path = max(external.program.studies.iterdir(), key=lambda one: one.stat().st_mtime_ns)
    folder = StudyFolder.open(path)
    runs = list(folder.runs())
    assert len(runs) == 2
    assert len((external.folder / "restored").read_text().splitlines()) == before + 2
    for run in runs:
        assert run.valid, run.reasons
        log = (folder.path / run.folder / "hooks.log").read_text()
        assert f"restore on {external.sshd.address}" in log
        assert "restored" in log
        (step,) = run.steps
        means = window_means(folder.samples_path(run.folder), {step.id: (1.0, 5.0)})[step.id]
        assert means["instance:1", "server_cpu_user_pct"] > 0, "of the process on the server's host"
        assert means["host", "cpu_user_pct"] > 0
        assert means[f"client:{socket.gethostname()}", "cpu_user_pct"] > 0
    facts = folder.study().server_host
    assert facts["hostname"] == socket.gethostname() and facts["cpus"] == os.cpu_count()
    assert facts["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024 * 1024
    assert facts["kernel"] == os.uname().release
    scope = worded(folder).scope
    where = f"External server 127.0.0.1:{external.port} on {facts['hostname']} ("
    assert scope.startswith(where), scope
    assert PASSWORD not in "".join(one.read_text(errors="replace") for one in path.rglob("*") if one.is_file())
    assert wait_until(lambda: not external.sshd.sessions(), 15)
