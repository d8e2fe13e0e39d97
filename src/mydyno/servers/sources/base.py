"""The interface of server sources."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mydyno.hosts.local import LocalHost
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild


class Source(Protocol):
    """A source of one server."""

    @property
    def title(self) -> str:
        """The source, for the user."""

    @property
    def download_bytes(self) -> int:
        """About how much is downloaded; for plan and for progress."""

    def present(self, cache: Path) -> str | None:
        """The version that is in the cache already; None if it is not."""

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """The build, downloaded where it is not in the cache. Raises HostError if it cannot be obtained."""
