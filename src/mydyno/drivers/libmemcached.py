"""What libmemcached's load programs share: where they come from, and how one is run to its end.

Debian 12's libmemcached-tools 1.1 calls them memcslap and memcaslap; until 1.0 they were memslap and memaslap, and so
they still call themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

from mydyno.drivers.base import CompletedProgram, PackagedDriver, StepContext, run_measured
from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import Process
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.servers.sql import Address

GRACE_S = 30.0
WORDS_OF_FAILURE = re.compile(r"SERVER_ERROR|CLIENT_ERROR|^ERROR|Can't connect|Connection refused|[Ff]ail|assert", re.M)
NO_OPTION = "options.{}: {} has no such option"


class LibmemcachedProgram(PackagedDriver):
    """One of the two programs."""

    package = "libmemcached-tools"
    programs: tuple[str, ...] = ()
    """Its file by its new and its old name."""
    options: frozenset[str] = frozenset()
    """The workload options that it supports."""

    def unknown_options(self, step: Step) -> list[str]:
        """Sentences on options that it would have to ignore."""
        return [NO_OPTION.format(name, self.name) for name in step.options if name not in self.options]

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path, *, resume: bool = False) -> None:
        """Raises BugError: keys are stored by dynoload, for every driver."""
        del address, folder, log, resume
        raise BugError(f"{self.name} cannot store the keys of {data.workload}")

    async def run_to_end(self, arguments: list[str], context: StepContext) -> tuple[CompletedProgram, str]:
        """Run it; returns its output too, which is kept in the log. Raises DriverError if it failed.

        Whether it failed is seen by its exit code or by its output.
        """
        host, packages = self._parts
        chunks: list[bytes] = []

        async def read(process: Process) -> None:
            output, _ = await process.streams.communicate()
            chunks.append(output)

        completed = await run_measured(
            host, self.command(arguments), context, read, grace_s=GRACE_S, environment=packages.environment
        )
        text = b"".join(chunks).decode(errors="replace")
        with context.log.open("a") as file:
            file.write(text)
        failed = WORDS_OF_FAILURE.search(text)
        if completed.exit_code or failed:
            lines = [line for line in text.splitlines() if WORDS_OF_FAILURE.search(line)] or text.splitlines()[-5:]
            raise DriverError(
                f"{self.name} {context.step.id} failed with exit code {completed.exit_code}:\n  "
                + "\n  ".join(lines[:5])
            )
        return completed, text

    def command(self, arguments: list[str]) -> list[str]:
        """The whole command line."""
        return [str(self._parts[1].find(*(f"usr/bin/{name}" for name in self.programs))), *arguments]
