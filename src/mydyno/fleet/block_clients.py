"""The client hosts of a block: on its own side a Unix socket for each agent, and samplers, by way of the controller; on
theirs `mydyno client-network`, which shapes and times the network of its host until its input ends.

dynoload connects to the socket as if the agent were there. A client's samples are brought to this host's clock
(FarSamples). Requests and answers of `client-network` are JSON lines, in order. However it ends, everything is undone;
after kill -9 by the next one on this host, or by `mydyno clean`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter

from mydyno.drivers.base import Agent
from mydyno.errors import HostError, MydynoError
from mydyno.execution.environments.probe import CLIENT_SCOPE, ClientSampler, FarSamples
from mydyno.fleet.messages import (
    HEARTBEAT_S,
    LINE_LIMIT_BYTES,
    SILENCE_S,
    Closed,
    Ended,
    Opened,
    ProgramName,
    Received,
    Sent,
    parse_to_block,
)
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.hosts.network.load_end import ClassState, LoadEnd, OwnLoadEnd, PortShaping, ShapedPort
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal, clean_up
from mydyno.model.definition.experiment import Frozen
from mydyno.model.definition.host_groups import LoadHosts
from mydyno.store.samples import Sample

NetworkMethod = Literal["examine", "shape", "state", "unshape", "transfer", "reach"]
"""The methods of LoadEnd."""


class NetworkRequest(Frozen):
    """A call of a method of LoadEnd."""

    method: NetworkMethod
    arguments: dict[str, Any]


class NetworkAnswer(Frozen):
    """The answer to one request; answers come in the order of the requests."""

    result: Any = None
    error: str = ""
    """Empty if it was done."""
    hint: str = ""


@cache
def types_of(method: str) -> dict[str, TypeAdapter[Any]]:
    """{argument: its type} of a method of LoadEnd, and "return"."""
    return {name: TypeAdapter(kind) for name, kind in get_type_hints(getattr(LoadEnd, method)).items()}


NAME = "client-network"
"""Name of the undo journal of this program."""
Write = Callable[[str], None]


async def serve_block(paths: HostPaths, write: Write, silence_s: float = SILENCE_S) -> list[str]:
    """Answer requests until standard input ends or is silent for too long; returns what could not be undone."""
    clean_up(paths.undo, lambda text: print(text, file=sys.stderr))
    undo = UndoJournal.begin(paths.undo, NAME, paths.undo)
    try:
        await _serve(OwnLoadEnd(PortShaping(undo)), write, silence_s)
    finally:
        left = await asyncio.to_thread(undo.undo_all)
    return left


async def _serve(end: LoadEnd, write: Write, silence_s: float) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    )
    try:
        while line := await asyncio.wait_for(reader.readline(), silence_s):
            if line.strip():  # a heartbeat is empty
                write((await answer(end, line.decode())).model_dump_json())
    except TimeoutError:
        return
    finally:
        transport.close()


async def answer(end: LoadEnd, line: str) -> NetworkAnswer:
    """The answer to one request; whatever goes wrong is part of it."""
    try:
        request = NetworkRequest.model_validate_json(line)
        types = types_of(request.method)
        given = {name: types[name].validate_python(value) for name, value in request.arguments.items()}
    except (KeyError, ValueError) as error:
        return NetworkAnswer(error=f"not a request of this version: {error}")
    try:
        found = await getattr(end, request.method)(**given)
    except MydynoError as error:
        return NetworkAnswer(error=error.message, hint=error.hint or "")
    except (TypeError, ValueError) as error:  # without an argument, or output of a program that cannot be read
        return NetworkAnswer(error=f"{request.method}: {error}")
    return NetworkAnswer(result=types["return"].dump_python(found, mode="json"))


EmitChannel = Callable[[Opened | Sent | Closed], None]
END_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0
"""For a request to the network of a client host."""


class Channel:
    """A program on a client host."""

    def __init__(self, number: int, client: str, emit: EmitChannel) -> None:
        self.number = number
        self.client = client
        self.closed = False
        self.ended = asyncio.Event()
        self.why = ""
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        """None: the program has ended."""
        self._emit = emit

    def send(self, line: str) -> None:
        """A line for its standard input."""
        if not self.closed:
            self._emit(Sent(channel=self.number, line=line))

    def close(self) -> None:
        """End of its input, which ends it. Safe to call again."""
        if not self.closed:
            self.closed = True
            self._emit(Closed(channel=self.number))

    def take(self, message: Received | Ended) -> None:
        """What the controller passes on."""
        if isinstance(message, Received):
            self.lines.put_nowait(message.line)
        else:
            self.why = message.why
            self.ended.set()
            self.lines.put_nowait(None)


class BlockClients:
    """All client hosts of a block. open() before use, close() afterwards."""

    def __init__(self, hosts: LoadHosts, emit: EmitChannel) -> None:
        self.address = hosts.address
        self.names = hosts.names
        self._emit = emit
        self._numbers = itertools.count(1)
        self._channels: dict[int, Channel] = {}
        self._lost: list[str] = []
        self.ends = tuple(ChannelLoadEnd(name, self) for name in self.names)
        self._servers: list[asyncio.Server] = []
        self._folder = Path()

    async def open(self, folder: Path) -> None:
        """Make the sockets, in a folder that only this user may enter. Raises HostError for a foreign address."""
        check_address(self.address)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        for number, name in enumerate(self.names, 1):
            serve = partial(self._serve, name)
            self._servers.append(await asyncio.start_unix_server(serve, self._socket(number), limit=LINE_LIMIT_BYTES))

    async def close(self) -> None:
        """End every program and remove the sockets."""
        for server in self._servers:
            server.close()
        await asyncio.gather(*(end.close() for end in self.ends))
        for channel in self._channels.values():
            channel.close()
        for number in range(1, len(self.names) + 1):
            self._socket(number).unlink(missing_ok=True)

    def take(self, line: str) -> None:
        """A line of this process's standard input; heartbeats are empty."""
        if not line.strip():
            return
        try:
            message = parse_to_block(line)
        except ValueError:
            return  # of another version, or noise: the controller checks what it gets back
        channel = self._channels.get(message.channel)
        if channel is None:
            return
        if isinstance(message, Ended):
            del self._channels[message.channel]
            if not channel.closed or message.why:
                self._lost.append(f"the load host {channel.client}: {message.why or 'its program ended'}")
        channel.take(message)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Sockets that lead to an agent on each client host."""
        return tuple(Agent(name, f"unix:{self._socket(number)}") for number, name in enumerate(self.names, 1))

    def samplers(self) -> list[ClientSampler]:
        """New samplers of one run."""
        return [_ChannelSampler(name, self) for name in self.names]

    def check(self) -> None:
        """Raises HostError if a client host was lost: the block says nothing about its arms then."""
        if self._lost:
            raise HostError("; ".join(dict.fromkeys(self._lost)))

    def start(self, client: str, program: ProgramName) -> Channel:
        """Have a program started on a client host."""
        channel = Channel(next(self._numbers), client, self._emit)
        self._channels[channel.number] = channel
        self._emit(Opened(channel=channel.number, client=client, program=program))
        return channel

    def _socket(self, number: int) -> Path:
        return self._folder / f"agent-{number}.sock"

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of dynoload: an agent of its own."""
        channel = self.start(name, "agent")
        there = asyncio.create_task(_pass_on(reader, channel))
        try:
            while (line := await channel.lines.get()) is not None:
                writer.write(f"{line}\n".encode())
                await writer.drain()
        except OSError:
            pass  # dynoload has ended, which closes the channel
        finally:
            there.cancel()
            channel.close()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, channel: Channel) -> None:
    with contextlib.suppress(OSError, ValueError):  # ValueError: a line beyond the limit
        while line := await reader.readline():
            channel.send(line.decode().removesuffix("\n"))
    channel.close()


