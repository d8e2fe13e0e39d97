"""Ways to the hosts of a group: the host that mydyno runs on, or one reached by SSH; that of the server, or clients.

All start the same programs there, `mydyno block` and those of the engine, and end them when this process ends. The
client hosts of a group are connected once, and programs are started there for its block.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mydyno.errors import HostError
from mydyno.files.atomic import write_text
from mydyno.fleet.installation import Say, ensure_installed
from mydyno.fleet.messages import GRACE_S, MYDYNO, PROGRAMS, Closed, Ended, Opened, Received, Sent
from mydyno.fleet.messages import LINE_LIMIT_BYTES as CHANNEL_LIMIT_BYTES
from mydyno.fleet.study_files import FOLDER, StudyFiles
from mydyno.hosts.commands import report_start
from mydyno.hosts.local import exit_with_parent
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.hosts.undo import STUDIES
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.definition.quantities import format_bytes

REMOTE_STUDIES = "~/.cache/mydyno/fleet"
CLEAN_TIMEOUT_S = 60.0
TAIL_BYTES = 16 << 10
SAID_BYTES = 1 << 20
"""The copy of a file from this size on is shown."""
END_TIMEOUT_S = 10.0


class HostProcess(Protocol):
    """`mydyno block` or a program of the engine on a host."""

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to standard error."""

    async def write(self, text: str) -> None:
        """Write to its standard input. Raises HostError if it has ended."""

    def lines(self) -> AsyncIterator[str]:
        """Lines of its standard output. Raises HostError if the connection is lost."""

    async def wait(self) -> int:
        """Its exit code. Raises HostError if the connection is lost."""

    def close_stdin(self) -> None:
        """End of its standard input."""

    async def end(self) -> None:
        """SIGTERM; it undoes everything and ends. Does not wait for that."""


