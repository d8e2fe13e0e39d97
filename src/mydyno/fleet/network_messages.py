"""Requests of a block to `mydyno client-network` on a host of its load, and the answers: JSON lines, in order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.hosts.network.link import Shape
from mydyno.hosts.network.load_end import LoadEnd, ShapedPort
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
