"""SshHost against a server on loopback that runs real programs; tests/server/test_ssh_host.py uses a real sshd."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from mydyno.errors import BugError, HostError, UserError
from mydyno.hosts.commands import recorded_commands
from mydyno.hosts.identity import ProcessIdentity
from mydyno.hosts.remote.ssh import SshHost
from mydyno.hosts.remote.ssh_connection import Login
from mydyno.store.logs import read_commands
from tests.support.patience import HANG_S, until
from tests.support.ssh_server import SshServer, ssh_server, without

TREE = 'sleep 300 & setsid sleep 301 & echo "$$ $!"; trap "" TERM; wait; wait'
"""A program that ignores SIGTERM, with a child in its group and one in a session of its own."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as started:
        yield started


@pytest_asyncio.fixture
async def host(server: SshServer) -> AsyncIterator[SshHost]:
    async with await SshHost.connect(server.address, server.login) as connected:
        yield connected


def alive(pids: list[int]) -> bool:
    return any(ProcessIdentity.of(pid) for pid in pids)


async def tree(host: SshHost, grace_s: float = 0.2) -> list[int]:
    """The pids of a program that was started and of its child in another session."""
    process = await host.start(["sh", "-c", TREE], grace_s=grace_s)
    async for line in process.lines():
        pids = [int(word) for word in line.split()]
        assert alive(pids)
        return pids
    raise AssertionError("no line")


async def test_a_program_runs_to_its_end(host: SshHost) -> None:
    done = await host.run(["sh", "-c", "echo out; echo err >&2; echo more; exit 3"])
    assert (done.exit_code, done.output) == (3, "out\nerr\nmore\n")
    assert done.argv[0] == "sh"


async def test_arguments_arrive_as_they_are(host: SshHost) -> None:
    words = ["a b", "'", '"', "$HOME", "`id`", "*", "", "é!", "a\nb", "\\"]
    done = await host.run(["printf", "%s|", *words])
    assert done.output.rstrip("\n") == "|".join(words) + "|"


async def test_input_is_read_and_environment_is_set(host: SshHost) -> None:
    done = await host.run(
        ["sh", "-c", 'cat; echo "$SECRET $LC_ALL"; tr "\\0" " " </proc/$PPID/cmdline'],
        stdin="one\ntwo\n", environment={"SECRET": "it's s3cret"},
    )  # fmt: skip
    assert done.output.startswith("one\ntwo\nit's s3cret C.UTF-8\n")
    assert done.output.count("s3cret") == 1, "the environment is not in any argument"
    with pytest.raises(BugError):
        await host.run(["true"], environment={"A": "two\nlines"})


async def test_a_program_that_does_not_read_its_input_runs(host: SshHost) -> None:
    assert (await host.run(["true"], stdin="x" * 1_000_000)).exit_code == 0


async def test_a_program_that_does_not_exist_is_an_exit_code(host: SshHost) -> None:
    done = await host.run(["no-such-program"])
    assert done.exit_code == 127
    assert "no-such-program" in done.output


async def test_a_time_out_kills_and_counts_as_124(host: SshHost) -> None:
    done = await host.run(["sh", "-c", "sleep 302 & echo $! >pid; wait"], timeout_s=1)
    assert done.exit_code == 124
    pid = int(await host.read_text("pid") or 0)
    await until(lambda: not alive([pid]))


async def test_a_started_program_is_written_to_and_read_from(host: SshHost) -> None:
    process = await host.start(["sh", "-c", 'echo begun >&2; while read line; do echo "got $line"; done; exit 5'])
    lines = process.lines()
    await process.write("one\n")
    assert await anext(lines) == "got one"
    assert process.exit_code is None
    with pytest.raises(TimeoutError):
        await process.wait(0.05)
    await process.write("two\n")
    process.close_stdin()
    assert [line async for line in lines] == ["got two"]
    assert await process.wait() == 5
    assert process.stderr_tail == "begun\n"


async def test_kill_ends_the_program_and_all_that_it_started(host: SshHost) -> None:
    process = await host.start(["sh", "-c", TREE], grace_s=600)
    pids = [int(word) for word in (await anext(process.lines())).split()]
    await process.kill()
    await until(lambda: not alive(pids))
    assert (await host.run(["true"])).exit_code == 0, "the connection lives on"


async def test_end_lets_a_program_clean_up(host: SshHost) -> None:
    process = await host.start(["sh", "-c", 'trap "echo undone; exit 0" TERM; echo up; while :; do sleep 0.05; done'])
    lines = process.lines()
    assert await anext(lines) == "up"
    await process.end()
    assert [line async for line in lines] == ["undone"]
    assert await process.wait() == 143


