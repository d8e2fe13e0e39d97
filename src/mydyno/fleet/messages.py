"""Messages between the controller and `mydyno block` on a host: JSON lines on its standard output and input.

Among them those of programs on client hosts. A block does not log in anywhere. It asks its controller, which has an SSH
connection to every host of the group, to start a program on a client host, and the controller passes lines on in both
directions. So no host needs a key of another, nothing listens on a port, and whatever ends a connection ends the
programs.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.model.definition.experiment import DesignKind, Frozen
from mydyno.model.stored.live import LiveSecond
from mydyno.model.stored.records import SliceRecord

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


HEARTBEAT_S = 15.0
"""The controller writes a line to the block's standard input this often."""
SILENCE_S = 120.0
"""Without a line for this time, the block undoes everything and ends."""
GRACE_S = 90.0
"""For a block to stop its servers and undo everything."""


class Said(Frozen):
    """A line for a person."""

    event: Literal["said"] = "said"
    text: str


class Progressed(Frozen):
    """What is under way now."""

    event: Literal["progressed"] = "progressed"
    text: str


class Lived(Frozen):
    """What the block does in this second, for live.jsonl."""

    event: Literal["lived"] = "lived"
    second: LiveSecond


class Prepared(Frozen):
    """The host can execute blocks: programs and servers are in its cache, and the data is made."""

    event: Literal["prepared"] = "prepared"
    design: DesignKind
    why: str
    versions: dict[str, str]
    """Server, driver, allocators, engine."""
    facts: dict[str, Any]
    """Facts about the host: see hosts/facts.py."""


class Finished(Frozen):
    """The block is complete in the host's study folder."""

    event: Literal["finished"] = "finished"
    block: int
    versions: dict[str, str]
    files: dict[str, str]
    """Path below the block's folder → SHA-256."""
    overhead_s: float | None = None
    """For an interleaved block, the time before the first slice and after the last one; None for other designs."""
    journal: tuple[dict[str, Any], ...] = ()
    """Events of the host's journal since the block began."""


AnyMessage = Said | Progressed | Lived | Prepared | Finished | Opened | Sent | Closed
Message = Annotated[AnyMessage, Field(discriminator="event")]
_MESSAGES: TypeAdapter[AnyMessage] = TypeAdapter(Message)


def parse_message(line: str) -> AnyMessage:
    """One line. Raises ValueError (pydantic.ValidationError is one) for anything else."""
    return _MESSAGES.validate_json(line)


def manifest(folder: Path) -> dict[str, str]:
    """Every file below a folder → its SHA-256."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def slice_text(record: SliceRecord) -> str:
    """What a slice's end says of the progress; never a rate of one arm beside another's."""
    return f"{record.step} cycle {record.cycle}"
