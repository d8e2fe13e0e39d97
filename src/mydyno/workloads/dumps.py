"""What a dump consists of, by `dynoload sql check`: the same reading as before it is loaded. Other files likewise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import UserError
from mydyno.hosts.commands import run_command
from mydyno.model.definition.quantities import format_bytes

CHECK_TIMEOUT_S = 3600.0
"""A dump of 100 GB is read in some minutes."""


@dataclass(frozen=True)
class DumpContents:
    """What of a dump is executed, and what is not."""

    statements: int
    size_bytes: int
    omitted: tuple[str, ...]
    """Reasons, each with the number of statements and the line of the first."""

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"dump of {self.statements:,} statements, {format_bytes(self.size_bytes)}",
            *(f"left out: {reason}" for reason in self.omitted),
        ]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> DumpContents:
        """From the program's JSON."""
        omitted = tuple(f"{one['reason']} ({one['count']}, from line {one['line']} on)" for one in found["omitted"])
        return cls(found["statements"], found["bytes"], omitted)


def run_check(program: Path, arguments: Sequence[str]) -> str:
    """What dynoload prints about a file that it reads whole, without a server. Raises UserError where it refuses it."""
    done = run_command([str(program), *arguments], CHECK_TIMEOUT_S)
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("dynoload: "))
    return done.stdout
