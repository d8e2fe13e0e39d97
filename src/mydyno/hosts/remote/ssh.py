"""Another host, reached by SSH: run and start programs, copy files and folders.

Keys, agents, ProxyJump and known_hosts are those of the user: ~/.ssh/config, /etc/ssh/ssh_config and SSH_AUTH_SOCK are
read as by ssh(1). Only methods without questions are used: public keys and GSSAPI, no passwords. The host's key is
always checked, also where the configuration switches that off. A connection without an answer to three keepalives,
15 s apart, counts as lost.

What mydyno starts on another host: a small shell program that runs a command and ends with the connection.

sshd starts the login shell, which becomes this program. It starts the command in a session of its own and waits for it.
When the connection ends, sshd's process for it ends as well, also by kill -9, and the kernel sends SIGTERM to the
supervisor (PR_SET_PDEATHSIG). It then sends SIGTERM to the command's process group, and after a grace time SIGKILL to
the group and to every process with the connection's mark in its environment, which also finds those that left the
group. A network that is cut off without a word is noticed by sshd only when TCP or its ClientAliveInterval gives up: a
program that must end earlier has to expect heartbeats on its standard input.

Environment variables travel on standard input, in its first line: arguments are visible in the process list.
Costs three short-lived processes at the start, and a sleeping shell while the command runs.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType

import asyncssh

from mydyno.errors import BugError, HostError
from mydyno.hosts.commands import StartedCommand, report_start
from mydyno.hosts.local import Completed
from mydyno.hosts.remote.ssh_connection import Login, open_connection

MARK = "MYDYNO_REMOTE"
"""The environment variable of every process that was started over a connection."""
MISSING = "mydyno: setpriv or setsid is missing"
END_SIGNAL, KILL_SIGNAL = "TERM", "USR1"
"""Signals to the supervisor: end the command with the grace time; end it at once."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_WATCHED = (
    f"command -v setpriv >/dev/null && command -v setsid >/dev/null || {{ echo {MISSING} >&2; exit 126; }}; "
    'program=$1; shift; exec setpriv --pdeathsig TERM -- sh -c "$program" mydyno "$PPID" "$@"'
)
"""Arguments: the program below and its arguments. A shell without ! and line ends also passes through csh."""

_SUPERVISOR = " ".join(
    line.strip()
    for line in r"""
    parent=$1 mark=$2 grace=$3 merged=$4; shift 4;
    [ "$PPID" = "$parent" ] && [ "$PPID" -gt 1 ] || exit 129;
    IFS= read -r variables || exit 129;
    exec 3<&0;
    group() { kill -s "$1" -- "-$child" 2>/dev/null || kill -s "$1" "$child" 2>/dev/null; };
    left() { grep -lsz "^MYDYNO_REMOTE=$mark\$" /proc/[0-9]*/environ 2>/dev/null; };
    sweep() { group KILL; for file in $(left); do
      file=${file#/proc/}; kill -s KILL "${file%/environ}" 2>/dev/null; done; };
    now() { trap "" TERM HUP USR1; sweep; exit 137; };
    gently() { trap "" TERM HUP; trap now USR1; group TERM;
      setsid sh -c 'sleep "$1"; kill -s KILL -- "-$2"' killer "$grace" "$child" </dev/null >/dev/null 2>&1 3<&- &
      killer=$!; wait "$child";
      kill -s KILL -- "-$killer" 2>/dev/null || kill -s KILL "$killer" 2>/dev/null; sweep; exit 143; };
    trap gently TERM HUP; trap now USR1;
    ( trap - TERM HUP USR1; eval "$variables"; [ "$merged" = 0 ] || exec 2>&1; exec setsid "$@" ) <&3 3<&- &
    child=$!; exec 3<&- </dev/null >/dev/null 2>&1;
    wait "$child"
    """.strip().splitlines()
)
"""Arguments: sshd's process, the mark, the grace time in seconds, 1 to merge stderr into stdout, the command."""


def supervised(argv: Sequence[str], mark: str, grace_s: float, merged: bool) -> str:
    """The command line for sshd that runs argv under the supervisor; one line, quoted for the login shell."""
    inner = [_SUPERVISOR, mark, f"{grace_s:g}", "1" if merged else "0", *argv]
    return "exec " + shlex.join(["sh", "-c", _WATCHED, "mydyno", *inner])