class ChannelLoadEnd:
    """The network of one client host, by `mydyno client-network` there, which is started with the first request."""

    def __init__(self, name: str, clients: BlockClients) -> None:
        self.name = name
        self._clients = clients
        self._channel: Channel | None = None
        self._beating: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def examine(self, address: str, shaped: bool, latency: bool) -> str:
        """See LoadEnd."""
        return str(await self._call("examine", address=address, shaped=shaped, latency=latency))

    async def shape(self, address: str, ports: tuple[int, ...], shape: Shape) -> ShapedPort:
        """See LoadEnd."""
        made: ShapedPort = await self._call("shape", address=address, ports=ports, shape=shape)
        return made

    async def state(self, shaped: ShapedPort) -> ClassState:
        """See LoadEnd."""
        found: ClassState = await self._call("state", shaped=shaped)
        return found

    async def unshape(self, shaped: ShapedPort) -> str | None:
        """See LoadEnd."""
        left: str | None = await self._call("unshape", shaped=shaped)
        return left

    async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
        """See LoadEnd."""
        timed: Transfer = await self._call("transfer", address=address, port=port, sends=sends, window_s=window_s)
        return timed

    async def reach(self, address: str, port: int) -> None:
        """See LoadEnd."""
        await self._call("reach", address=address, port=port)

    async def close(self) -> None:
        """End the program, and wait until it has undone what is left."""
        if self._beating is not None:
            self._beating.cancel()
        if self._channel is not None:
            self._channel.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._channel.ended.wait(), END_TIMEOUT_S)

    async def _call(self, method: NetworkMethod, **arguments: Any) -> Any:
        """The result of a method of LoadEnd there. Raises HostError."""
        types = types_of(method)
        given = {name: types[name].dump_python(value, mode="json") for name, value in arguments.items()}
        request = NetworkRequest(method=method, arguments=given)
        async with self._turn:
            self._clients.check()
            if self._channel is None:
                self._channel = self._clients.start(self.name, "network")
                self._beating = asyncio.create_task(self._beat(self._channel))
            self._channel.send(request.model_dump_json())
            line = await asyncio.wait_for(self._channel.lines.get(), ANSWER_TIMEOUT_S)
        if line is None:
            self._clients.check()
            raise HostError(f"the load host {self.name}: mydyno client-network ended")
        answered = NetworkAnswer.model_validate_json(line)
        if answered.error:
            raise HostError(f"the load host {self.name}: {answered.error}", answered.hint)
        return types["return"].validate_python(answered.result)

    async def _beat(self, channel: Channel) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            channel.send("")


