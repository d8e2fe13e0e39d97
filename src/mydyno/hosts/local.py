"""This host: run a command, start and end child processes; several tasks at the same time.

Lets an unprivileged server enter folders that lie below a closed one (root's home, a private temporary folder).

As root, the server starts in a mount namespace of its own in which each closed ancestor is covered by an empty, open
tmpfs, and the folders that the server needs are bound back at their own paths. Paths stay the same, nobody else sees
the change, and it goes with the process (mount_namespaces(7)).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import stat
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mydyno.errors import BugError, HostError
from mydyno.failpoints import failpoint
from mydyno.files.atomic import Owner
from mydyno.hosts.commands import StartedCommand, report_start
from mydyno.hosts.held_settings import HeldSettings
from mydyno.hosts.identity import COOKIE, ProcessIdentity
from mydyno.hosts.network.link import Transfer
from mydyno.hosts.quiet import Headway
from mydyno.hosts.server_user import ids_of
from mydyno.hosts.undo import UndoJournal

Result = TypeVar("Result")


async def all_or_none(work: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Every result, in order. The first to fail cancels the others; when all have ended its error is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return [task.result() for task in tasks]


KEPT_ENVIRONMENT = ("PATH", "HOME", "TZ", "TMPDIR")
"""What a child inherits; everything else is explicit, so that a run is the same from every shell."""
LINE_LIMIT_BYTES = 1 << 20
"""Longest line that a program may write to a pipe."""


@dataclass(frozen=True)
class Completed:
    """A command that ended. `output` holds both of its streams in order."""

    argv: tuple[str, ...]
    exit_code: int
    output: str


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Reports the end of the program when the kernel reports it, whoever waits for it."""

    def __init__(self, started: StartedCommand, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=LINE_LIMIT_BYTES, loop=loop)
        self.exited: asyncio.Future[int] = loop.create_future()
        """The exit code. asyncio's own wait() also waits for the end of all pipes, which other processes may hold."""
        self._started = started
        self._subprocess: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, which knows the exit code."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._subprocess = transport
        super().connection_made(transport)

    def process_exited(self) -> None:
        """Report the exit code."""
        known = None if self._subprocess is None else self._subprocess.get_returncode()
        exit_code = -1 if known is None else known
        self._started.ended(exit_code)
        if not self.exited.done():
            self.exited.set_result(exit_code)
        super().process_exited()


