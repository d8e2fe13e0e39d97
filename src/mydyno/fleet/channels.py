"""Programs on client hosts, as a block and its controller speak of them: JSON lines beside those of messages.py.

A block does not log in anywhere. It asks its controller, which has an SSH connection to every host of the group, to
start a program on a client host, and the controller passes lines on in both directions. So no host needs a key of
another, nothing listens on a port, and whatever ends a connection ends the programs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from mydyno.model.definition.experiment import Frozen

LINE_LIMIT_BYTES = 64 << 20
"""Longest line of a program: an agent's interval has complete histograms (measured: up to 120 kB)."""
ProgramName = Literal["agent", "network", "probe"]
MYDYNO = "mydyno"
PROGRAMS: dict[ProgramName, tuple[str, ...]] = {
    "agent": ("dynoload", "agent"),
    "network": (MYDYNO, "client-network"),
    "probe": ("dynoprobe", "--interval-ms=1000", "--output=-"),
}
"""What a block can have started on a client host; nothing else."""


class Opened(Frozen):
    """Block to controller: start a program."""

    event: Literal["opened"] = "opened"
    channel: int
    client: str
    program: ProgramName


class Sent(Frozen):
    """Block to controller: a line for the program's standard input."""

    event: Literal["sent"] = "sent"
    channel: int
    line: str = Field(repr=False)
    """An agent's job has the load's password."""


class Closed(Frozen):
    """Block to controller: no more input; the program is to end."""

    event: Literal["closed"] = "closed"
    channel: int


class Received(Frozen):
    """Controller to block: a line of the program's standard output."""

    event: Literal["received"] = "received"
    channel: int
    line: str


class Ended(Frozen):
    """Controller to block: the program has ended."""

    event: Literal["ended"] = "ended"
    channel: int
    why: str = ""
    """Empty if it ended because its input was closed."""


ToBlock = Annotated[Received | Ended, Field(discriminator="event")]
_TO_BLOCK: TypeAdapter[Received | Ended] = TypeAdapter(ToBlock)


def parse_to_block(line: str) -> Received | Ended:
    """One line of a block's standard input. Raises ValueError for anything else."""
    return _TO_BLOCK.validate_json(line)