class _ChannelSampler:
    """dynoprobe on one client host."""

    def __init__(self, name: str, clients: BlockClients) -> None:
        self.name = name
        self._clients = clients
        self._channel: Channel | None = None
        self._reading: asyncio.Task[None] | None = None
        self._far = FarSamples(lambda scope, _name: f"{CLIENT_SCOPE}:{name}" if scope == "host" else "")
        self._words: list[str] = []

    async def start(self) -> None:
        """Have it started."""
        self._clients.check()
        self._channel = self._clients.start(self.name, "probe")
        self._reading = asyncio.create_task(self._read(self._channel))

    def so_far(self) -> list[Sample]:
        """On this host's clock."""
        return self._far.ours()

    async def stop(self) -> list[str]:
        """Close its input and wait for its end."""
        if self._channel is None or self._reading is None:
            return []
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reading, END_TIMEOUT_S)
        if not self._far:
            self._words.append(f"the load host {self.name} sent no samples")
        return self._words

    async def _read(self, channel: Channel) -> None:
        while (line := await channel.lines.get()) is not None:
            self._far.take(line)


def check_address(address: str) -> None:
    """Raises HostError if servers of this host cannot listen on it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as trying:
        try:
            trying.bind((address, 0))
        except OSError as error:
            raise HostError(
                f"a server cannot listen on {address}: {error.strerror}",
                "address of the [[group]] must be an address of the server's host: see `ip address` there",
            ) from error