async def test_the_end_of_the_connection_ends_what_was_started(server: SshServer) -> None:
    host = await SshHost.connect(server.address, server.login)
    pids = await tree(host)
    await host.close()
    assert not host.connected
    await until(lambda: not alive(pids))


@pytest.mark.slow
async def test_kill_9_of_the_server_ends_what_was_started(tmp_path: Path) -> None:
    with ssh_server(tmp_path) as server:
        host = await SshHost.connect(server.address, server.login)
        pids = await tree(host)
        process = await host.start(["sleep", "303"])
        server.process.kill()
        with pytest.raises(HostError, match="the SSH connection ended while running sleep"):
            await process.wait(HANG_S)
        await until(lambda: not alive(pids))
        with pytest.raises(HostError, match="connection ended while starting true"):
            await host.run(["true"])
        with pytest.raises(HostError):
            await host.read_text("x")
        await host.close()


@pytest.mark.slow
async def test_it_works_where_sh_is_bash(tmp_path: Path) -> None:
    with ssh_server(tmp_path) as server:
        without(server.folder, "sh")
        (server.folder / "tools" / "sh").symlink_to("/bin/bash")
        host = await SshHost.connect(server.address, server.login)
        assert (await host.run(["sh", "-c", "echo out; exit 3"])).exit_code == 3
        process = await host.start(["sh", "-c", TREE], grace_s=600)
        pids = [int(word) for word in (await anext(process.lines())).split()]
        await process.kill()
        await until(lambda: not alive(pids))
        pids = await tree(host)
        await host.close()
        await until(lambda: not alive(pids))


async def test_a_program_that_expects_sigterm_has_the_grace_time(server: SshServer) -> None:
    host = await SshHost.connect(server.address, server.login)
    script = 'trap "echo x >cleaned; exit" TERM; echo up; while :; do sleep 0.05; done'
    process = await host.start(["sh", "-c", script])
    assert await anext(process.lines()) == "up"
    await host.close()
    await until((server.home / "cleaned").exists)


