"""What every way to get a server is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mydyno.hosts.local import LocalHost
from mydyno.parts.progress import Say
from mydyno.servers.build import ServerBuild


class Source(Protocol):
    """One way to get one server."""

    @property
    def title(self) -> str:
        """Where it comes from, for people."""

    @property
    def download_bytes(self) -> int:
        """About how much is downloaded; for plan and for progress."""

    def present(self, cache: Path) -> str | None:
        """The version that is in the cache already; None where it is not."""

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """The build, downloaded where it is not in the cache. Raises HostError where it cannot be had."""
