"""What sources have in common whose server's tree is unpacked once from an archive of x86-64 programs."""

from __future__ import annotations

import json
import platform
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mydyno.errors import HostError
from mydyno.files.atomic import write_text
from mydyno.files.atomic_dir import made_once
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.maven import Artifact
from mydyno.packages.npm import NpmPackage
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild, find_build

LIBRARIES = ("libaio1",)
"""What these builds need of Debian and a minimal system lacks."""


@dataclass(frozen=True)
class UnpackedSource(ABC):
    """A server from an archive."""

    record: ClassVar[str]
    """The file that marks a whole tree; it has the archive's coordinates."""
    archive: Artifact | NpmPackage
    version: str
    libraries: tuple[str, ...] = field(default=LIBRARIES, kw_only=True)

    @property
    def download_bytes(self) -> int:
        """The archive."""
        return self.archive.size_bytes

    @property
    @abstractmethod
    def title(self) -> str:
        """Where it comes from."""

    def _root(self, cache: Path) -> Path:
        return cache / "servers" / f"{self.archive.name}-{self.archive.version}"

    def present(self, cache: Path) -> str | None:
        """The version, if it is unpacked."""
        return self.version if (self._root(cache) / self.record).is_file() else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if platform.machine() != "x86_64":
            raise HostError(f"{name} exists for x86-64 only, this host is {platform.machine()}")
        root = self._root(cache)
        if self.present(cache) is None:
            async with made_once(root) as aside:
                if self.present(cache) is None:
                    await self._make(aside, cache, host, say)
                    facts = {"coordinates": self.archive.coordinates, "sha256": self.archive.sha256}
                    write_text(aside / self.record, json.dumps(facts, indent=1))
        libraries = await DebianPackages(cache, host).get(self.libraries)
        packages = {self.archive.coordinates: self.version, **libraries.versions}
        return await find_build(name, root, host, libraries.environment, packages)

    @abstractmethod
    async def _make(self, folder: Path, cache: Path, host: LocalHost, say: Say) -> None:
        """Fill the folder with the server's tree. Raises HostError."""
