# mypy: disable-error-code="arg-type"
"""An SSH server on loopback that runs real programs: its own keys, its own home directory, no root, no sshd.

It is a process of its own. Each command runs below a process of its own, as with sshd: when the connection ends, or the
server is killed, that process dies by SIGKILL and nothing else is told. Relative paths of SFTP start in the home
directory.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from mydyno.hosts.remote.ssh_connection import Login
from tests.support import ROOT
from tests.support.patience import first_line

SESSION = '/bin/sh -c "$1"; exit "$?"'
"""Stands for sshd's process of a session: the parent of the login shell."""


@dataclass(frozen=True)
class SshServer:
    """A running server, and what a user needs to log in."""

    folder: Path
    port: int
    process: subprocess.Popen[str]

    @property
    def home(self) -> Path:
        """The home directory of the user who logs in."""
        return self.folder / "remote-home"

    @property
    def user_home(self) -> Path:
        """The home directory of the user who connects, with .ssh in it."""
        return self.folder / "user-home"

    @property
    def address(self) -> str:
        return f"bench@127.0.0.1:{self.port}"

    @property
    def login(self) -> Login:
        return Login(config_files=(self.user_home / ".ssh" / "config",), timeout_s=10)

    @property
    def known_hosts(self) -> Path:
        return self.user_home / ".ssh" / "known_hosts"


@contextmanager
def ssh_server(folder: Path, more_host_keys: Sequence[str] = ()) -> Iterator[SshServer]:
    """Start one below a folder, with keys, known_hosts and a configuration that finds them.

    more_host_keys: algorithms of further keys, host_key_ALGORITHM, that are not in known_hosts.
    """
    prepare(folder)
    for algorithm in more_host_keys:
        key = asyncssh.generate_private_key(algorithm)
        key.write_private_key(str(folder / f"host_key_{algorithm}"))
        key.write_public_key(str(folder / f"host_key_{algorithm}.pub"))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONSAFEPATH": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.ssh_server", str(folder)],
        env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        line = first_line(process, "the SSH server")
        assert line.strip().isdigit(), "the server did not start"
        server = SshServer(folder, int(line), process)
        key = (folder / "host_key.pub").read_text()
        server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
        yield server
    finally:
        process.kill()
        process.communicate()


def prepare(folder: Path) -> None:
    """Keys and folders."""
    ssh = folder / "user-home" / ".ssh"
    ssh.mkdir(parents=True)
    (folder / "remote-home").mkdir()
    for path in (folder / "host_key", ssh / "id_ed25519"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(path))
        key.write_public_key(f"{path}.pub")
        path.chmod(0o600)
    (folder / "authorized_keys").write_bytes((ssh / "id_ed25519.pub").read_bytes())
    (ssh / "config").write_text(
        f"IdentityFile {ssh}/id_ed25519\nIdentitiesOnly yes\nUserKnownHostsFile {ssh}/known_hosts\n"
    )


def without(folder: Path, *names: str) -> None:
    """From now on the programs on the server's PATH are those of /usr/bin, without some."""
    tools = folder / "tools.new"
    tools.mkdir()
    for path in Path("/usr/bin").iterdir():
        if not path.name.startswith(names):
            (tools / path.name).symlink_to(path)
    tools.rename(folder / "tools")


def printing(folder: Path, name: str, text: str) -> None:
    """From now on one program on the server's PATH prints this and nothing else."""
    without(folder, name)
    (folder / "tools" / name).write_text(f"#!/bin/sh\necho '{text}'\n")
    (folder / "tools" / name).chmod(0o755)


def children(pid: int) -> list[int]:
    """The pids of a process's children."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class _Session:
    """One command of one connection."""

    def __init__(self, home: Path) -> None:
        self.home = home

    async def __call__(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        tools = self.home.parent / "tools"  # a PATH of the test's own
        path = str(tools) if tools.is_dir() else os.environ["PATH"]
        environment = {"HOME": str(self.home), "PATH": path}
        child = await asyncio.create_subprocess_exec(
            "/usr/bin/setpriv", "--pdeathsig", "KILL", "--", "/bin/sh", "-c", SESSION, "session", process.command or "",
            env=environment, cwd=self.home, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._pump(process.stdin, child.stdin),
                self._pump(child.stdout, process.stdout), self._pump(child.stderr, process.stderr),
            )
        ]  # fmt: skip
        ended = asyncio.create_task(self._end(child, tasks[1:]))
        closed = asyncio.create_task(process.channel.wait_closed())
        await asyncio.wait([ended, closed], return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            process.exit(ended.result())
        else:
            child.kill()
        for task in tasks:
            task.cancel()

    async def _end(self, child: asyncio.subprocess.Process, outputs: list[asyncio.Task[None]]) -> int:
        code = await child.wait()
        await asyncio.gather(*outputs)
        return code

    async def _pump(self, source: Any, sink: Any) -> None:
        with suppress(OSError, asyncssh.Error):
            while piece := await source.read(1 << 16):
                sink.write(piece)
                await sink.drain()
        if not isinstance(sink, asyncssh.SSHWriter):
            # A channel has one end for both of its streams: that of standard output would cut off standard error.
            with suppress(OSError):
                sink.write_eof()


class _Sftp(asyncssh.SFTPServer):
    """Paths are the host's; relative ones start in the home directory."""

    home = b""

    def map_path(self, path: bytes) -> bytes:
        return path if path.startswith(b"/") else os.path.normpath(os.path.join(self.home, path))  # noqa: PTH118


class _Server(asyncssh.SSHServer):
    def __init__(self, home: Path) -> None:
        self.home = home

    def session_requested(self) -> asyncssh.SSHServerProcess[bytes]:
        return asyncssh.SSHServerProcess(_Session(self.home), _Sftp, 3, False)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Forwarding, for ProxyJump."""
        return True


async def main(folder: Path) -> None:
    home = folder / "remote-home"
    _Sftp.home = os.fsencode(home)
    host_keys = [str(path) for path in sorted(folder.glob("host_key*")) if path.suffix != ".pub"]
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=lambda: _Server(home), server_host_keys=host_keys,
        authorized_client_keys=str(folder / "authorized_keys"), encoding=None,
    )  # fmt: skip
    print(server.get_port(), flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