class HostLink(Protocol):
    """A host of a group: that of the server, or a client."""

    async def open(self) -> None:
        """Connect, or connect again. Raises HostError."""

    @property
    def connected(self) -> bool:
        """Whether open() was called, and the connection was not lost since."""

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        """Write files into the study's folder on the host; returns the folder. Raises HostError."""

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:
        """Copy files of the experiment into the study's folder on the host, unless it has them; returns their FOLDER.

        None: the host has them at their own paths. Raises HostError.
        """

    async def start(self, arguments: Sequence[str]) -> HostProcess:
        """Start `mydyno` with these arguments. Raises HostError."""

    async def start_program(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> HostProcess:
        """Start a program of the engine. Raises HostError."""

    async def fetch(self, folder: str, to: Path) -> None:
        """Copy a folder of the host to a path that does not exist. Raises HostError."""

    async def remove(self, study: str) -> None:
        """Remove the study's folder on the host."""

    async def close(self) -> None:
        """Disconnect; what was started ends."""


class LocalProcess:
    """A child; it receives SIGTERM when this process ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tail = b""
        self._reader = asyncio.create_task(self._keep_tail())

    @property
    def stderr_tail(self) -> str:
        """The last of its standard error."""
        return self._tail.decode(errors="replace")

    async def write(self, text: str) -> None:
        """Write to its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            await self._process.stdin.drain()
        except OSError as error:
            raise HostError(f"the block on this host ended: {error}") from error

    async def lines(self) -> AsyncIterator[str]:
        """Lines of its standard output."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            yield line.decode(errors="replace").removesuffix("\n")

    async def wait(self) -> int:
        """Its exit code."""
        code = await self._process.wait()
        await self._reader
        return code

    def close_stdin(self) -> None:
        """End of its standard input."""
        assert self._process.stdin is not None
        with suppress(OSError, RuntimeError):
            self._process.stdin.close()

    async def end(self) -> None:
        """SIGTERM."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def _keep_tail(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(TAIL_BYTES):
            self._tail = (self._tail + piece)[-TAIL_BYTES:]


class LocalLink:
    """This host: `mydyno block` as a child."""

    def __init__(self, paths: HostPaths) -> None:
        self._paths = paths
        self._processes: list[LocalProcess] = []

    async def open(self) -> None:
        """Nothing to connect."""

    @property
    def connected(self) -> bool:
        """Always."""
        return True

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        """Write into the cache."""
        folder = self._paths.cache / STUDIES / study
        for name, text in files.items():
            write_text(folder / name, text)
        return str(folder)

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:  # noqa: ARG002
        """They are here."""
        return None

    async def start(self, arguments: Sequence[str]) -> LocalProcess:
        """As a child with the same environment; SIGTERM when this process ends."""
        return await self._start([sys.executable, "-m", "mydyno.cli", *arguments], {})

    async def start_program(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> LocalProcess:
        """As a child, as start() does."""
        return await self._start([str(self._paths.program(name)), *arguments], environment)

    async def _start(self, argv: Sequence[str], environment: Mapping[str, str]) -> LocalProcess:
        command = ["setpriv", "--pdeathsig", "TERM", "--", *exit_with_parent(os.getpid()), *argv]
        started = report_start(argv)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=CHANNEL_LIMIT_BYTES,
                env={
                    **os.environ,
                    "MYDYNO_DATA": str(self._paths.data),
                    "MYDYNO_CACHE": str(self._paths.cache),
                    **environment,
                },
            )
        except OSError as error:
            started.ended(127)
            raise HostError(f"cannot start {argv[0]}: {error}") from error
        made = LocalProcess(process)
        self._processes.append(made)
        return made

    async def fetch(self, folder: str, to: Path) -> None:
        """Copy."""
        await asyncio.to_thread(shutil.copytree, folder, to, symlinks=True)

    async def remove(self, study: str) -> None:
        """Remove from the cache."""
        shutil.rmtree(self._paths.cache / STUDIES / study, ignore_errors=True)

    async def close(self) -> None:
        """End what still runs, and wait for it to undo its changes."""
        for process in self._processes:
            await process.end()
        for process in self._processes:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
        self._processes.clear()


class SshLink:
    """A host reached by SSH, prepared by `mydyno hosts prepare`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._host: SshHost | None = None
        self._program = ""

    @property
    def host(self) -> SshHost:
        """The open connection. Raises HostError if there is none."""
        if self._host is None:
            raise HostError(f"{self._address}: not connected")
        return self._host

    async def open(self) -> None:
        """Connect, and find the program of this version."""
        await self.close()
        self._host = await SshHost.connect(self._address)
        self._program = await ensure_installed(self._host)

    @property
    def connected(self) -> bool:
        """Whether the SSH connection is open."""
        return self._host is not None and self._host.connected

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        """Write the files by SFTP, into the cache of the user on the host."""
        folder = await self._folder(study)
        for name, text in files.items():
            await self.host.write_text(f"{folder}/{name}", text)
        return folder

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:
        """Copy the files by SFTP."""
        if not files.files:
            return None
        root = f"{await self._folder(study)}/{FOLDER}"
        for one in files.files:
            if one.size_bytes >= SAID_BYTES:
                say(f"copying {one.path.name}: {format_bytes(one.size_bytes)}")
            await self.host.put_checked(one.path, f"{root}/{one.name}", one.sha256)
        return root

    async def _folder(self, study: str) -> str:
        return REMOTE_STUDIES.replace("~", await self.host.home(), 1) + f"/{study}"

    async def start(self, arguments: Sequence[str]) -> HostProcess:
        """It ends with the connection."""
        return await self.host.start([self._program, *arguments], grace_s=GRACE_S)

    async def start_program(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> HostProcess:
        """From the engine of this version; it ends with the connection."""
        program = f"{self._program.rpartition('/')[0]}/engine/{name}"
        return await self.host.start([program, *arguments], environment=environment)

    async def fetch(self, folder: str, to: Path) -> None:
        """Fetch the folder by SFTP."""
        await self.host.get_tree(folder, to)

    async def remove(self, study: str) -> None:
        """Remove the study's folder by rm(1)."""
        await self.host.run(["rm", "-rf", "--", await self._folder(study)])

    async def close(self) -> None:
        """Disconnect; the host's supervisor ends what was started."""
        if self._host is not None:
            await self._host.close()
            self._host = None


async def undo_left(link: HostLink) -> None:
    """Run `mydyno clean` on a host, which undoes what processes that were killed there left. Raises HostError."""
    process = await link.start(["clean"])
    process.close_stdin()
    try:
        async with asyncio.timeout(CLEAN_TIMEOUT_S):
            said = [line async for line in process.lines()]
            code = await process.wait()
    except TimeoutError:
        raise HostError(f"mydyno clean did not end within {CLEAN_TIMEOUT_S:.0f} s") from None
    if code:
        raise HostError(f"mydyno clean failed: {' '.join([*said, process.stderr_tail.strip()])[-300:]}")


def link_to(group: HostGroup, paths: HostPaths) -> HostLink:
    """The way to a group's server host."""
    return LocalLink(paths) if group.server is None else SshLink(group.server)


class ClientHosts:
    """The hosts of a group's load."""

    def __init__(self, links: Mapping[str, HostLink]) -> None:
        self._links = dict(links)
        self._environments: dict[str, dict[str, str]] = {}
        """Client → that of its agents."""

    def __bool__(self) -> bool:
        return bool(self._links)

    async def open(self) -> None:
        """Connect to each. Raises HostError with the host's name."""
        found = await asyncio.gather(*(link.open() for link in self._links.values()), return_exceptions=True)
        for name, error in zip(self._links, found, strict=True):
            if isinstance(error, HostError):
                raise HostError(f"the load host {name}: {error.message}", error.hint)
            if isinstance(error, BaseException):
                raise error

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> None:
        """Copy what agents may open by themselves. Raises HostError with the host's name."""
        files = files.of_scripts
        for name, link in self._links.items():
            self._environments[name] = files.lua_path(await link.copy_files(study, files, say))

    async def remove(self, study: str) -> None:
        """Remove the study's folder on each. Raises HostError."""
        await asyncio.gather(*(link.remove(study) for link in self._links.values()))

    @property
    def connected(self) -> bool:
        """Whether all are."""
        return all(link.connected for link in self._links.values())

    async def undo_left(self) -> None:
        """Undo what killed programs left there. Raises HostError."""
        await asyncio.gather(*(undo_left(link) for link in self._links.values()))

    async def close(self) -> None:
        """Disconnect; what runs there ends."""
        await asyncio.gather(*(link.close() for link in self._links.values()), return_exceptions=True)

    def session(self, block: HostProcess) -> ClientSession:
        """For one `mydyno block`."""
        return ClientSession(self._links, block, self._environments)


class ClientSession:
    """The programs that one block has started on client hosts."""

    def __init__(
        self, links: Mapping[str, HostLink], block: HostProcess, environments: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._links = links
        self._environments = environments
        self._block = block
        self._inputs: dict[int, asyncio.Queue[str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed: set[int] = set()
        self.lost = ""
        """Why a client host or its program is gone; empty while all is well."""

    async def take(self, message: Opened | Sent | Closed) -> None:
        """What the block wants."""
        if isinstance(message, Opened):
            self._inputs[message.channel] = asyncio.Queue()
            task = asyncio.create_task(self._run(message, self._inputs[message.channel]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif message.channel in self._inputs:
            if isinstance(message, Closed):
                self._closed.add(message.channel)
            self._inputs[message.channel].put_nowait(message.line if isinstance(message, Sent) else None)

    async def close(self) -> None:
        """End everything that still runs, and wait for it."""
        for number, queue in self._inputs.items():
            self._closed.add(number)
            queue.put_nowait(None)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=END_TIMEOUT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, opened: Opened, lines: asyncio.Queue[str | None]) -> None:
        """One program from its start to its end."""
        why = ""
        process: HostProcess | None = None
        try:
            program, *arguments = PROGRAMS[opened.program]
            link = self._link(opened.client)
            if program == MYDYNO:
                process = await link.start(arguments)
            else:
                environment = self._environments.get(opened.client, {}) if opened.program == "agent" else {}
                process = await link.start_program(program, arguments, environment)
            why = await self._attend(opened, process, lines)
        except HostError as error:
            why = f"{error.message}"
        finally:
            if process is not None:
                process.close_stdin()
        if opened.channel in self._closed:
            why = ""  # it was to end
        elif not why:
            why = f"{PROGRAMS[opened.program][0]} ended by itself"
        if why and not self.lost:
            self.lost = f"the load host {opened.client}: {why}"
            await self._block.end()
        self._inputs.pop(opened.channel, None)
        with suppress(HostError):
            await self._block.write(Ended(channel=opened.channel, why=why).model_dump_json() + "\n")

    def _link(self, client: str) -> HostLink:
        link = self._links.get(client)
        if link is None:
            raise HostError(f"{client} is not a client of this group")
        return link

    async def _attend(self, opened: Opened, process: HostProcess, lines: asyncio.Queue[str | None]) -> str:
        """Pass lines on until it ends; returns why it ended."""
        writing = asyncio.create_task(_write(process, lines))
        try:
            async for line in process.lines():
                await self._block.write(Received(channel=opened.channel, line=line).model_dump_json() + "\n")
            code = await process.wait()
        except asyncio.CancelledError:
            await process.end()
            raise
        finally:
            writing.cancel()
        words = process.stderr_tail.strip()[-300:]
        return "" if code == 0 else f"{PROGRAMS[opened.program][0]} ended with exit code {code}. {words}".strip()


async def _write(process: HostProcess, lines: asyncio.Queue[str | None]) -> None:
    with suppress(HostError):  # its end is seen by who reads its output
        while (line := await lines.get()) is not None:
            await process.write(f"{line}\n")
        process.close_stdin()
