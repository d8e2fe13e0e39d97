"""`mydyno client-network`: shapes and times the network of this host for a block on another host, until its input ends.

Its requests and answers are JSON lines, in order. However it ends, everything is undone; after kill -9 by the next one
on this host, or by `mydyno clean`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.errors import MydynoError
from mydyno.fleet.messages import SILENCE_S
from mydyno.hosts.network.link import Shape
from mydyno.hosts.network.load_end import LoadEnd, OwnLoadEnd, PortShaping, ShapedPort
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal, clean_up
from mydyno.model.definition.experiment import Frozen


class Examine(Frozen):
    """LoadEnd.examine()."""

    request: Literal["examine"] = "examine"
    address: str
    shaped: bool
    latency: bool

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        return {"card": await end.examine(self.address, self.shaped, self.latency)}


class ShapePorts(Frozen):
    """LoadEnd.shape()."""

    request: Literal["shape"] = "shape"
    address: str
    ports: tuple[int, ...]
    bits_per_s: float | None
    added_latency: str | None

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        shaped = await end.shape(self.address, self.ports, Shape(self.bits_per_s, self.added_latency))
        return {"card": shaped.card, "number": shaped.number}


class ReadClass(Frozen):
    """LoadEnd.state()."""

    request: Literal["state"] = "state"
    card: str
    number: int

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        return dict((await end.state(ShapedPort(self.card, self.number))).__dict__)


class Unshape(Frozen):
    """LoadEnd.unshape()."""

    request: Literal["unshape"] = "unshape"
    card: str
    number: int

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        return {"left": await end.unshape(ShapedPort(self.card, self.number))}


class TimeTransfer(Frozen):
    """LoadEnd.transfer()."""

    request: Literal["transfer"] = "transfer"
    address: str
    port: int
    sends: bool

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        return dict((await end.transfer(self.address, self.port, self.sends)).__dict__)


class Reach(Frozen):
    """LoadEnd.reach()."""

    request: Literal["reach"] = "reach"
    address: str
    port: int

    async def perform(self, end: LoadEnd) -> dict[str, Any]:
        """Do it."""
        await end.reach(self.address, self.port)
        return {}


AnyRequest = Examine | ShapePorts | ReadClass | Unshape | TimeTransfer | Reach
Request = Annotated[AnyRequest, Field(discriminator="request")]
_REQUESTS: TypeAdapter[AnyRequest] = TypeAdapter(Request)


class NetworkAnswer(Frozen):
    """The answer to one request; answers come in the order of the requests."""

    result: dict[str, Any] = Field(default_factory=dict)
    error: str = ""
    """Empty if it was done."""
    hint: str = ""


def parse_request(line: str) -> AnyRequest:
    """One line. Raises ValueError."""
    return _REQUESTS.validate_json(line)


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
        return NetworkAnswer(result=await parse_request(line).perform(end))
    except MydynoError as error:
        return NetworkAnswer(error=error.message, hint=error.hint or "")
    except ValueError as error:
        return NetworkAnswer(error=f"not a request of this version: {error}")
