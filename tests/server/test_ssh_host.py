"""SshHost and `mydyno hosts` against OpenSSH's sshd."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from mydyno.errors import HostError
from mydyno.fleet import parts
from mydyno.fleet.installation import FOLDER, clock_offset, ensure_installed, installation_of, prepare, remove, state_of
from mydyno.hosts.identity import ProcessIdentity
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.hosts.remote.ssh_connection import Login
from tests.support.not_run import note_not_run
from tests.support.patience import HANG_S, until
from tests.support.real_sshd import Sshd, real_sshd, sshd_packages
from tests.support.small_installation import small_installation
from tests.support.ssh_server import ssh_server, without

TREE = 'sleep 311 & setsid sleep 312 & echo "$$ $!"; trap "" TERM; wait; wait'
IMPORTS = "import duckdb, scipy.stats, hdrh.histogram, pymysql, asyncssh, rich, jinja2"


@pytest.fixture
def sshd(real_paths: HostPaths, tmp_path: Path) -> Iterator[Sshd]:
    packages = sshd_packages(real_paths)
    if isinstance(packages, str):
        note_not_run(f"SSH with a real sshd: {packages}")
        pytest.skip(packages)
    with real_sshd(tmp_path / "sshd", packages) as started:
        if isinstance(started, str):
            note_not_run(f"SSH with a real sshd: {started}")
            pytest.skip(started)
        yield started


@pytest_asyncio.fixture
async def host(sshd: Sshd) -> AsyncIterator[SshHost]:
    async with await SshHost.connect(sshd.address, sshd.login) as connected:
        yield connected


def alive(pids: list[int]) -> bool:
    return any(ProcessIdentity.of(pid) for pid in pids)


async def test_programs_run_and_files_are_copied(host: SshHost, sshd: Sshd, tmp_path: Path) -> None:
    done = await host.run(["sh", "-c", 'cat; echo "$HOME $A"; exit 4'], stdin="in\n", environment={"A": "it's"})
    assert (done.exit_code, done.output) == (4, f"in\n{sshd.home} it's\n")
    assert (await host.run(["sleep", "30"], timeout_s=0.5)).exit_code == 124
    (tmp_path / "file").write_text("x")
    await host.put(tmp_path / "file", "~/a/tree/sub/file")
    await host.put(tmp_path / "file", "a/file")
    await host.put(tmp_path / "file", "a/file")
    await host.get_tree("a/tree", tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "file").read_text() == "x"
    assert await host.read_text("a/file") == "x"
    assert await host.read_text("a/none") is None
    offset = await clock_offset(host)
    assert abs(offset.offset_ms) <= offset.error_ms


async def test_kill_9_of_sshd_ends_the_process_tree(sshd: Sshd) -> None:
    host = await SshHost.connect(sshd.address, sshd.login)
    process = await host.start(["sh", "-c", TREE], grace_s=0.2)
    pids = [int(word) for word in (await anext(process.lines())).split()]
    assert alive(pids)
    for pid in sshd.sessions():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(HostError, match="the SSH connection ended while running sh"):
        await process.wait(HANG_S)
    await until(lambda: not alive(pids))
    await host.close()
    async with await SshHost.connect(sshd.address, sshd.login) as again:
        assert (await again.run(["true"])).exit_code == 0


async def test_the_end_of_the_connection_and_signals_end_the_process_tree(sshd: Sshd) -> None:
    host = await SshHost.connect(sshd.address, sshd.login)
    first = await host.start(["sh", "-c", TREE], grace_s=600)
    pids = [int(word) for word in (await anext(first.lines())).split()]
    await first.kill()
    await until(lambda: not alive(pids))
    second = await host.start(["sh", "-c", TREE], grace_s=0.2)
    pids = [int(word) for word in (await anext(second.lines())).split()]
    await host.close()
    await until(lambda: not alive(pids))


async def test_a_silent_host_is_lost_after_its_keepalives(sshd: Sshd) -> None:
    login = Login(
        sshd.login.config_files, keepalive_s=2.0, keepalive_count=3
    )  # a busy host may take a second to answer
    host = await SshHost.connect(sshd.address, login)
    process = await host.start(["sleep", "313"])
    sessions = sshd.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(HostError, match="the SSH connection ended while running sleep"):
            await process.wait(HANG_S)
    finally:
        for pid in sessions:
            os.kill(pid, signal.SIGCONT)
    assert not host.connected
    await host.close()


async def test_the_host_key_and_the_user_key_are_checked(sshd: Sshd) -> None:
    known = sshd.folder / "user-home" / ".ssh" / "known_hosts"
    right = known.read_text()
    known.write_text("")
    with pytest.raises(HostError, match="unknown host key ssh-ed25519 SHA256:"):
        await SshHost.connect(sshd.address, sshd.login)
    user_key = (sshd.folder / "user-home" / ".ssh" / "id_ed25519.pub").read_text()
    known.write_text(f"[127.0.0.1]:{sshd.port} {user_key}")
    with pytest.raises(HostError, match="differs from that in known_hosts"):
        await SshHost.connect(sshd.address, sshd.login)
    known.write_text(right)
    (sshd.folder / "authorized_keys").write_text("")
    with pytest.raises(HostError, match="login as root refused: no key was accepted"):
        await SshHost.connect(sshd.address, sshd.login)


@pytest.mark.exhaustive  # test_study_files.py prepares two hosts
async def test_mydyno_with_all_its_packages_is_installed_and_removed(
    host: SshHost, sshd: Sshd, real_paths: HostPaths, tmp_path: Path
) -> None:
    wanted = installation_of(real_paths.engine)
    assert await prepare(host, wanted, real_paths.cache, lambda _: None)
    start = await ensure_installed(host)
    program = Path(start).read_text().replace("-m mydyno.cli", f"-c '{IMPORTS}'")
    done = await host.run(["sh", "-c", program.replace('"$0"', f'"{start}"')])
    assert (done.exit_code, done.output) == (0, "")
    done = await host.run([start, "plan", "allocators", "--time", "10m"], timeout_s=HANG_S)
    assert "interleaved" in done.output
    assert not await prepare(host, wanted, real_paths.cache, lambda _: None)
    assert await remove(host, lambda _: None)
    assert list(sshd.home.rglob("*")) == []
    assert (await state_of(host)).folders == frozenset()


@pytest.mark.exhaustive
async def test_a_host_without_python_gets_that_of_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = parts.python_part()
    if own is None:
        note_not_run("copying the interpreter: it is part of this host's system")
        return
    with small_installation(tmp_path, monkeypatch) as wanted, ssh_server(tmp_path / "ssh") as server:
        without(server.folder, "python", "pdb", "pydoc")
        async with await SshHost.connect(server.address, server.login) as host:
            said: list[str] = []
            assert await prepare(host, wanted, tmp_path / "cache", said.append)
            assert any(line.startswith(f"copying Python {parts.python_tag()}: ") for line in said)
            start = await ensure_installed(host)
            code = "-c 'import sys; print(sys.prefix, sys.version_info[:2])'"
            script = Path(start).read_text().replace("-m mydyno.cli", code).replace('"$0"', f'"{start}"')
            done = await host.run(["sh", "-c", script])
            assert done.output == f"{server.home}/{FOLDER}/{own.name} {sys.version_info[:2]}\n"
            assert own.name in (await state_of(host)).folders