async def test_commands_are_in_the_command_log_without_their_environment(host: SshHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        log.keep_in(tmp_path)
        await host.run(["true", "argument"], environment={"PASSWORD": "hidden"})
        await until(lambda: len(read_commands(tmp_path)) == 3)
    _, started, ended = read_commands(tmp_path)
    assert started["argv"] == ["true", "argument"]
    assert started["entering"] == ["ssh", host.name]
    assert ended["exit_code"] == 0
    assert "hidden" not in (tmp_path / "commands.jsonl").read_text()


async def test_files_are_copied_with_their_mode(host: SshHost, server: SshServer, tmp_path: Path) -> None:
    local = tmp_path / "program"
    local.write_bytes(os.urandom(100_000))
    local.chmod(0o750)
    await host.put(local, "~/deep/er/program")
    there = server.home / "deep/er/program"
    assert there.read_bytes() == local.read_bytes()
    assert there.stat().st_mode & 0o777 == 0o750
    await host.get("deep/er/program", tmp_path / "new" / "back")
    assert (tmp_path / "new" / "back").read_bytes() == local.read_bytes()
    local.write_text("other")
    await host.put(local, str(there))
    assert there.read_text() == "other"
    assert [path.name for path in there.parent.iterdir()] == ["program"]
    assert await host.read_text("deep/er/program") == "other"
    assert await host.read_text("deep/er/none") is None
    assert await host.home() == str(server.home)


async def test_folders_are_copied_whole(host: SshHost, server: SshServer, tmp_path: Path) -> None:
    tree = server.home / "sub/tree"
    (tree / "a" / "empty").mkdir(parents=True)
    (tree / "a" / "file é").write_text("x")
    (tree / "link").symlink_to("a/file é")
    await host.get_tree("sub/tree", tmp_path / "back")
    found = sorted(str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").rglob("*"))
    assert found == ["a", "a/empty", "a/file é", "link"]
    assert (tmp_path / "back/link").readlink() == Path("a/file é")
    with pytest.raises(HostError, match="exists already"):
        await host.get_tree("sub/tree", tmp_path / "back")


async def test_a_copy_that_fails_leaves_nothing(host: SshHost, server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "loop")
    (tmp_path / "tree" / "loop").unlink()
    (tmp_path / "tree" / "dangling").symlink_to("nowhere")
    (server.home / "file").write_text("old")
    with pytest.raises(HostError, match="copying"):
        await host.put(tmp_path / "none", "file")
    assert (server.home / "file").read_text() == "old"
    with pytest.raises(HostError, match="copying"):
        await host.get("none", tmp_path / "x")
    with pytest.raises(HostError, match="copying"):
        await host.get_tree("none", tmp_path / "x")
    with pytest.raises(HostError, match="copying"):
        await host.put(tmp_path / "tree" / "dangling", "file/below-a-file")
    assert list(tmp_path.iterdir()) == [tmp_path / "tree"]
    assert [path.name for path in server.home.iterdir() if path.name.startswith(".")] == []


async def refused(server: SshServer, address: str = "", login: Login | None = None) -> HostError:
    with pytest.raises(HostError) as caught:
        await SshHost.connect(address or server.address, login or server.login)
    assert caught.value.hint
    assert (address or server.address) in caught.value.message
    return caught.value


def with_config(server: SshServer, tmp_path: Path, text: str) -> Login:
    path = tmp_path / "config"
    path.write_text(text + "\n" + (server.user_home / ".ssh" / "config").read_text())
    return replace(server.login, config_files=(path,))


async def test_an_unknown_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    for option in (f"UserKnownHostsFile {tmp_path}/known", "UserKnownHostsFile none"):
        login = with_config(server, tmp_path, f"StrictHostKeyChecking no\n{option}")
        error = await refused(server, login=login)
        assert "unknown host key ssh-ed25519 SHA256:" in error.message
        assert f"accept it once with: ssh -p {server.port} bench@127.0.0.1" in error.hint


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ecdsa-sha2-nistp256"])
async def test_a_changed_host_key_is_refused(server: SshServer, tmp_path: Path, algorithm: str) -> None:
    other = asyncssh.generate_private_key(algorithm).export_public_key().decode()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.port} {other}")
    error = await refused(server, login=with_config(server, tmp_path, f"UserKnownHostsFile {tmp_path}/known"))
    assert re.search("host key ssh-ed25519 SHA256:[^ ]+ differs from that in known_hosts", error.message)
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in error.hint


async def test_of_several_host_keys_the_known_one_is_asked_for(tmp_path: Path) -> None:
    """Known: an ECDSA key; the server would rather show its Ed25519 key, which nobody knows."""
    folder = tmp_path / "server"
    with ssh_server(folder, more_host_keys=["ecdsa-sha2-nistp256"]) as server:
        key = (folder / "host_key_ecdsa-sha2-nistp256.pub").read_text()
        server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
        async with await SshHost.connect(server.address, server.login) as host:
            assert (await host.run(["echo", "there"])).output == "there\n"


async def test_host_key_algorithms_of_the_configuration_are_kept(tmp_path: Path) -> None:
    with ssh_server(tmp_path / "server", more_host_keys=["ecdsa-sha2-nistp256"]) as server:
        error = await refused(server, login=with_config(server, tmp_path, "HostKeyAlgorithms ecdsa-sha2-nistp256"))
    assert "host key ecdsa-sha2-nistp256 SHA256:" in error.message


async def test_a_wrong_user_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "key"))
    (tmp_path / "config").write_text(
        f"IdentityFile {tmp_path}/key\nIdentitiesOnly yes\nUserKnownHostsFile {server.known_hosts}\n"
    )
    error = await refused(server, login=replace(server.login, config_files=(tmp_path / "config",)))
    assert "login as bench refused: no key was accepted" in error.message
    assert "ssh-copy-id" in error.hint


def _knows_nobody(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def test_what_does_not_answer_is_reported_with_what_to_try(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = await refused(server, "bench@127.0.0.1:1")
    assert "port 1 refuses connections" in closed.message
    with monkeypatch.context() as resolver:
        resolver.setattr(socket, "getaddrinfo", _knows_nobody)
        unknown = await refused(server, "bench@no-such-host.invalid")
    assert "unknown host name no-such-host.invalid" in unknown.message
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = replace(server.login, timeout_s=0.5)
        late = await refused(server, f"bench@127.0.0.1:{silent.getsockname()[1]}", login)
    assert "no answer within 0.5 s" in late.message
    config = with_config(server, tmp_path, "Port many")
    assert "the SSH configuration" in (await refused(server, login=config)).message
    with pytest.raises(UserError, match="not an address"):
        await SshHost.connect("a b")


async def test_an_alias_and_a_jump_of_the_configuration_work(server: SshServer, tmp_path: Path) -> None:
    text = (
        f"Host far\n  HostName 127.0.0.1\n  Port {server.port}\n  User bench\n  ProxyJump near\n"
        f"Host near\n  HostName 127.0.0.1\n  Port {server.port}\n  User bench\nHost *\n"
    )
    async with await SshHost.connect("far", with_config(server, tmp_path, text)) as host:
        assert (await host.run(["echo", "there"])).output == "there\n"
    circle = "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost *\n"
    assert "ProxyJump leads back" in str(await refused(server, "a", with_config(server, tmp_path, circle)))


async def test_nothing_secret_is_logged(server: SshServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with await SshHost.connect(server.address, server.login) as host:
        await host.run(["true"], environment={"PASSWORD": "t0psecret"}, stdin="t0psecret")
    assert "t0psecret" not in caplog.text
