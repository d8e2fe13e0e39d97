"""What libmemcached's load programs share: where they come from, and how one is run to its end.

Debian 12's libmemcached-tools 1.1 calls them memcslap and memcaslap; until 1.0 they were memslap and memaslap, and so
they still call themselves.
"""

from __future__ import annotations

import asyncio
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import BugError, DriverError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import DataSpec, Step
from mydyno.parts.debian import DebianPackages, UnpackedPackages
from mydyno.servers.sql import Address

PACKAGES = ("libmemcached-tools",)
GRACE_S = 30.0
WORDS_OF_FAILURE = re.compile(r"SERVER_ERROR|CLIENT_ERROR|^ERROR|Can't connect|Connection refused|[Ff]ail|assert", re.M)
NO_OPTION = "options.{}: {} has no such option"


@dataclass(frozen=True)
class Ended:
    """A program that ran to its end."""

    text: str
    started_unix_ns: int
    cpu_user_s: float
    cpu_system_s: float


class LibmemcachedProgram:
    """One of the two programs."""

    name = ""
    programs: tuple[str, ...] = ()
    """Its file by its new and its old name."""
    options: frozenset[str] = frozenset()
    """The workload options that it has words for."""

    def __init__(self) -> None:
        self._host: LocalHost | None = None
        self._packages: UnpackedPackages | None = None

    async def get(self, settings: Settings, host: LocalHost) -> None:
        """Debian's package, unpacked in the cache. Raises HostError."""
        self._host = host
        self._packages = await DebianPackages(settings.cache, host).get(PACKAGES)

    @property
    def version(self) -> str:
        """The Debian package's version, e.g. 1.1.4-1."""
        return self._parts[1].versions[PACKAGES[0]]

    @property
    def _parts(self) -> tuple[LocalHost, UnpackedPackages]:
        if self._host is None or self._packages is None:
            raise BugError(f"{self.name} was used before get()")
        return self._host, self._packages

    def unknown_options(self, step: Step) -> list[str]:
        """Sentences on options that it would have to ignore."""
        return [NO_OPTION.format(name, self.name) for name in step.options if name not in self.options]

    async def prepare(self, address: Address, data: DataSpec, folder: Path, log: Path) -> None:
        """Raises BugError: keys are stored by dynoload, whoever loads."""
        del address, folder, log
        raise BugError(f"{self.name} cannot store the keys of {data.workload}")

    async def run_to_end(
        self, arguments: list[str], step: Step, address: Address, log: Path, on_start: Callable[[int], None]
    ) -> Ended:
        """Run it; its words are kept in the log. Raises DriverError where it failed, by exit code or by its words."""
        host, packages = self._parts
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started_unix_ns = time.time_ns()
        process = await host.start(
            self.command(arguments),
            environment=packages.environment,
            stdout=asyncio.subprocess.PIPE,
            entering=address.entering,
        )
        on_start(process.pid)
        allowed_s = step.warmup_s + step.measure_s + GRACE_S
        try:
            output, _ = await asyncio.wait_for(process.streams.communicate(), allowed_s)
        except TimeoutError:
            raise DriverError(f"{self.name} still ran after {allowed_s:.0f} s and was killed") from None
        finally:
            await process.end(0.0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = output.decode(errors="replace")
        with log.open("a") as file:
            file.write(text)
        failed = WORDS_OF_FAILURE.search(text)
        if process.exit_code or failed:
            lines = [line for line in text.splitlines() if WORDS_OF_FAILURE.search(line)] or text.splitlines()[-5:]
            raise DriverError(
                f"{self.name} {step.id} failed with exit code {process.exit_code}:\n  " + "\n  ".join(lines[:5])
            )
        return Ended(
            text,
            started_unix_ns,
            round(after.ru_utime - before.ru_utime, 3),
            round(after.ru_stime - before.ru_stime, 3),
        )

    def command(self, arguments: list[str]) -> list[str]:
        """The whole command line."""
        return [str(self._parts[1].find(*(f"usr/bin/{name}" for name in self.programs))), *arguments]