class Process:
    """A process that mydyno started; it dies with mydyno (PR_SET_PDEATHSIG)."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol, argv: Sequence[str]) -> None:
        self.argv = tuple(argv)
        self._transport = transport
        self._exited = protocol.exited
        self._process = process = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())
        self.identity = ProcessIdentity.of(process.pid) or ProcessIdentity(process.pid, -1)
        self.pid = process.pid

    @property
    def name(self) -> str:
        """The program's file name."""
        return Path(self.argv[0]).name

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: ended by that signal."""
        return self._process.returncode

    @property
    def streams(self) -> asyncio.subprocess.Process:
        """The pipes, where start() was given PIPE."""
        return self._process

    async def wait(self, timeout_s: float | None = None) -> int:
        """Its exit code, also while others hold its pipes. Raises TimeoutError; the process is then still running."""
        return await asyncio.wait_for(asyncio.shield(self._exited), timeout_s)

    def send(self, signal_number: int) -> None:
        """Send a signal, if it still runs."""
        if self._process.returncode is None:
            try:
                self._process.send_signal(signal_number)
            except ProcessLookupError:
                return

    async def end(self, grace_s: float, headway: Headway | None = None) -> float:
        """SIGTERM, SIGKILL after the grace time; returns the seconds it took. Safe to call again.

        With `headway` there is no grace time: it is killed once it makes none any more.

        Its pipes are closed then: processes that it started may hold the other ends for as long as they like.
        """
        began = time.monotonic()
        if self._process.returncode is None:
            self.send(signal.SIGTERM)
            failpoint(f"end {self.name}")
            try:
                await (self.wait(grace_s) if headway is None else headway.wait(self.wait()))
            except TimeoutError:
                self.send(signal.SIGKILL)
                await self.wait()
        self._transport.close()
        return time.monotonic() - began


def exit_with_parent(parent: int) -> list[str]:
    """Run a command only if the parent is still alive. PR_SET_PDEATHSIG does not cover a parent that died before."""
    return ["/bin/sh", "-c", f'[ "$PPID" = {parent} ] && exec "$@"', "sh"]


class LocalHost:
    """The host that mydyno itself runs on."""

    def __init__(self, cookie: str, server_user: str | None, undo: UndoJournal | None = None) -> None:
        self.cookie = cookie
        self.server_user = server_user
        self._undo = undo
        self.timing = asyncio.Lock()
        """Held while something is timed that other timings would disturb: proofs of several links, one by one."""
        self.bare_link: Transfer | None = None
        """What a link between two namespaces carries without a cap: the first one's, before it was shaped."""
        self.held_settings = HeldSettings()
        """Kernel settings that several servers need at the same time."""

    @property
    def server_owner(self) -> Owner | None:
        """The ids of the server's user; None: the present one."""
        return None if self.server_user is None else ids_of(self.server_user)

    @property
    def undo(self) -> UndoJournal:
        """Where each change to this host is written before it is made. Raises BugError outside of a study."""
        if self._undo is None:
            raise BugError("a change of this host needs an undo journal")
        return self._undo

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The environment of a child: the kept variables, LC_ALL=C.UTF-8, the study's cookie, and `extra`."""
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        return {**kept, "LC_ALL": "C.UTF-8", COOKIE: self.cookie, **extra}

    def command(
        self, argv: Sequence[str], environment: Mapping[str, str], as_server: bool, folders: Sequence[Path] = ()
    ) -> list[str]:
        """argv as it will be executed: dies with its parent; as the server's user if requested and possible.

        `environment` is set by env(1) as the last step, so that LD_PRELOAD acts on the program alone and not on the
        wrappers before it.
        """
        command = [
            *exit_with_parent(os.getpid()),
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            *argv,
        ]
        if as_server and self.server_user is not None:
            uid, gid = ids_of(self.server_user)
            user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
            return entering_command([*user, "--pdeathsig", "KILL", "--", *command], folders, (uid, gid))
        return ["setpriv", "--pdeathsig", "KILL", "--", *command]

    async def run(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        as_server: bool = False,
        folders: Sequence[Path] = (),
        timeout_s: float = 600.0,
        unbounded: bool = False,
    ) -> Completed:
        """Run a command to its end. A time-out kills it and counts as exit code 124, as timeout(1) does.

        `unbounded`: the time-out begins anew whenever the command makes headway.
        """
        process = await self.start(
            argv, environment=environment, cwd=cwd, as_server=as_server, folders=folders, stdout=asyncio.subprocess.PIPE
        )
        try:
            ended = process.streams.communicate()
            waiting = Headway(process.pid, timeout_s).wait(ended) if unbounded else asyncio.wait_for(ended, timeout_s)
            output, _ = await waiting
        except TimeoutError:
            await process.end(0.0)
            return Completed(tuple(argv), 124, f"timed out after {timeout_s:.0f} s")
        except asyncio.CancelledError:
            await process.end(1.0)
            raise
        return Completed(tuple(argv), process.exit_code or 0, (output or b"").decode(errors="replace"))

    async def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        as_server: bool = False,
        folders: Sequence[Path] = (),
        stdout: int | None = None,
        stdin: int | None = None,
        entering: Sequence[str] = (),
    ) -> Process:
        """Start a process in a session of its own (Ctrl-C does not reach it); stderr goes where stdout goes.

        `entering` is a command put before all others, so that it still has mydyno's own rights: it enters a namespace
        or a group and executes what follows. `stdout` and `stdin` are file descriptors or asyncio.subprocess.PIPE; by
        default nothing is read or kept.
        Raises HostError if the program cannot be started.
        """
        command = [*entering, *self.command(argv, environment or {}, as_server, folders)]
        user = self.server_user if as_server else None
        started = report_start(argv, cwd=cwd, entering=entering, user=user)
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _Protocol(started, loop),
                *command,
                cwd=cwd,
                env=self.environment({}),
                stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
                stdout=asyncio.subprocess.DEVNULL if stdout is None else stdout,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            started.ended(127)
            raise HostError(
                f"cannot start {argv[0]}: {error}", "setpriv and env come with util-linux, coreutils"
            ) from error
        process = Process(transport, protocol, argv)
        failpoint(f"start {process.name}")
        return process


def closed_ancestors(folders: Sequence[Path], user: Owner) -> list[Path]:
    """The topmost ancestors (or the folders themselves) that the user may not enter, without repeats."""
    closed: list[Path] = []
    for folder in folders:
        for ancestor in [*reversed(folder.parents), folder]:
            if not _may_enter(ancestor, user):
                if ancestor not in closed:
                    closed.append(ancestor)
                break
    return closed


def _may_enter(folder: Path, user: Owner) -> bool:
    facts = folder.stat()
    if facts.st_uid == user[0]:
        return bool(facts.st_mode & stat.S_IXUSR)
    if facts.st_gid == user[1]:
        return bool(facts.st_mode & stat.S_IXGRP)
    return bool(facts.st_mode & stat.S_IXOTH)


def entering_command(argv: Sequence[str], folders: Sequence[Path], user: Owner) -> list[str]:
    """argv, wrapped so that the folders can be entered by the user; argv itself where all are open already.

    Raises HostError for a folder that is closed itself: it would have to be opened for everybody.
    """
    folders = list(dict.fromkeys(folder.resolve() for folder in folders))
    for folder in folders:
        if not _may_enter(folder, user):
            raise HostError(
                f"the server's user may not enter {folder}",
                "put what the server needs there into a folder of its own that others may enter",
            )
    covers = closed_ancestors(folders, user)
    if not covers:
        return list(argv)
    needed = [folder for folder in folders if any(cover in folder.parents for cover in covers)]
    needed = [folder for folder in needed if not any(other in folder.parents for other in needed)]
    lines = ["set -e"]
    # A covered folder is reached through a descriptor opened before: mount -c keeps /proc/self/fd from being resolved.
    lines += [f"exec {number}<{shlex.quote(str(folder))}" for number, folder in enumerate(needed, 3)]
    lines += [f"mount -t tmpfs -o mode=0755,size=64k mydyno {shlex.quote(str(cover))}" for cover in covers]
    for number, folder in enumerate(needed, 3):
        quoted = shlex.quote(str(folder))
        lines += [f"mkdir -p {quoted}", f"mount -c --bind /proc/self/fd/{number} {quoted}", f"exec {number}<&-"]
    lines.append('exec "$@"')
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", "\n".join(lines), "sh", *argv]
