"""The network of a client host, as a block requests it: requests, answers and errors over the channel's lines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.fleet.block_clients import BlockClients, answer
from mydyno.fleet.messages import Closed, Ended, Opened, Received, Sent
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.hosts.network.load_end import ClassState, ShapedPort
from mydyno.model.definition.host_groups import LoadHosts

STATE = ClassState("98439Kbit", 1500, 3, 0.002)


@dataclass
class FakeEnd:
    """A load host's network, which remembers what was requested."""

    name = "far"
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def examine(self, address: str, shaped: bool, latency: bool) -> str:
        self.asked.append((address, shaped, latency))
        if latency:
            raise HostError("this kernel has no netem", "omit latency")
        return "eth1"

    async def shape(self, address: str, ports: tuple[int, ...], shape: Shape) -> ShapedPort:
        self.asked.append((address, ports, shape))
        return ShapedPort("eth1", 7)

    async def state(self, shaped: ShapedPort) -> ClassState:
        self.asked.append((shaped,))
        return STATE

    async def unshape(self, shaped: ShapedPort) -> str | None:
        self.asked.append((shaped,))
        return "the shaping of eth1"

    async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
        self.asked.append((address, port, sends, window_s))
        return Transfer(1e9, 0.5)

    async def reach(self, address: str, port: int) -> None:
        self.asked.append((address, port))


class Wire:
    """A block's clients, whose `mydyno client-network` is the fake end in this process."""

    def __init__(self, end: FakeEnd) -> None:
        self.end = end
        self.opened: list[str] = []
        self.closed = 0
        self.dies = False
        self.clients = BlockClients(LoadHosts(names=("far",), address="10.0.0.1"), self.emit)
        self._requests: list[Sent] = []

    def emit(self, message: Opened | Sent | Closed) -> None:
        if isinstance(message, Opened):
            self.opened.append(message.program)
        elif isinstance(message, Closed):
            self.closed += 1
            self.clients.take(Ended(channel=message.channel).model_dump_json())
        else:
            self._requests.append(message)

    async def asked(self, work: Any) -> Any:
        """The result of a coroutine that makes one request."""
        task = asyncio.ensure_future(work)
        while not self._requests:
            await asyncio.sleep(0)
        request = self._requests.pop()
        if self.dies:
            self.clients.take(Ended(channel=request.channel, why="killed").model_dump_json())
        else:
            line = (await answer(self.end, request.line)).model_dump_json()
            self.clients.take(Received(channel=request.channel, line=line).model_dump_json())
        return await task


async def test_every_request_arrives_as_it_was_made_and_its_answer_comes_back() -> None:
    wire = Wire(FakeEnd())
    (end,) = wire.clients.ends
    assert await wire.asked(end.examine("10.0.0.1", True, False)) == "eth1"
    shape = Shape(1e9, "50us")
    shaped = await wire.asked(end.shape("10.0.0.1", (3306, 3307), shape))
    assert shaped == ShapedPort("eth1", 7)
    assert await wire.asked(end.state(shaped)) == STATE
    assert await wire.asked(end.transfer("10.0.0.1", 3307, True, 2.1)) == Transfer(1e9, 0.5)
    await wire.asked(end.reach("10.0.0.1", 3306))
    assert await wire.asked(end.unshape(shaped)) == "the shaping of eth1"
    assert wire.end.asked == [
        ("10.0.0.1", True, False), ("10.0.0.1", (3306, 3307), shape), (shaped,), ("10.0.0.1", 3307, True, 2.1),
        ("10.0.0.1", 3306), (shaped,),
    ]  # fmt: skip
    assert wire.opened == ["network"], "one program for all requests"
    await wire.clients.close()
    assert wire.closed == 1


async def test_an_error_names_the_host_and_keeps_its_hint() -> None:
    wire = Wire(FakeEnd())
    (end,) = wire.clients.ends
    with pytest.raises(HostError, match="the load host far: this kernel has no netem") as caught:
        await wire.asked(end.examine("10.0.0.1", True, True))
    assert caught.value.hint == "omit latency"


async def test_a_killed_program_is_a_lost_host() -> None:
    wire = Wire(FakeEnd())
    wire.dies = True
    (end,) = wire.clients.ends
    with pytest.raises(HostError, match="the load host far: killed"):
        await wire.asked(end.examine("10.0.0.1", True, False))


async def test_a_line_of_another_version_is_answered_with_an_error() -> None:
    answered = await answer(FakeEnd(), '{"request": "dance"}')
    assert answered.error.startswith("not a request of this version")


async def test_what_a_request_lacks_or_a_program_prints_wrongly_is_answered_with_an_error() -> None:
    lacking = await answer(FakeEnd(), '{"method": "examine", "arguments": {"address": "10.0.0.1"}}')
    assert lacking.error.startswith("examine: ") and "shaped" in lacking.error
