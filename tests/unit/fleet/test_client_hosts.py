# mypy: disable-error-code="arg-type"
"""Programs on client hosts: what a block requests, what its controller starts, and what becomes of a lost one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.fleet.block_clients import BlockClients, check_address
from mydyno.fleet.installation import Say
from mydyno.fleet.links import ClientHosts
from mydyno.fleet.messages import Closed, Opened, Sent, parse_message
from mydyno.fleet.study_files import StudyFile, StudyFiles
from mydyno.model.definition.host_groups import LoadHosts
from tests.support.patience import HANG_S, until

HOSTS = LoadHosts(names=("far", "farther"), address="127.0.0.1")
SAMPLE = '{"record":"sample","monotonic_ns":1000,"metrics":{"host":{"cpu_user_pct":80.0},"disk:a":{"x":1.0}}}'


@dataclass
class Echo:
    """A program that repeats each line until its input ends; or that ends by itself after so many."""

    command: list[str]
    ends_after: int | None = None
    ended: bool = False
    stderr_tail: str = ""
    _lines: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    async def write(self, text: str) -> None:
        self._lines.put_nowait(text.removesuffix("\n"))

    def close_stdin(self) -> None:
        self._lines.put_nowait(None)

    async def lines(self) -> AsyncIterator[str]:
        if self.command[0] == "dynoprobe":
            yield SAMPLE
        seen = 0
        while self.ends_after != seen and (line := await self._lines.get()) is not None:
            seen += 1
            yield f"{line} again"
        self.ended = True

    async def wait(self) -> int:
        return 0 if self.ends_after is None else 137

    async def end(self) -> None:
        self.close_stdin()


@dataclass
class EchoLink:
    """A client host."""

    ends_after: int | None = None
    unreachable: bool = False
    started: list[Echo] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    copied: dict[str, list[str]] = field(default_factory=dict)

    async def open(self) -> None:
        if self.unreachable:
            raise HostError("no route to host", "is it up?")

    async def start_program(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Echo:
        self.started.append(Echo([name, *arguments], self.ends_after))
        self.environments.append(dict(environment))
        return self.started[-1]

    async def copy_files(self, study: str, files: StudyFiles, say: Say) -> str | None:
        del say
        self.copied[study] = [one.name for one in files.files]
        return "/there/files"

    async def write_files(self, study: str, files: dict[str, str]) -> str:
        raise AssertionError((study, files))

    async def start(self, arguments: Sequence[str]) -> Echo:
        raise AssertionError(arguments)

    async def fetch(self, folder: str, to: Path) -> None:
        raise AssertionError((folder, to))

    async def remove(self, study: str) -> None:
        raise AssertionError(study)

    async def close(self) -> None:
        return None


class Wire:
    """A block's clients and its controller's session, connected by the lines that they exchange."""

    def __init__(self, links: dict[str, EchoLink]) -> None:
        self.clients = BlockClients(HOSTS, self._to_controller)
        self.session = ClientHosts(links).session(self)
        self.ended = False
        self._passing: set[asyncio.Task[None]] = set()
        self._order = asyncio.Lock()

    def _to_controller(self, message: Opened | Sent | Closed) -> None:
        parsed = parse_message(message.model_dump_json())
        assert isinstance(parsed, Opened | Sent | Closed)
        task = asyncio.create_task(self._pass(parsed))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, message: Opened | Sent | Closed) -> None:
        async with self._order:
            await self.session.take(message)

    # What the session has of the block:
    stderr_tail = ""

    async def write(self, text: str) -> None:
        assert text.endswith("\n")
        self.clients.take(text)

    def lines(self) -> AsyncIterator[str]:
        raise AssertionError

    async def wait(self) -> int:
        return 0

    def close_stdin(self) -> None:
        raise AssertionError

    async def end(self) -> None:
        self.ended = True


async def test_an_agent_is_reached_by_its_socket_and_ends_with_the_connection(tmp_path: Path) -> None:
    links = {"far": EchoLink(), "farther": EchoLink()}
    wire = Wire(links)
    await wire.clients.open(tmp_path / "clients")
    assert (tmp_path / "clients").stat().st_mode & 0o077 == 0
    agents = wire.clients.agents
    assert [agent.name for agent in agents] == ["far", "farther"]
    reader, writer = await asyncio.open_unix_connection(agents[1].command.removeprefix("unix:"))
    for number in range(3):
        writer.write(f"line {number}\n".encode())
        assert await asyncio.wait_for(reader.readline(), HANG_S) == f"line {number} again\n".encode()
    (agent,) = links["farther"].started
    assert agent.command == ["dynoload", "agent"]
    assert links["far"].started == []
    writer.close()
    await until(lambda: agent.ended)
    await wire.session.close()
    wire.clients.check()
    assert not wire.session.lost
    await wire.clients.close()
    assert list((tmp_path / "clients").iterdir()) == []


async def test_an_agent_finds_modules_in_the_copies_of_its_own_host(tmp_path: Path) -> None:
    links = {"far": EchoLink(), "farther": EchoLink()}
    wire = Wire(links)
    clients = ClientHosts(links)
    files = StudyFiles(
        tuple(StudyFile(tmp_path / name, f"own/{name}", "0", 1) for name in ("a.lua", "b.lua", "c.jsonl")),
        script_folders=("own",),
    )
    await clients.copy_files("study", files, lambda _: None)
    wire.session = clients.session(wire)
    assert links["far"].copied == {"study": ["own/a.lua", "own/b.lua", "own/c.jsonl"]}
    await wire.clients.open(tmp_path / "sockets")
    try:
        wire.clients.start("far", "agent")
        wire.clients.start("far", "probe")
        while len(links["far"].environments) < 2:
            await asyncio.sleep(0)
        assert links["far"].environments == [{"LUA_PATH": "/there/files/own/?.lua;;"}, {}]
    finally:
        await wire.clients.close()
        await wire.session.close()


async def test_an_agent_that_ends_by_itself_ends_the_block_and_blames_no_arm(tmp_path: Path) -> None:
    wire = Wire({"far": EchoLink(ends_after=1), "farther": EchoLink()})
    await wire.clients.open(tmp_path / "clients")
    reader, writer = await asyncio.open_unix_connection(wire.clients.agents[0].command.removeprefix("unix:"))
    writer.write(b"line\n")
    assert await asyncio.wait_for(reader.readline(), HANG_S) == b"line again\n"
    assert await asyncio.wait_for(reader.read(), HANG_S) == b"", "the connection is closed"
    writer.close()
    assert wire.session.lost == "the load host far: dynoload ended with exit code 137."
    assert wire.ended, "the controller ends the block"
    with pytest.raises(HostError, match="the load host far: dynoload ended with exit code 137"):
        wire.clients.check()
    await wire.session.close()
    await wire.clients.close()


async def test_samples_of_a_client_have_its_name_and_this_hosts_time() -> None:
    wire = Wire({"far": EchoLink(), "farther": EchoLink()})
    sampler = wire.clients.samplers()[0]
    await sampler.start()
    await until(lambda: bool(sampler.so_far()))
    assert await sampler.stop() == []
    (sample,) = sampler.so_far()
    assert (sample.scope, sample.metric, sample.value) == ("client:far", "cpu_user_pct", 80.0)
    assert sample.unix_ns > 1e18, "its own clock says 1000 ns after its start"
    await wire.session.close()


async def test_a_client_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(HostError, match="the load host far: no route to host"):
        await ClientHosts({"far": EchoLink(unreachable=True), "farther": EchoLink()}).open()


def test_an_address_of_another_host_is_refused() -> None:
    check_address("127.0.0.1")
    with pytest.raises(HostError, match=r"cannot listen on 192\.0\.2\.1"):
        check_address("192.0.2.1")
