"""The client hosts of a group on the controller's side: connected once, and programs started there for its block."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from mydyno.errors import HostError
from mydyno.fleet.installation import Say
from mydyno.fleet.links import HostLink, HostProcess, undo_left
from mydyno.fleet.messages import MYDYNO, PROGRAMS, Closed, Ended, Opened, Received, Sent
from mydyno.fleet.study_files import StudyFiles

END_TIMEOUT_S = 10.0


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