def signalling(mark: str, name: str) -> str:
    """The command line for sshd that sends a signal to the supervisor with this mark, known by its arguments."""
    script = (
        f'for file in $(grep -lsz "^{mark}\\$" /proc/[0-9]*/cmdline); do '
        f'file=${{file#/proc/}}; kill -s {name} "${{file%/cmdline}}"; done'
    )
    return "exec " + shlex.join(["sh", "-c", script])


def first_line(environment: Mapping[str, str], mark: str) -> bytes:
    """The first line of standard input, which sets the environment. Raises BugError for a value with a line end."""
    variables = {"LC_ALL": "C.UTF-8", **environment, MARK: mark}
    for name, value in variables.items():
        if not _NAME.fullmatch(name) or "\n" in value or "\0" in value:
            raise BugError(f"the environment variable {name!r} cannot be set on another host")
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"export {words}; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n".encode()


GRACE_S = 10.0
"""Between SIGTERM and SIGKILL for a command whose connection ended."""
KILL_ATTEMPTS = 5
TAIL_BYTES = 16 << 10
"""Most bytes of the end of standard error that are kept."""
_FAILURES = (asyncssh.Error, asyncssh.ProcessError, OSError)


class RemoteProcess:
    """A program on another host. It ends with the connection, by the supervisor."""

    def __init__(
        self,
        host: SshHost,
        process: asyncssh.SSHClientProcess[bytes],
        mark: str,
        argv: Sequence[str],
        started: StartedCommand,
    ) -> None:
        self.argv = tuple(argv)
        self._host = host
        self._mark = mark
        self._process = process
        self._tail = b""
        self._reader = asyncio.create_task(self._keep_tail())
        self._ending = asyncio.create_task(self._report_end(started))

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and after a lost connection; 128 + n: ended by signal n, as a shell reports it."""
        return self._process.exit_status

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to standard error."""
        return self._tail.decode(errors="replace")

    async def write(self, text: str) -> None:
        """Write to its standard input. Raises HostError if the connection or the program has ended."""
        try:
            self._process.stdin.write(text.encode())
            await self._process.stdin.drain()
        except _FAILURES as error:
            raise self._host.lost(f"writing to {self.argv[0]}", error) from error

    def close_stdin(self) -> None:
        """End of its standard input."""
        with suppress(*_FAILURES):
            self._process.stdin.write_eof()

    async def lines(self) -> AsyncIterator[str]:
        """Lines of standard output, without their ends, until it is closed. Raises HostError on a lost connection."""
        while True:
            try:
                line = await self._process.stdout.readline()
            except _FAILURES as error:
                raise self._host.lost(f"reading from {self.argv[0]}", error) from error
            if not line:
                return
            yield line.decode(errors="replace").removesuffix("\n")

    async def wait(self, timeout_s: float | None = None) -> int:
        """Its exit code. Raises TimeoutError, and it still runs; HostError if the connection was lost before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait_closed()
                await asyncio.shield(self._reader)
        except _FAILURES as error:
            if isinstance(error, TimeoutError) and not isinstance(error, asyncssh.Error):
                raise
            raise self._host.lost(f"running {self.argv[0]}", error) from error
        if self.exit_code is None:
            raise self._host.lost(f"running {self.argv[0]}", None)
        if self.exit_code == 126 and MISSING in self.stderr_tail:
            raise missing_programs(self._host.name)
        return self.exit_code

    async def end(self) -> None:
        """SIGTERM to the program and its group, SIGKILL after the grace time; does not wait for its end."""
        await self._host.signal(self._mark, END_SIGNAL)

    async def kill(self) -> None:
        """SIGKILL to the program and all that it started; returns when it has ended or the connection is lost."""
        for _ in range(KILL_ATTEMPTS):  # the first may come before the supervisor has started
            await self._host.signal(self._mark, KILL_SIGNAL)
            with suppress(*_FAILURES):
                async with asyncio.timeout(2):
                    await self._process.wait_closed()
                    break
        self._process.close()

    async def _keep_tail(self) -> None:
        with suppress(*_FAILURES):
            while piece := await self._process.stderr.read(TAIL_BYTES):
                self._tail = (self._tail + piece)[-TAIL_BYTES:]

    async def _report_end(self, started: StartedCommand) -> None:
        with suppress(*_FAILURES):
            await self._process.wait_closed()
        started.ended(-1 if self.exit_code is None else self.exit_code)


class SshHost:
    """A host with an open SSH connection. Use as an async context manager, or close() it.

    Remote paths are absolute, or relative to the user's home directory; `~/` in front is the same.
    """

    def __init__(self, connection: asyncssh.SSHClientConnection, address: str) -> None:
        self.name = address
        """As the user wrote it."""
        self._connection = connection
        self._sftp: asyncssh.SFTPClient | None = None
        self._sftp_lock = asyncio.Lock()

    @classmethod
    async def connect(cls, address: str, login: Login | None = None) -> SshHost:
        """Log in to user@host:port. Raises HostError with what to do; UserError for an impossible address."""
        return cls(await open_connection(address, login or Login()), address)

    async def __aenter__(self) -> SshHost:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, and with it every program that was started over it."""
        if self._sftp is not None:
            self._sftp.exit()
        self._connection.close()
        with suppress(*_FAILURES, TimeoutError):
            async with asyncio.timeout(5):
                await self._connection.wait_closed()
        self._connection.abort()

    def abort(self) -> None:
        """End the connection at once, without waiting for anything."""
        self._connection.abort()

    @property
    def connected(self) -> bool:
        """Whether the connection is open; a host that fell silent counts as connected for up to 45 s."""
        return not self._connection.is_closed()

    def lost(self, doing: str, error: BaseException | None) -> HostError:
        """The error for a connection that ended."""
        words = f": {error}" if error is not None and str(error) else ""
        return HostError(f"{self.name}: the SSH connection ended while {doing}{words}", f"ssh {self.name}")

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 600.0,
        environment: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a program to its end; its two streams are merged in order. A time-out kills it: exit code 124.

        Raises HostError if the connection is lost.
        """
        process = await self._start(argv, environment or {}, GRACE_S, merged=True)
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                if stdin is not None:
                    with suppress(HostError):  # a program need not read its input
                        await process.write(stdin)
                process.close_stdin()
                output = "".join([line + "\n" async for line in process.lines()])
                code = await process.wait()
        except TimeoutError:
            await process.kill()
            return Completed(tuple(argv), 124, f"timed out after {time.monotonic() - began:.0f} s")
        except asyncio.CancelledError:
            await process.kill()
            raise
        return Completed(tuple(argv), code, output)

    async def start(
        self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, grace_s: float = GRACE_S
    ) -> RemoteProcess:
        """Start a program. It and all that it starts end when the connection ends, at most `grace_s` later.

        Raises HostError if the connection is lost or the server refuses.
        """
        return await self._start(argv, environment or {}, grace_s, merged=False)

    async def _start(
        self, argv: Sequence[str], environment: Mapping[str, str], grace_s: float, merged: bool
    ) -> RemoteProcess:
        mark = secrets.token_hex(8)
        started = report_start(argv, entering=["ssh", self.name])
        try:
            process = await self._connection.create_process(supervised(argv, mark, grace_s, merged), encoding=None)
            process.stdin.write(first_line(environment, mark))
        except _FAILURES as error:
            started.ended(127)
            raise self.lost(f"starting {argv[0]}", error) from error
        return RemoteProcess(self, process, mark, argv, started)

    async def signal(self, mark: str, name: str) -> None:
        """Send a signal to the supervisor with this mark; nothing happens if it or the connection has ended.

        By a command of its own: sshd passes signals of the protocol on only to users other than root.
        """
        with suppress(*_FAILURES):
            async with asyncio.timeout(10):
                await self._connection.run(signalling(mark, name), check=False)

    @asynccontextmanager
    async def _files(self, doing: str) -> AsyncIterator[asyncssh.SFTPClient]:
        """The SFTP session; one for all copies of this host."""
        try:
            async with self._sftp_lock:
                if self._sftp is None:
                    self._sftp = await self._connection.start_sftp_client()
            yield self._sftp
        except (asyncssh.SFTPConnectionLost, asyncssh.DisconnectError, ConnectionError) as error:
            raise self.lost(doing, error) from error
        except asyncssh.ChannelOpenError as error:
            raise HostError(
                f"{self.name}: no SFTP: {error.reason}", "sshd_config needs: Subsystem sftp internal-sftp"
            ) from error
        except asyncssh.SFTPError as error:
            raise HostError(f"{self.name}: {doing}: {error.reason}", "is there space, and permission?") from error
        except OSError as error:
            raise HostError(f"{doing}: {error}") from error

    @asynccontextmanager
    async def _replacing(self, remote: str, doing: str) -> AsyncIterator[tuple[asyncssh.SFTPClient, str]]:
        """Replaces a file as a whole: it is the old one until what was written aside, to this path, takes its place."""
        remote = from_home(remote)
        aside = _aside(remote)
        async with self._files(f"{doing} {remote}") as sftp:
            await sftp.makedirs(str(PurePosixPath(remote).parent), exist_ok=True)
            try:
                yield sftp, aside
                await sftp.posix_rename(aside, remote)
            except BaseException:
                with suppress(*_FAILURES):
                    await sftp.remove(aside)
                raise

    async def put(self, local: Path, remote: str) -> None:
        """Copy a file to the host, with its mode; the remote file is the old or the whole new one. Raises HostError."""
        async with self._replacing(remote, f"copying {local} to") as (sftp, aside):
            await sftp.put(str(local), aside, preserve=True)

    async def write_text(self, remote: str, text: str) -> None:
        """Replace a text file on the host as a whole. Raises HostError."""
        async with self._replacing(remote, "writing") as (sftp, aside), sftp.open(aside, "wb") as file:
            await file.write(text.encode())

    async def put_checked(self, local: Path, remote: str, sha256: str) -> bool:
        """put(), unless the host has the file already; returns whether it was copied.

        Raises HostError, also if what arrived has another SHA-256.
        """
        if await self._sha256(remote) == sha256:
            return False
        await self.put(local, remote)
        if await self._sha256(remote) != sha256:
            raise HostError(f"{self.name}: the copy of {local} is damaged, or the file was changed meanwhile")
        return True

    async def _sha256(self, remote: str) -> str:
        """SHA-256 of a file on the host; empty if it cannot be read."""
        done = await self.run(["sha256sum", "--", from_home(remote)], timeout_s=3600)
        return "" if done.exit_code else done.output.lstrip("\\").partition(" ")[0]

    async def get(self, remote: str, local: Path) -> None:
        """Copy a file from the host; the local file is the old or the whole new one. Raises HostError."""
        remote = from_home(remote)
        aside = Path(_aside(str(local)))
        async with self._files(f"copying {remote} to {local}") as sftp:
            try:
                local.parent.mkdir(parents=True, exist_ok=True)
                await sftp.get(remote, str(aside), preserve=True)
                aside.replace(local)
            finally:
                aside.unlink(missing_ok=True)

    async def get_tree(self, remote: str, local: Path) -> None:
        """Copy a folder from the host to a path that does not exist. Raises HostError."""
        remote = from_home(remote)
        aside = Path(_aside(str(local)))
        async with self._files(f"copying {remote} to {local}") as sftp:
            try:
                if os.path.lexists(local):
                    raise HostError(f"{local} exists already")
                local.parent.mkdir(parents=True, exist_ok=True)
                await sftp.get(remote, str(aside), preserve=True, recurse=True)
                aside.rename(local)
            finally:
                shutil.rmtree(aside, ignore_errors=True)

    async def read_text(self, remote: str) -> str | None:
        """A text file's content; None if there is no such file. Raises HostError."""
        remote = from_home(remote)
        async with self._files(f"reading {remote}") as sftp:
            try:
                async with sftp.open(remote, "rb") as file:
                    content: bytes | str = await file.read()
            except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
                return None
        return content if isinstance(content, str) else content.decode(errors="replace")

    async def home(self) -> str:
        """The user's home directory on the host."""
        async with self._files("reading the home directory") as sftp:
            return str(await sftp.realpath("."))


def missing_programs(name: str) -> HostError:
    """Without setpriv nothing would end a program when the connection ends."""
    return HostError(f"{name}: setpriv or setsid is not on PATH", "install util-linux on that host")


def from_home(path: str) -> str:
    """SFTP starts in the home directory: ~/x is x."""
    return path.removeprefix("~/") if path != "~" else "."


def _aside(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{secrets.token_hex(4)}.new" if folder or path.startswith("/") else f".{name}.new"
